"""Making one segment object out of several: fetched, checked, put end to end, ready to be sent.

Each source is read whole, in pieces, and must be what was published: its size, its SHA-256. Its
batches go to a local file, which holds nothing worth keeping and is overwritten by the next merge;
its tail stays in memory while the last of them is needed. Then the file is scanned as a sealed
segment is before its upload: every batch's CRC, and that offsets and leader epochs follow. So a
merged object vouches for its bytes as an uploaded one does.

Memory: a piece, one source's tail, and what `SegmentScan` gathers.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from tierlog.cold import segment_object, sources
from tierlog.cold.entry import Entry
from tierlog.cold.errors import ColdCorrupt, SegmentUnsound
from tierlog.cold.layout import PartitionKeys
from tierlog.cold.segment_object import GAPS_MAX, SOURCES, Footer
from tierlog.cold.staging import Label, Plan, Staged, stage
from tierlog.env import Disk, Env
from tierlog.hot.epochs import EpochStart
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.port import ObjectStore, Span
from tierlog.types import Offset, Position

READ_BYTES = 8 << 20


class SourceUnsound(ColdCorrupt):
    """A published object is not what it should be, so it is not merged. Carries its key."""


@dataclass(slots=True)
class Gathered:
    """The sources so far."""

    size: int = 0
    """Of their batches, in the file."""
    gaps: tuple[tuple[int, int], ...] = ()
    entries: tuple[Entry, ...] = ()
    """As they were uploaded: of a merged one, those that it replaced."""
    producers: bytes = b""
    lineage: tuple[EpochStart, ...] = ()


class Gatherer:
    def __init__(self, env: Env, store: ObjectStore, keys: PartitionKeys, path: str) -> None:
        """`path` is that of the local file."""
        self._env = env
        self._store = store
        self._keys = keys
        self._path = path

    async def gather(self, run: Sequence[Entry]) -> Gathered:
        """All of them in the file. Raises `SourceUnsound`, and what the store does."""
        await self._env.tasks.in_thread(_begin, self._env.disk, self._path)
        gathered = Gathered()
        for entry in run:
            try:
                await self._add(gathered, entry)
            except (ColdCorrupt, NoSuchObject) as fault:
                raise SourceUnsound(entry.key, str(fault)) from fault
        return gathered

    async def _add(self, gathered: Gathered, entry: Entry) -> None:
        source = _Source(self._env.disk, self._path, entry, gathered.size)
        for start in range(0, entry.size, READ_BYTES):
            span = Span(Position(start), Position(min(start + READ_BYTES, entry.size)))
            key = self._keys.full(entry.key)
            got = await self._store.get(key, span=span, version_id=entry.version_id)
            await self._env.tasks.in_thread(source.take, memoryview(got.data), start)
        gathered.size += entry.data_bytes
        _note(gathered, entry, source.checked_tail())

    async def stage(
        self, run: Sequence[Entry], gathered: Gathered, label: Label, *, key: str, part_bytes: int
    ) -> Staged:
        """The merged object; in parts, if `part_bytes` is not 0. Raises `SourceUnsound`."""
        plan = Plan(
            path=self._path,
            position=Position(0),
            end=gathered.size,
            base=run[0].base,
            last=run[-1].last,
            label=label,
            key=key,
            producers=gathered.producers,
            lineage=gathered.lineage,
            max_append_ms=max(one.max_append_ms for one in run),
            part_bytes=part_bytes,
            gaps=tuple((Offset(start), Offset(end)) for start, end in gathered.gaps),
            sources=sources.encode(gathered.entries),
        )
        try:
            return await stage(self._env, plan)
        except SegmentUnsound as fault:
            raise SourceUnsound(run[0].key, f"merged with what follows: {fault}") from fault

    async def clear(self) -> None:
        """The file goes."""
        await self._env.tasks.in_thread(_remove, self._env.disk, self._path)


class _Source:
    """One object on its way into the file. `take` blocks."""

    def __init__(self, disk: Disk, path: str, entry: Entry, position: int) -> None:
        self._disk = disk
        self._path = path
        self._entry = entry
        self._position = position
        self._tail = bytearray()
        self._whole = sha256()

    def take(self, view: memoryview, start: int) -> None:
        """Its bytes from `start` on."""
        self._whole.update(view)
        border = max(0, min(self._entry.data_bytes - start, len(view)))
        _write(self._disk, self._path, view[:border], self._position + start)
        self._tail += view[border:]

    def checked_tail(self) -> bytes:
        """What follows the batches. Raises `ColdCorrupt` unless all of it was as published."""
        entry = self._entry
        size = entry.data_bytes + len(self._tail)
        if size != entry.size or self._whole.hexdigest() != entry.sha256:
            raise ColdCorrupt(entry.key, "it has not the bytes that were published")
        return bytes(self._tail)


def _note(gathered: Gathered, entry: Entry, tail: bytes) -> None:
    footer = segment_object.parse_tail(tail, object_size=entry.size, key=entry.key)
    gathered.gaps += footer.gaps
    if len(gathered.gaps) > GAPS_MAX:
        raise ColdCorrupt(entry.key, f"with it there are more than {GAPS_MAX} gaps in one object")
    # Those of the last one stay: they are of the partition up to its end.
    gathered.producers = _section(footer, "producers", tail, entry)
    lineage = _section(footer, "leader_epochs", tail, entry)
    gathered.lineage = segment_object.decode_epochs(lineage, key=entry.key)
    if entry.replaces is None:
        gathered.entries += (entry,)
    else:
        gathered.entries += sources.opened(entry, _section(footer, SOURCES, tail, entry))


def _section(footer: Footer, name: str, tail: bytes, entry: Entry) -> bytes:
    section = footer.section(name)
    if section is None:
        raise ColdCorrupt(entry.key, f"it has no section {name}")
    start = section.position - entry.data_bytes
    return tail[start : start + section.size]


# The file


def _begin(disk: Disk, path: str) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
    finally:
        file.close()


def _write(disk: Disk, path: str, data: memoryview, position: int) -> None:
    file = disk.open(path, write=True)
    try:
        while data:
            written = file.pwrite(data, position)
            data, position = data[written:], position + written
    finally:
        file.close()


def _remove(disk: Disk, path: str) -> None:
    with suppress(FileNotFoundError):
        disk.unlink(path)
