"""Collects the garbage of one partition: a chore that deletes what HEAD has given up (U7, steps 2
to 4), after its grace and not a moment sooner.

In this order, so that a crash anywhere is made good by whoever comes next:
1. HEAD is read back, and the metastore is asked. The writer must still be this process, HEAD must
   name the topic's policy of now; what is listed, held or locked stays.
2. Segment objects are deleted, by their versions where the store keeps them.
3. A receipt is written, under a key that names what was deleted: a repetition finds it.
4. Pages go, which told what step 2 was to delete; then HEAD forgets all of it.

Garbage is collected in lots: everything whose time lies in the same slice of the grace period. So
an hour of a slow partition costs one receipt and one commit, and a repetition has the same lot.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from tierlog.cold import codec
from tierlog.cold.cell import write_once
from tierlog.cold.changes import Collected, SetPolicy
from tierlog.cold.errors import ColdCorrupt, ColdError
from tierlog.cold.expiry import covering, lot_ms, when_collected
from tierlog.cold.layout import parse_segment_key
from tierlog.cold.page import LeafPage
from tierlog.cold.receipt import Deleted, decode_receipt, encode_receipt, receipt_for
from tierlog.cold.refusals import SwapLost
from tierlog.errors import Kind
from tierlog.objectstore.errors import NoSuchObject, StoreDenied
from tierlog.objectstore.port import Doomed
from tierlog.types import Offset

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import ClassVar

    from tierlog.cold.head import Garbage, Head, Policy
    from tierlog.cold.tiersettings import TierSettings, TopicTiering
    from tierlog.cold.tierstats import TierStats
    from tierlog.cold.uploader import PartitionUploader
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore

logger = logging.getLogger(__name__)

DELETES_MAX = 1000
"""Objects of one request, as the port has it."""
LOT_PAGES_MAX = 8
"""Leaf pages that take their segments with them, in one lot: some 2,000 objects."""
REFUSED_MS = 3_600_000
"""Until what may not go is looked at again, if no other HEAD comes before."""


ABSENT_MS = 60_000
"""Until a page that was not there is asked for once more."""


class Uncollected(ColdError):
    """Garbage stays in the bucket for now; `is_trouble`: somebody may have to act."""

    kind: ClassVar[Kind] = Kind.RETRY

    def __init__(self, reason: str, *, is_trouble: bool = True) -> None:
        super().__init__(reason)
        self.is_trouble = is_trouble


class Doom(NamedTuple):
    """An item of the garbage, and the segments that go by it."""

    garbage: Garbage
    segments: tuple[Deleted, ...]
    locked_until_ms: int = -1


class PartitionCollector:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        uploader: PartitionUploader,
        *,
        settings: TierSettings,
        stats: TierStats,
        policy_of: Callable[[], Awaitable[Policy | None]] | None = None,
    ) -> None:
        self.due_from_ms: float = inf
        self._env = env
        self._store = store
        self._uploader = uploader
        self._publisher = uploader.publisher
        self._prefix = uploader.prefix
        self._grace_ms = settings.garbage_grace_ms
        self._stats = stats
        self._policy_of = policy_of
        self._refused: dict[str, float] = {}
        """Garbage that may not go yet, and when it is looked at again."""
        self._absent: set[str] = set()
        """Pages that the store did not have when it was last asked for them."""
        self._prefix.watch(self.look)
        self.look()

    def reconfigure(self, tiering: TopicTiering) -> None:
        """What is garbage stays it."""

    def clock_set_back(self) -> None:
        latest_ms = self._env.clock.now_ms() + REFUSED_MS
        self._refused = {key: min(ms, latest_ms) for key, ms in self._refused.items()}
        self.look()

    # When

    def look(self) -> None:
        head = self._prefix.head
        self.due_from_ms = inf if head is None else min(self._dues(head), default=inf)

    def _dues(self, head: Head) -> list[float]:
        return [max(self._due_ms(one, head), self._refused.get(one.key, 0)) for one in head.garbage]

    def _due_ms(self, one: Garbage, head: Head) -> float:
        return lot_ms(when_collected(one, head), grace_ms=self._grace_ms)

    def _lot(self, head: Head, now_ms: int) -> list[Garbage]:
        """The oldest, as far as it may go as one."""
        due = [
            (time_ms, one)
            for one, time_ms in zip(head.garbage, self._dues(head), strict=True)
            if time_ms <= now_ms
        ]
        first_ms = min((time_ms for time_ms, _ in due), default=0)
        lot, pages = [], 0
        for time_ms, one in due:
            pages += one.segments_from >= 0
            if time_ms == first_ms and (one.segments_from < 0 or pages <= LOT_PAGES_MAX):
                lot.append(one)
        return lot

    # What

    async def run(self) -> None:
        """One lot."""
        known = await self._uploader.claimed()
        due = self._lot(known, self._env.clock.now_ms())
        try:
            await self._go_through(due)
        except Uncollected as why:
            self._put_off(due, why)
        self.look()

    async def _go_through(self, due: Sequence[Garbage]) -> None:
        opened = [await self._opened(one) for one in due]
        lot = [one for one in opened if one is not None]
        if absent := len(opened) - len(lot):  # All were asked for: they are waited for but once.
            raise Uncollected(f"{absent} pages are not there", is_trouble=False)
        head = await self._read_back()
        if lot and await self._is_policy_current(head):
            lot = [one for one in lot if await self._may_go(one, head)]
            if lot:
                await self._collect(lot, head)
                self._uploader.status.garbage_error = None

    def _put_off(self, due: Sequence[Garbage], why: Uncollected) -> None:
        """As a whole, so that it is the same lot later. Not raised: a store that refuses deletions
        still takes uploads."""
        status = self._uploader.status
        if why.is_trouble and status.garbage_error is None:
            logger.warning("%s: garbage stays in the store: %s", self._uploader.name, why)
        if why.is_trouble:
            status.garbage_error = str(why)
        again_ms = self._env.clock.now_ms() + (REFUSED_MS if why.is_trouble else ABSENT_MS)
        self._refused.update((one.key, again_ms) for one in due)

    async def _opened(self, one: Garbage) -> Doom | None:
        """With what a page takes along. One that is gone was collected: only HEAD does not know.
        But a store may miss an object for a moment, and HEAD would forget what it lists: it is
        believed when it says so again, a turn later. None: it said so for the first time."""
        if (name := parse_segment_key(one.key)) is not None:
            return Doom(one, (_deleted(one, base=name.base, last=name.last),))
        if one.segments_from < 0:
            return Doom(one, ())
        try:
            got = await self._store.get(self._prefix.full_key(one.key))
        except NoSuchObject:
            if one.key in self._absent:
                return Doom(one, ())
            self._absent.add(one.key)
            return None
        self._absent.discard(one.key)
        if sha256(got.data).hexdigest() != one.sha256:
            raise ColdCorrupt(one.key, "its SHA-256 is not the published one")
        page = codec.decode_page(got.data, key=one.key)
        if not isinstance(page, LeafPage):
            raise ColdCorrupt(one.key, "an index page stands where a leaf page belongs")
        entries = [entry for entry in page.entries if entry.base >= one.segments_from]
        return Doom(
            one,
            tuple(
                _deleted(
                    one._replace(
                        key=entry.key,
                        version_id=entry.version_id,
                        sha256=entry.sha256,
                        size=entry.size,
                    ),
                    base=entry.base,
                    last=entry.last,
                )
                for entry in entries
            ),
            max((entry.retain_until_ms for entry in entries), default=-1),
        )

    # Whether

    async def _read_back(self) -> Head:
        head = await self._publisher.refresh()
        if self._publisher.fence is not None:
            raise self._publisher.fence
        assert head is not None, "it was claimed"
        assert head.writer == self._publisher.writer, "or there is a fence"
        self._prefix.adopt(head)
        return head

    async def _is_policy_current(self, head: Head) -> bool:
        """U7b. Where HEAD does not name the topic's policy it is told, and the lot waits."""
        if self._policy_of is None:
            return True
        policy = await self._policy_of()
        if policy is not None and head.policy == policy:
            return True
        if policy is not None:
            self._prefix.adopt(await self._publisher.commit(SetPolicy(policy)))
            return False
        for one in head.garbage:  # The topic is gone: its objects are the sweep's.
            self._refused[one.key] = self._env.clock.now_ms() + REFUSED_MS
        return False

    async def _may_go(self, doom: Doom, head: Head) -> bool:
        why = await self._refusal(doom, head)
        if why is None:
            self._refused.pop(doom.garbage.key, None)
            return True
        self._refused[doom.garbage.key] = self._env.clock.now_ms() + REFUSED_MS
        logger.warning("%s: %s stays: %s", self._uploader.name, doom.garbage.key, why)
        return False

    async def _refusal(self, doom: Doom, head: Head) -> str | None:
        one, now_ms = doom.garbage, self._env.clock.now_ms()
        if one not in head.garbage or now_ms < one.not_before_ms:
            return "it is not garbage, or not yet"
        if now_ms < doom.locked_until_ms:
            return f"a segment of it is locked until {doom.locked_until_ms}"
        for segment in doom.segments:
            if not segment.why:
                return "nobody says why it is garbage"
            held = covering(head.holds, segment.base, _end(segment))
            if held is not None:
                return f"hold {held.id} keeps it"
            if await self._is_listed(segment, head):
                return "it is listed"
        listed = {row.key for row in (*head.indexes, *head.leaves)}
        return "it is listed" if one.key in listed else None

    async def _is_listed(self, segment: Deleted, head: Head) -> bool:
        """Whether a reader of HEAD would be sent to it."""
        if segment.last < min(head.garbage_end, head.log_start):
            return False
        if not segment.last < head.next_offset:
            return True  # Nobody knows it.
        entry = await self._prefix.entry_for(segment.base)
        return entry is None or entry.key == segment.key

    # Deleting

    async def _collect(self, lot: Sequence[Doom], head: Head) -> None:
        segments = [segment for doom in lot for segment in doom.segments]
        await self._delete([Doomed(one.key, one.version_id) for one in segments])
        if segments:
            await self._write_receipt(segments, head)
        pages = [one.garbage for one in lot if parse_segment_key(one.garbage.key) is None]
        await self._delete([Doomed(one.key, one.version_id) for one in pages])
        self._stats.collected_objects += len(segments) + len(pages)
        self._stats.collected_bytes += sum(one.size for one in segments)
        keys = [one.garbage.key for one in lot]
        self._absent.difference_update(keys)
        self._prefix.adopt(await self._publisher.commit(Collected(keys)))

    async def _delete(self, doomed: Sequence[Doomed]) -> None:
        full = [Doomed(self._prefix.full_key(key), version_id) for key, version_id in doomed]
        for start in range(0, len(full), DELETES_MAX):
            try:
                failed = await self._store.delete(full[start : start + DELETES_MAX])
            except StoreDenied as fault:
                raise Uncollected(str(fault)) from fault
            for key, reason in failed:
                raise Uncollected(f"{key} and {len(failed) - 1} more: {reason}")

    async def _write_receipt(self, segments: Sequence[Deleted], head: Head) -> None:
        receipt = receipt_for(head, segments, now_ms=self._env.clock.now_ms())
        key = self._prefix.full_key(receipt.key)
        try:
            await write_once(self._store, key, encode_receipt(receipt), self._env.rng)
        except SwapLost:
            # An earlier try got as far as this, at another time.
            found = decode_receipt((await self._store.get(key)).data, key=key)
            if found.objects != receipt.objects:
                raise ColdCorrupt(key, "it tells of other objects than its key") from None
        self._stats.receipt_count += 1


def _deleted(one: Garbage, *, base: Offset, last: Offset) -> Deleted:
    return Deleted(
        key=one.key,
        version_id=one.version_id,
        sha256=one.sha256,
        size=one.size,
        base=base,
        last=last,
        why=one.why,
        policy_version=one.policy_version,
        expired_ms=one.expired_ms,
        not_before_ms=one.not_before_ms,
    )


def _end(segment: Deleted) -> Offset:
    return Offset(segment.last + 1)
