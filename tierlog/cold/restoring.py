"""The restore of one partition: its HEAD claimed and walked, its log begun where HEAD ends.

Repeated after a crash it finds its own claim and its own log, and changes neither.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tierlog.cold import tree
from tierlog.cold.agreed import read_agreed
from tierlog.cold.codec import decode_head
from tierlog.cold.errors import ColdCorrupt, ColdError, InvariantBroken
from tierlog.cold.head import Writer
from tierlog.cold.lastproducers import last_producers
from tierlog.cold.publisher import ROUNDS_MAX, Draft, Publisher, first_head
from tierlog.cold.rebuild import Rebuilt, candidates, rebuild
from tierlog.cold.refusals import Fenced, SwapLost, name_of
from tierlog.cold.report import Outcome, PartitionReport
from tierlog.cold.walk import Walk
from tierlog.hot import LogSettings, Seed
from tierlog.hot.log import FIRST_OFFSET
from tierlog.metastore import values
from tierlog.objectstore.errors import NoSuchObject
from tierlog.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head, Incarnation
    from tierlog.cold.layout import PartitionKeys
    from tierlog.cold.localcopy import LocalCopies
    from tierlog.cold.publisher import Place
    from tierlog.cold.restoreplan import Plan
    from tierlog.env import Env
    from tierlog.hot import LogDirectory
    from tierlog.objectstore.port import ObjectStore


class PartitionRestore:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        keys: PartitionKeys,
        *,
        place: Place,
        plan: Plan,
        ancestors: tuple[Incarnation, ...],
        copies: LocalCopies,
        is_tiered: bool,
    ) -> None:
        self._env = env
        self._store = store
        self._keys = keys
        self._place = place
        self._plan = plan
        self._ancestors = ancestors
        self._copies = copies
        self._is_tiered = is_tiered
        self._problems: list[str] = []
        self._published_ms = -1
        """By the old cluster: a claim puts the restore's own time into HEAD."""

    async def peek(self) -> LeaderEpoch:
        """The least leader epoch that a claim may have now."""
        try:
            head = await self._read_head()
        except ColdCorrupt:
            head = None
        if head is None:
            uploaded = [one.name.leader_epoch for one in await candidates(self._store, self._keys)]
            return LeaderEpoch(max(uploaded, default=-1) + 1)
        is_mine = self._is_mine(head)
        return LeaderEpoch(head.writer.leader_epoch + (0 if is_mine else 1))

    async def run(self, directory: LogDirectory, *, epoch: LeaderEpoch) -> PartitionReport:
        try:
            head = await self._read_head()
        except ColdCorrupt as fault:
            if not await candidates(self._store, self._keys):
                return self._lost(epoch, _unreadable(fault))
            return await self._rebuild_and_begin(directory, epoch)
        if head is None and not self._is_tiered:
            await self._begin_log(directory, FIRST_OFFSET, Seed())
            return self._report(None, epoch, Outcome.UNTIERED)
        if head is None and await candidates(self._store, self._keys):
            return await self._rebuild_and_begin(directory, epoch)
        if head is not None and not self._is_mine(head):
            self._published_ms = head.published_ms
        try:
            head = await self._claim(epoch)
        except (ColdCorrupt, InvariantBroken) as fault:
            return self._lost(epoch, _unreadable(fault))
        return await self._begin(directory, head, Outcome.RESTORED)

    async def _rebuild_and_begin(
        self, directory: LogDirectory, epoch: LeaderEpoch
    ) -> PartitionReport:
        publisher = self._publisher(epoch)
        wrong = await publisher.wrong()
        what = "is gone" if wrong is None else f"cannot be read ({wrong.fault.reason})"
        self._problems.append(f"{self._keys.head} {what}: made again from the segments")
        found = await rebuild(self._store, self._keys)
        self._problems += found.problems
        if not found.entries:
            return self._lost(epoch, "no segment in the bucket is whole")
        head = await publisher.create(self._draft(found, epoch), instead_of=wrong)
        return await self._begin(directory, head, Outcome.REBUILT)

    def _draft(self, found: Rebuilt, epoch: LeaderEpoch) -> Draft:
        place = replace(self._place, start=found.entries[0].base)
        head = first_head(place, Writer(epoch, self._plan.process), self._plan.incarnation)
        now_ms = self._env.clock.now_ms()
        for entry in found.entries:
            head = tree.extend(self._skip(head, entry.base, now_ms), [entry])
        head = self._skip(head, Offset(found.end), now_ms)
        sealed = tree.seal(head, mint=self._mint, not_before_ms=now_ms, opened={})
        return Draft(head=sealed.head, pages=sealed.pages)

    def _skip(self, head: Head, to: Offset, now_ms: int) -> Head:
        if to == head.next_offset:
            return head
        self._problems.append(f"offsets {head.next_offset} to {to} are missing")
        return tree.skip(head, to, now_ms=now_ms)

    def _mint(self) -> int:
        return int.from_bytes(self._env.rng.randbytes(8))

    async def _begin(
        self, directory: LogDirectory, head: Head, outcome: Outcome
    ) -> PartitionReport:
        walk = Walk(self._store, self._keys, head)
        await walk.run()
        self._problems += walk.problems
        seed = Seed(
            producers=await self._known_producers(head, walk.last), epochs=head.leader_epochs
        )
        await self._begin_log(directory, max(head.next_offset, head.log_start), seed)
        if walk.last is None and head.next_offset == self._place.start:
            outcome, self._published_ms = Outcome.EMPTY, -1
        elif walk.last is not None and self._published_ms < 0:
            self._published_ms = walk.last.max_append_ms
        return self._report(head, head.writer.leader_epoch, outcome, walk)

    # HEAD

    async def _read_head(self) -> Head | None:
        """Raises `ColdCorrupt` once the same wrong bytes came twice."""
        key = self._keys.head
        try:
            return await read_agreed(
                self._store, key, lambda got: decode_head(got.data, key=key), self._env.tasks
            )
        except NoSuchObject:
            return None

    def _is_mine(self, head: Head) -> bool:
        mine = self._plan.incarnation, self._plan.process
        return (head.incarnation, head.writer.process) == mine

    async def _claim(self, epoch: LeaderEpoch) -> Head:
        """An old node that restarts right now claims, too, and takes a later epoch each time. It
        does so once; its next publish is refused."""
        for _ in range(ROUNDS_MAX):
            epoch = await self._epoch_now(epoch)
            try:
                return await self._publisher(epoch).claim()
            except Fenced:
                continue
        raise SwapLost(self._keys.head, of=name_of(self._place))

    def _publisher(self, epoch: LeaderEpoch) -> Publisher:
        return Publisher(
            self._store,
            self._keys,
            self._env,
            place=self._place,
            writer=Writer(epoch, self._plan.process),
            incarnation=self._plan.incarnation,
            ancestors=self._ancestors,
            copies=self._copies,
        )

    async def _epoch_now(self, epoch: LeaderEpoch) -> LeaderEpoch:
        head = await self._read_head()
        if head is None:
            return epoch
        if self._is_mine(head):
            return head.writer.leader_epoch
        return max(epoch, LeaderEpoch(head.writer.leader_epoch + 1))

    # The log

    async def _known_producers(self, head: Head, last: Entry | None) -> bytes:
        """Without them a retry of what was published would be written twice."""
        try:
            return await last_producers(self._store, self._keys, head, last)
        except (NoSuchObject, ColdCorrupt) as fault:
            self._problems.append(
                f"the producers of the last segment are unknown, their retries are not: {fault}"
            )
            return b""

    async def _begin_log(self, directory: LogDirectory, start: Offset, seed: Seed) -> None:
        name = values.log_name(bytes.fromhex(self._place.topic_id), self._place.partition)
        log = await directory.open_log(name, LogSettings(), start=start, seed=seed)
        await log.close()

    # What is said of it

    def _lost(self, epoch: LeaderEpoch, problem: str) -> PartitionReport:
        self._problems.append(problem)
        return self._report(None, epoch, Outcome.LOST)

    def _report(
        self,
        head: Head | None,
        epoch: LeaderEpoch,
        outcome: Outcome,
        walk: Walk | None = None,
    ) -> PartitionReport:
        """Records are those from the log start on: HEAD's own total has whole segments, and those
        that expired until they are garbage."""
        return PartitionReport(
            topic=self._place.topic,
            topic_id=self._place.topic_id,
            partition=self._place.partition,
            outcome=outcome,
            leader_epoch=epoch,
            log_start=head.log_start if head else FIRST_OFFSET,
            next_offset=max(head.next_offset, head.log_start) if head else FIRST_OFFSET,
            records=walk.records_from_start if walk else 0,
            bytes=walk.bytes if walk else 0,
            published_ms=self._published_ms,
            problems=tuple(self._problems),
        )


def _unreadable(fault: ColdError) -> str:
    return (
        f"HEAD cannot be used: {fault}. Put an earlier version of it back, or delete it and "
        "restore again: it is then made anew from the segments"
    )
