"""The audit of one partition, from the bucket alone, read-only.

HEAD first, then what the store lists: an object that HEAD names was there before it, and goes a
grace period after it left HEAD. So a live node beside the audit is no damage; where something is
found all the same and HEAD has moved meanwhile, the partition is looked at again.

Requests: a GET of HEAD and of each page, a LIST for each 1,000 objects, and, where a listing does
not tell checksums (S3), a HEAD request for each segment: 1/12 of the price of a LIST each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tierlog.cold import canonical, headage, invariants
from tierlog.cold.agreed import WRONG, read_agreed
from tierlog.cold.audit import Finding, Kind, PartitionAudit
from tierlog.cold.audit_object import Fault, ObjectAudit
from tierlog.cold.codec import decode_head
from tierlog.cold.crew import Crew
from tierlog.cold.layout import HEAD
from tierlog.cold.walk import Walk
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from tierlog.cold.audit import Subject
    from tierlog.cold.auditstate import AuditState
    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head, Incarnation
    from tierlog.cold.layout import PartitionKeys
    from tierlog.env import Env
    from tierlog.objectstore.port import Got, ObjectStore, Stat

ROUNDS_MAX = 3
ASKS_AT_ONCE = 16
"""HEAD requests of one partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    is_deep: bool = False
    objects_at_once: int = 4
    """Read side by side, over all partitions that are looked at."""
    before_read: Callable[[int], Awaitable[None]] | None = None
    """Told how many bytes are about to be read; waits for a rate."""
    on_bytes: Callable[[int], None] = lambda _: None
    """Told of each object that is done."""


class PartitionCheck:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        keys: PartitionKeys,
        subject: Subject,
        *,
        lives: Collection[Incarnation],
        settings: AuditSettings,
        known: Head | None = None,
        state: AuditState | None = None,
    ) -> None:
        """`known` is a node's own copy of HEAD, if there is one to compare with."""
        self._env = env
        self._store = store
        self._keys = keys
        self._subject = subject
        self._lives = lives
        self._settings = settings
        self._known = known
        self._state = state

    async def run(self) -> PartitionAudit:
        for _ in range(ROUNDS_MAX):
            audit = await _Round(self).run()
            if not audit.findings or await self.version() == audit.head_version:
                break
        return audit

    async def version(self) -> int:
        """Of the HEAD that is there now; -1: none that can be read."""
        try:
            return (await self.read_head())[0].version
        except (NoSuchObject, *WRONG):
            return -1

    async def read_head(self) -> tuple[Head, Stat]:
        """Raises `NoSuchObject`, `ColdCorrupt` and `InvariantBroken`."""
        check = partial(opened_head, self._keys.head)
        return await read_agreed(self._store, self._keys.head, check, self._env.tasks)


