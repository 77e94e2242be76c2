"""The scrubber: looks after what this node has in the bucket, always, and a little at a time.

    daily     every manifest: HEAD, pages, chain, contiguity, totals
    weekly    a HEAD request for every object: there, its size, its checksum, its version
    90 days   every object read to its end, every hash compared
    hourly    whether the store's conditional writes still hold

What a reader could not make sense of is looked at at once, to its end (`suspect`).

What it finds is told once in the log, and stands in `/state` and the metrics until it is sound
again, or is not listed any more: what expired may be gone. What the local disk still has is put
back, byte for byte (`scrubrepair`). Where it stands is in a small file below `<data>/cold/`;
without the file, or with a damaged one, it begins anew.

A store that does not answer is waited for, with growing pauses.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from tierlog.cold import scrubround
from tierlog.cold.agreed import WRONG, read_agreed
from tierlog.cold.audit import Finding, Kind, Subject
from tierlog.cold.audit_object import Fault, ObjectAudit
from tierlog.cold.audit_partition import ask, opened_head
from tierlog.cold.errors import ColdError
from tierlog.cold.layout import parse_segment_key
from tierlog.cold.refusals import Fenced, ForeignIncarnation, HeadForked, HeadLost
from tierlog.cold.scrubrepair import ScrubRepair
from tierlog.cold.scrubround import At, Round
from tierlog.cold.scrubsettings import SETTINGS, ScrubSettings
from tierlog.cold.suspects import Suspects
from tierlog.cold.tieredpartition import STORE_AWAY
from tierlog.cold.walk import Walk
from tierlog.hot import smallfile
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.limited import Meter
from tierlog.types import Offset

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head
    from tierlog.cold.pagecache import PageCache
    from tierlog.cold.tieredpartition import TieredPartition
    from tierlog.cold.tierstats import TierStats
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore

logger = logging.getLogger(__name__)

FILE = "scrub.json"
STEPS_A_TURN = 16
"""Of each round, before others have a turn."""
PAUSE_MS_MIN, PAUSE_MS_MAX = 10_000, 600_000
"""After the store did not answer: twice as long each time."""
TRIES_MAX = 3
"""Of one place, before it is left to the next round."""
FINDINGS_MAX = 1000
"""Kept and told; more of them are one cause."""
OF_BYTES = (Kind.OBJECT_WRONG, Kind.OBJECT_UNSOUND)
OF_OBJECTS = (Kind.OBJECT_MISSING, Kind.OBJECT_HIDDEN, *OF_BYTES)


class Scrubber:
    """Implements `NodeChore`."""

    name = "scrub"

    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        partitions: Mapping[tuple[str, int], TieredPartition],
        pages: PageCache,
        *,
        path: str,
        stats: TierStats,
        probe: Callable[[], Awaitable[None]],
        settings: ScrubSettings | None = None,
    ) -> None:
        """`path`: the directory for its file."""
        self.due_from_ms: float = 0
        self.findings: dict[tuple[Kind, str], Finding] = {}
        """What is wrong now, by kind and key."""
        self.rounds = {name: Round() for name in ("manifests", "objects", "bytes")}
        self._env = env
        self._store = store
        self._partitions = partitions
        self._path = path
        self._stats = stats
        self._probe = probe
        self._settings = settings or SETTINGS
        self._repair = ScrubRepair(env, store, pages, stats)
        self._meter = Meter(env.clock, self._settings.bytes_per_second)
        self._suspects = Suspects(env.clock)
        self._pause_ms = 0
        self._tries: tuple[At, int] = At(), 0
        """At a place that the store does not answer for."""
        self._is_loaded = False
        self._next_probe_ms = 0
        self._saved_ms = 0
        self._totals: dict[str, float] = {}
        self._totals_ms = -1

    def suspect(self, key: str) -> None:
        """Somebody could not read this object: look at it soon, unless that was just done."""
        if self._suspects.add(key) and not self._pause_ms:
            self.due_from_ms = min(self.due_from_ms, self._env.clock.now_ms())

    async def run(self) -> None:
        """What is due. Raises what the store does: then it waits."""
        now_ms = self._env.clock.now_ms()
        if not self._is_loaded:
            await self._load(now_ms)
        try:
            await self._work()
        except BaseException:
            self._pause_ms = min(max(2 * self._pause_ms, PAUSE_MS_MIN), PAUSE_MS_MAX)
            raise
        else:
            self._pause_ms = 0
        finally:
            self._plan()
        await self._save_if_due()

    async def _work(self) -> None:
        now_ms, period_ms = self._env.clock.now_ms(), self._settings.probe_period_ms
        # No further ahead than a period: the clock may have been set back.
        self._next_probe_ms = min(self._next_probe_ms, now_ms + period_ms)
        if now_ms >= self._next_probe_ms:
            await self._probe()
            self._next_probe_ms = self._env.clock.now_ms() + period_ms
        for _ in range(STEPS_A_TURN):
            if (key := self._suspects.first()) is None:
                break
            await self._look_at_suspect(key)
        for name, step in (
            ("manifests", self._step_manifest),
            ("objects", self._step_object),
            ("bytes", self._step_bytes),
        ):
            for _ in range(STEPS_A_TURN):
                if not await self._stepped(name, step):
                    break

    # When

    def _due_ms(self, name: str) -> float:
        now_ms = self._env.clock.now_ms()
        if not 0 <= now_ms - self._totals_ms < self._settings.sum_period_ms:
            self._sum_up(now_ms)
        total = self._totals[name]
        unit = total / max(self._totals["objects"], 1) if name == "bytes" else 1
        return self.rounds[name].due_ms(
            now_ms, total=total, period_ms=self._settings.period_ms(name), unit=unit
        )

    def _sum_up(self, now_ms: int) -> None:
        heads = [one.prefix.head for one in self._partitions.values() if one.prefix.head]
        pages = [page for head in heads for page in (*head.leaves, *head.indexes)]
        count = sum(len(head.entries) for head in heads) + sum(page.segments for page in pages)
        size = sum(head.bytes for head in heads)
        self._totals = {"manifests": len(heads), "objects": count, "bytes": size}
        self._totals_ms = now_ms
        self._forget_gone()

    def _forget_gone(self) -> None:
        """Of a topic that was deleted nothing is damaged any more, nor of what expired."""
        here = {one.prefix.keys.prefix: one for one in self._partitions.values()}
        for at, finding in list(self.findings.items()):
            partition = _owner(here, finding.key)
            if partition is None or _is_over(finding, partition.prefix.log_start):
                del self.findings[at]

    def _plan(self) -> None:
        now_ms = self._env.clock.now_ms()
        due = (
            now_ms
            if self._suspects
            else min(self._next_probe_ms, *(self._due_ms(name) for name in self.rounds))
        )
        pause_ms = self._pause_ms * (0.5 + self._env.rng.random() / 2)
        self.due_from_ms = max(
            min(max(due, now_ms + 1), now_ms + self._settings.sum_period_ms), now_ms + pause_ms
        )

    # Steps

    async def _stepped(
        self, name: str, step: Callable[[TieredPartition, At], Awaitable[tuple[At | None, float]]]
    ) -> bool:
        """One step of a round, if it is due. Whether one was made."""
        now_ms, at = self._env.clock.now_ms(), self.rounds[name]
        if self._due_ms(name) > now_ms:
            return False
        here = at.choose(key for key, one in self._partitions.items() if _is_ours(one))
        if here is None:
            at.finish(now_ms)
            return False
        partition = self._partitions[here.place]
        try:
            following, units = await self._guarded(partition, step(partition, here))
        except STORE_AWAY:
            if self._is_tried_enough(here):
                at.pass_by(here, units=1)
            raise
        if following is None:
            at.pass_by(here, units=units)
        else:
            at.move(following, units=units)
        return True

    def _is_tried_enough(self, here: At) -> bool:
        """One object that cannot be had must not keep the round from all others."""
        place, count = self._tries
        self._tries = here, count + 1 if place == here else 1
        return self._tries[1] >= TRIES_MAX

    async def _guarded(
        self, partition: TieredPartition, work: Awaitable[tuple[At | None, float]]
    ) -> tuple[At | None, float]:
        """What concerns the partition alone does not end the round."""
        try:
            return await work
        except (*STORE_AWAY, ForeignIncarnation):
            raise
        except (ColdError, NoSuchObject, OSError) as fault:
            if self._is_here(partition):
                logger.info("%s is passed by: %s", partition.uploader.name, fault)
            return None, 1

    def _is_here(self, partition: TieredPartition) -> bool:
        place = partition.place
        return self._partitions.get((place.topic_id, place.partition)) is partition

    async def _step_manifest(self, partition: TieredPartition, _: At) -> tuple[At | None, float]:
        uploader = partition.uploader
        keys, publisher = partition.prefix.keys, uploader.publisher
        before = self._under(keys.prefix)

        async def refreshed() -> Head:
            head = await publisher.refresh()
            assert head is not None, "what is known is there, or lost"
            return head

        if partition.prefix.head is None:
            return None, 0
        try:
            head = await self._repair.head(uploader, refreshed)
        except Fenced:
            return None, 1
        except WRONG:
            await self._look_at_head(partition)
            return None, 1
        except HeadForked as fault:
            self._found(partition, Kind.HEAD_WRONG, keys.head, "the HEAD that follows", str(fault))
            return None, 1
        except NoSuchObject as fault:  # What the lost one lists is not there either.
            found = f"none, or an older one; it is not put back: {fault}"
            self._found(partition, Kind.HEAD_OLDER, keys.head, "the HEAD that was here", found)
            return None, 1
        partition.prefix.adopt(head)
        walk = Walk(self._store, keys, head, tasks=self._env.tasks)
        unlisted = {key for kind, key in before if kind in OF_OBJECTS}
        async for entry in walk.entries():
            unlisted.discard(keys.full(entry.key))
            await asyncio.sleep(0)
        back = {keys.full(ref.key) for ref in walk.lost if await self._repair.page(uploader, ref)}
        seen = [one for one in walk.findings if one.key not in back]
        for key in before - {(one.kind, one.key) for one in seen}:
            # Where a page is closed nobody knows what it lists.
            if key[0] not in OF_OBJECTS or (key[1] in unlisted and not seen):
                self.findings.pop(key, None)
        for one in seen:
            self._tell(one)
        self._stats.scrubbed_manifests += 1
        return None, 1

    async def _look_at_head(self, partition: TieredPartition) -> None:
        """Twice the same wrong bytes are a finding; otherwise the store stuttered."""
        key = partition.prefix.keys.head
        try:
            await read_agreed(self._store, key, lambda got: opened_head(key, got), self._env.tasks)
        except WRONG as fault:
            expected = "a manifest that holds together"
            self._found(partition, Kind.HEAD_WRONG, key, expected, fault.reason)

    async def _step_object(self, partition: TieredPartition, at: At) -> tuple[At | None, float]:
        entry = await partition.prefix.entry_for(Offset(max(at.offset, partition.prefix.log_start)))
        if entry is None:
            return None, 0
        key = partition.prefix.full_key(entry.key)
        fault = await ask(self._store, key, entry)
        if fault is None and any((kind, key) in self.findings for kind in OF_BYTES):
            fault = await self._read(partition, entry)  # What the store says need not be so.
        await self._judge(partition, entry, fault)
        self._stats.scrubbed_objects += 1
        return at._replace(offset=entry.next_offset), 1

    async def _step_bytes(self, partition: TieredPartition, at: At) -> tuple[At | None, float]:
        entry = await partition.prefix.entry_for(Offset(max(at.offset, partition.prefix.log_start)))
        if entry is None:
            return None, 0
        await self._look(partition, entry)
        return at._replace(offset=entry.next_offset), entry.size

    async def _look(self, partition: TieredPartition, entry: Entry) -> None:
        """At every byte of it."""
        fault = await ask(self._store, partition.prefix.full_key(entry.key), entry)
        if fault is None:
            fault = await self._read(partition, entry)
        await self._judge(partition, entry, fault)
        self._stats.scrubbed_bytes += entry.size

    async def _look_at_suspect(self, key: str) -> None:
        here = {one.prefix.keys.prefix: one for one in self._partitions.values() if _is_ours(one)}
        partition = _owner(here, key)
        try:
            if partition is not None:
                await self._guarded(partition, self._step_suspect(partition, key))
        except STORE_AWAY:
            self._suspects.put_off(key, tries_max=TRIES_MAX)
            raise
        self._suspects.looked(key)

    async def _step_suspect(self, partition: TieredPartition, key: str) -> tuple[None, float]:
        name = parse_segment_key(partition.prefix.keys.relative(key) or "")
        entry = None if name is None else await partition.prefix.entry_for(name.base)
        if entry is None or partition.prefix.full_key(entry.key) != key:
            return None, 0  # It was merged, or has expired.
        await self._look(partition, entry)
        return None, entry.size

    async def _read(self, partition: TieredPartition, entry: Entry) -> Fault | None:
        try:
            return await ObjectAudit(
                self._store,
                partition.prefix.full_key(entry.key),
                entry,
                _subject(partition),
                self._env.tasks,
                before_read=self._wait_for_rate,
            ).run()
        except NoSuchObject:
            return Fault(Kind.OBJECT_MISSING, f"{entry.size} bytes", "there is none")

    async def _wait_for_rate(self, size: int) -> None:
        if wait := self._meter.owe(size):
            await asyncio.sleep(wait)

    # Findings

    async def _judge(self, partition: TieredPartition, entry: Entry, fault: Fault | None) -> None:
        key = partition.prefix.full_key(entry.key)
        if fault is not None and not await self._is_listed(partition, entry):
            fault = None  # It left the manifest meanwhile, and may go.
        if fault is not None:
            fault = await self._repair.object(partition, entry, fault)
        for kind in OF_OBJECTS:
            if fault is None or fault.kind is not kind:
                self.findings.pop((kind, key), None)
        if fault is not None:
            self._found(partition, fault.kind, key, fault.expected, fault.found, entry)

    async def _is_listed(self, partition: TieredPartition, entry: Entry) -> bool:
        """By a HEAD that was read just now: a newer leader may have merged it, or let it expire."""
        publisher, prefix = partition.uploader.publisher, partition.prefix
        if not self._is_here(partition):
            return False
        with suppress(HeadLost):  # One that is older than the known one tells nothing.
            if (head := await publisher.refresh()) is not None:
                prefix.adopt(head)
        if publisher.fence is not None or entry.next_offset <= prefix.log_start:
            return False
        now = await prefix.entry_for(entry.base)
        return now is not None and now.key == entry.key

    def _found(
        self,
        partition: TieredPartition,
        kind: Kind,
        key: str,
        expected: str,
        found: str,
        entry: Entry | None = None,
    ) -> None:
        self._tell(
            Finding(
                kind=kind,
                key=key,
                expected=expected,
                found=found,
                topic=partition.place.topic,
                partition=partition.place.partition,
                start=None if entry is None else entry.base,
                end=None if entry is None else entry.next_offset,
            )
        )

    def _tell(self, finding: Finding) -> None:
        """Once."""
        key = finding.kind, finding.key
        if key not in self.findings and len(self.findings) < FINDINGS_MAX:
            self._stats.scrub_findings += 1
            logger.error("the store is damaged: %s. To do: %s", finding.sentence, finding.advice)
        if key in self.findings or len(self.findings) < FINDINGS_MAX:
            self.findings[key] = finding

    def _under(self, prefix: str) -> set[tuple[Kind, str]]:
        return {key for key in self.findings if key[1].startswith(prefix)}

    # Where it stands

    async def _load(self, now_ms: int) -> None:
        self._next_probe_ms = now_ms + self._settings.probe_period_ms  # The start has just probed.
        self._saved_ms = now_ms
        try:
            data = await self._env.tasks.in_thread(
                smallfile.read_all, self._env.disk, f"{self._path}/{FILE}"
            )
            value = json.loads(data)
        except (OSError, ValueError):
            value = {}
        for name in self.rounds:
            known = value.get(name) if isinstance(value, dict) else None
            self.rounds[name] = scrubround.from_value(known)
        self._is_loaded = True

    async def _save_if_due(self) -> None:
        now_ms = self._env.clock.now_ms()
        if abs(now_ms - self._saved_ms) < self._settings.save_period_ms:
            return
        self._saved_ms = now_ms
        value = {name: scrubround.to_value(one) for name, one in self.rounds.items()}
        data = json.dumps(value).encode()
        try:
            await self._env.tasks.in_thread(
                smallfile.replace, self._env.disk, self._path, FILE, data
            )
        except OSError as fault:
            logger.info("%s/%s is not written: %s", self._path, FILE, fault)


def _is_ours(partition: TieredPartition) -> bool:
    return not partition.is_fenced and partition.prefix.head is not None


def _owner(here: Mapping[str, TieredPartition], key: str) -> TieredPartition | None:
    """By prefix: of the partition itself, or of one of its folders."""
    folder = key.rpartition("/")[0]
    return here.get(f"{folder}/") or here.get(f"{folder.rpartition('/')[0]}/")


def _is_over(finding: Finding, log_start: Offset) -> bool:
    is_of_object = finding.kind in OF_OBJECTS and finding.end is not None
    return is_of_object and (finding.end or 0) <= log_start


def _subject(partition: TieredPartition) -> Subject:
    place = partition.place
    return Subject(place.topic, place.topic_id, place.partition)