class _Round:
    """One look at one partition."""

    def __init__(self, check: PartitionCheck) -> None:
        self._check = check
        self._env = check._env
        self._store = check._store
        self._keys = check._keys
        self._subject = check._subject
        self._settings = check._settings
        self._state = check._state
        self._findings: list[Finding] = []
        self._notes: list[str] = []
        self._named: set[str] = set()
        self._read_bytes = self._skipped_bytes = 0

    async def run(self) -> PartitionAudit:
        try:
            head, stat = await self._check.read_head()
        except NoSuchObject:
            return await self._without_head()
        except WRONG as fault:
            reason = fault.reason
            self._add(Kind.HEAD_WRONG, self._keys.head, "a manifest that holds together", reason)
            return self._audit(None, None)
        if not self._is_here(head):
            return self._audit(None, None)
        self._check_known(head)
        listed = await self._listed()
        walk = Walk(self._store, self._keys, head, tasks=self._env.tasks)
        await self._check_objects(walk, head, listed)
        self._findings += walk.findings
        self._check_garbage(head)
        await self._check_age(head, stat, listed)
        return self._audit(head, walk)

    # HEAD

    async def _without_head(self) -> PartitionAudit:
        listed = await self._listed()
        if listed or self._check._known is not None:
            expected = f"HEAD beside {len(listed)} objects"
            if self._check._known is not None:
                expected = f"version {self._check._known.version}, of which this node has a copy"
            self._add(Kind.HEAD_MISSING, self._keys.head, expected, "there is none")
        return self._audit(None, None)

    def _is_here(self, head: Head) -> bool:
        """Whether it is the manifest of this partition; what it lists is not here else."""
        subject = self._subject
        if (head.topic_id, head.partition) != (subject.topic_id, subject.partition):
            self._add(
                Kind.HEAD_WRONG,
                self._keys.head,
                f"the manifest of {subject.topic_id}/{subject.partition}",
                f"that of {head.topic_id}/{head.partition}",
            )
            return False
        if head.incarnation not in self._check._lives:
            self._add(
                Kind.HEAD_WRONG,
                self._keys.head,
                "a life of the cluster that STATE knows",
                f"life {head.incarnation.number} ({head.incarnation.id})",
            )
        return True

    def _check_known(self, head: Head) -> None:
        known = self._check._known
        if known is None or head.version > known.version:
            return
        if head.version < known.version:
            self._add(
                Kind.HEAD_OLDER,
                self._keys.head,
                f"version {known.version}, of which this node has a copy",
                f"version {head.version}",
            )
        elif head.nonce != known.nonce:
            self._add(
                Kind.HEAD_WRONG,
                self._keys.head,
                f"version {known.version} as this node has it",
                "another of that version",
            )

    async def _check_age(self, head: Head, stat: Stat, listed: dict[str, Stat]) -> None:
        """Whether objects tell of a later HEAD than the one that is there."""
        behind = await headage.behind(self._store, self._keys, head, listed)
        now_ms = self._env.clock.now_ms()
        if not behind:
            return
        segments = "1 segment" if len(behind) == 1 else f"{len(behind)} segments"
        if (reason := headage.judge(behind, head_ms=stat.modified_ms, now_ms=now_ms)) is None:
            self._notes.append(
                f"{segments} behind offset {head.next_offset} not listed yet: "
                "an upload under way, or cut off"
            )
            return
        end = behind[-1].name.last + 1
        self._add(
            Kind.HEAD_OLDER,
            self._keys.head,
            f"a manifest up to {end}: {segments} from {behind[0].key} on, {reason}",
            f"it ends at {head.next_offset}, version {head.version}",
            head.next_offset,
            end,
        )

    def _check_garbage(self, head: Head) -> None:
        for one in head.garbage:
            if one.key in self._named:
                self._add(
                    Kind.GARBAGE_LISTED,
                    self._keys.full(one.key),
                    "garbage that nothing refers to",
                    "the manifest lists it as well",
                )

    # Objects

    async def _listed(self) -> dict[str, Stat]:
        """By the key as entries have it; HEAD aside."""
        found: dict[str, Stat] = {}
        async for page in self._store.list(self._keys.prefix):
            for stat in page:
                key = stat.key.removeprefix(self._keys.prefix)
                if key != HEAD:
                    found[key] = stat
        return found

    async def _check_objects(self, walk: Walk, head: Head, listed: dict[str, Stat]) -> None:
        at_once = self._settings.objects_at_once if self._settings.is_deep else ASKS_AT_ONCE
        async with Crew(self._env.tasks, at_once, name="audit") as crew:
            async for entry in walk.entries():
                self._named.add(entry.key)
                stat = listed.get(entry.key)
                await crew.give(self._check_object(walk, head, entry, stat))

    async def _check_object(self, walk: Walk, head: Head, entry: Entry, stat: Stat | None) -> None:
        fault = await self._ask(entry, stat)
        if fault is None and self._settings.is_deep:
            fault = await self._read(head, entry)
        elif fault is not None and fault.kind is Kind.OBJECT_HIDDEN and self._settings.is_deep:
            fault = await self._read(head, entry) or fault
        if fault is not None:
            walk.complain(fault.kind, entry, fault.expected, fault.found)

    async def _ask(self, entry: Entry, stat: Stat | None) -> Fault | None:
        """A listing has neither versions nor, on S3, checksums; what it does not have is gone."""
        key = self._keys.full(entry.key)
        is_told = stat is None or (stat.crc32c is not None and entry.version_id is None)
        if is_told:
            return await judge(self._store, key, entry, stat)
        return await ask(self._store, key, entry)

    async def _read(self, head: Head, entry: Entry) -> Fault | None:
        key = self._keys.full(entry.key)
        if self._state is not None and self._state.is_done(key, entry):
            self._skipped_bytes += entry.size
            self._settings.on_bytes(entry.size)
            return None
        try:
            fault = await ObjectAudit(
                self._store,
                key,
                entry,
                self._subject,
                self._env.tasks,
                before_read=self._settings.before_read,
            ).run()
        except NoSuchObject:
            return Fault(Kind.OBJECT_MISSING, f"{entry.size} bytes", "there is none")
        self._read_bytes += entry.size
        self._settings.on_bytes(entry.size)
        if fault is None and self._state is not None:
            self._state.note(key, entry, head_version=head.version)
        return fault

    # What is said of it

    def _add(
        self,
        kind: Kind,
        key: str,
        expected: str,
        found: str,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        self._findings.append(
            Finding(
                kind=kind,
                key=key,
                expected=expected,
                found=found,
                topic=self._subject.topic,
                partition=self._subject.partition,
                start=start,  # type: ignore[arg-type]  # offsets, summed up
                end=end,  # type: ignore[arg-type]
            )
        )

    def _audit(self, head: Head | None, walk: Walk | None) -> PartitionAudit:
        subject = self._subject
        empty = PartitionAudit(
            topic=subject.topic, topic_id=subject.topic_id, partition=subject.partition
        )
        return PartitionAudit(
            topic=subject.topic,
            topic_id=subject.topic_id,
            partition=subject.partition,
            head_version=empty.head_version if head is None else head.version,
            log_start=empty.log_start if head is None else head.log_start,
            next_offset=empty.next_offset if head is None else head.next_offset,
            segments=0 if walk is None else walk.segments,
            bytes=0 if walk is None else walk.bytes,
            read_bytes=self._read_bytes,
            skipped_bytes=self._skipped_bytes,
            findings=tuple(self._findings),
            notes=tuple(self._notes),
        )


def opened_head(key: str, got: Got) -> tuple[Head, Stat]:
    """Raises `ColdCorrupt` and `InvariantBroken`."""
    canonical.require_plain(got.data, key=key)
    head = decode_head(got.data, key=key)
    invariants.check(head, previous=None)
    return head, got.stat


async def ask(store: ObjectStore, key: str, entry: Entry) -> Fault | None:
    """What the store says of an object, without reading it."""
    try:
        stat = await store.head(key)
    except NoSuchObject:
        stat = None
    return await judge(store, key, entry, stat)


async def judge(store: ObjectStore, key: str, entry: Entry, stat: Stat | None) -> Fault | None:
    """`stat` is what stands under the key now; None: nothing."""
    if entry.version_id is None or (stat is not None and stat.version_id == entry.version_id):
        return _compared(entry, stat)
    try:
        fault = _compared(entry, await store.head(key, version_id=entry.version_id))
    except NoSuchObject:
        fault = _compared(entry, None)
    if fault is not None:
        return fault
    over = "a delete marker" if stat is None else f"version {stat.version_id}"
    return Fault(Kind.OBJECT_HIDDEN, f"version {entry.version_id}", f"{over} lies over it")


def _compared(entry: Entry, stat: Stat | None) -> Fault | None:
    if stat is None:
        return Fault(Kind.OBJECT_MISSING, f"{entry.size} bytes", "there is none")
    if stat.size != entry.size:
        return Fault(Kind.OBJECT_WRONG, f"{entry.size} bytes", f"{stat.size} bytes")
    if stat.crc32c not in (None, entry.crc32c):
        return Fault(Kind.OBJECT_WRONG, f"CRC-32C {entry.crc32c:08x}", f"CRC-32C {stat.crc32c:08x}")
    return None
