"""Reads one segment object to its end and compares every byte with what was published.

The batches go through the very scan that made the object, so that what follows them (block CRCs,
indexes, batch hashes, footer) can be made again and compared: CRC of every batch, offsets end to
end, Merkle root, CRC of every section, footer, entry, SHA-256 and CRC-32C of the whole. Of a merged
one also that it names the entries which it replaces.

In pieces, the next of which is fetched while one is scanned: an object takes `PIECE_BYTES` twice,
and the tail behind its batches (32 bytes a batch). A wrong answer is not believed at once: see
`agreed`.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from tierlog.cold import segment_object, sources
from tierlog.cold.agreed import READS_MAX, differs
from tierlog.cold.audit import Kind
from tierlog.cold.errors import ColdCorrupt, SegmentUnsound
from tierlog.cold.segment_scan import SegmentScan
from tierlog.objectstore.port import Span
from tierlog.types import Position

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from tierlog.cold.audit import Subject
    from tierlog.cold.entry import Entry
    from tierlog.cold.segment_object import Footer
    from tierlog.env import Tasks
    from tierlog.objectstore.port import ObjectStore
    from tierlog.types import Bytes

PIECE_BYTES = 4 << 20


class Fault(NamedTuple):
    """What is wrong with an object."""

    kind: Kind
    expected: str
    found: str


class ObjectAudit:
    """Of one object, whose size is known to be right. `before_read` is told how many bytes are
    about to be read, and may take its time."""

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        entry: Entry,
        subject: Subject,
        tasks: Tasks,
        *,
        before_read: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._key = key
        self._entry = entry
        self._subject = subject
        self._tasks = tasks
        self._before_read = before_read

    async def run(self) -> Fault | None:
        """None: it is sound. Raises `NoSuchObject` and what the store does."""
        if await self._reason() is None:
            return None
        seen: set[str] = set()
        for _ in range(READS_MAX):
            digest = sha256()
            reason = await self._reason(digest.update)
            found = digest.hexdigest()
            if found == self._entry.sha256:
                # These very bytes were published: what is wrong with them is no bad line's fault.
                unsound = Fault(Kind.OBJECT_UNSOUND, "a sound segment object", f"{reason}")
                return None if reason is None else unsound
            if found in seen:
                expected = f"SHA-256 {self._entry.sha256}"
                return Fault(Kind.OBJECT_WRONG, expected, f"{reason}; SHA-256 {found}")
            seen.add(found)
        raise differs(self._key)

    # One reading

    async def _reason(self, witness: Callable[[Bytes], object] | None = None) -> str | None:
        """Why these are not the bytes; None if they are. A `witness` sees every byte, in order,
        also behind the first that is wrong."""
        entry = self._entry
        rest = bytearray()
        await self._each(entry.data_bytes, entry.size, rest.extend)
        tail = bytes(rest)
        looking = _Looking(self, tail, witness)
        try:
            await self._each(0, entry.data_bytes, looking.feed)
        except (ColdCorrupt, SegmentUnsound):
            assert witness is None, "it wants to see all"
        return await self._tasks.in_thread(looking.end)

    async def _each(self, start: int, end: int, take: Callable[[Bytes], object]) -> None:
        """Give each piece to `take`, in a thread, while the next one is fetched."""
        following = self._fetch(start, end)
        try:
            while start < end:
                piece = await following
                start += len(piece)
                if start < end:
                    following = self._fetch(start, end)
                await self._tasks.in_thread(take, piece)
        finally:
            following.cancel()

    def _fetch(self, start: int, end: int) -> asyncio.Task[Bytes]:
        work = self._read(start, min(start + PIECE_BYTES, end))
        task = self._tasks.spawn(work, name="audit")
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _read(self, start: int, end: int) -> Bytes:
        if self._before_read is not None:
            await self._before_read(end - start)
        span = Span(Position(start), Position(end))
        got = await self._store.get(self._key, span=span, version_id=self._entry.version_id)
        return got.data

    def open_tail(self, tail: bytes) -> Footer:
        entry = self._entry
        footer = segment_object.parse_tail(tail, object_size=entry.size, key=entry.key)
        place = footer.topic_id, footer.partition, footer.base, footer.last, footer.data_bytes
        subject = self._subject
        if place != (
            subject.topic_id,
            subject.partition,
            entry.base,
            entry.last,
            entry.data_bytes,
        ):
            raise ColdCorrupt(
                entry.key,
                f"its footer names [{footer.base}, {footer.last + 1}) of "
                f"{footer.topic}-{footer.partition}",
            )
        for section in footer.sections:
            segment_object.check_section(section, _part(tail, entry, section), key=entry.key)
        return footer

    def new_scan(self, footer: Footer) -> SegmentScan:
        return SegmentScan(
            topic=footer.topic,
            topic_id=footer.topic_id,
            partition=footer.partition,
            base=footer.base,
            last=footer.last,
            size=footer.data_bytes,
            gaps=[(start, end) for start, end in footer.gaps],  # type: ignore[misc]  # plain ints
        )

    def compare(self, scan: SegmentScan, tail: bytes, footer: Footer) -> None:
        entry = self._entry
        parts = {one.name: _part(tail, entry, one) for one in footer.sections}
        made = scan.finish(
            key=entry.key,
            producers=parts["producers"],
            max_append_ms=footer.max_append_ms,
            lineage=segment_object.decode_epochs(parts["leader_epochs"], key=entry.key),
            aborted=parts["aborted"],
        )
        whole, crc = scan.whole(tail)
        if whole != entry.sha256:
            raise ColdCorrupt(entry.key, f"its SHA-256 is {whole}")
        if crc != entry.crc32c:
            raise ColdCorrupt(entry.key, f"its CRC-32C is {crc:08x}, {entry.crc32c:08x} published")
        if made.data != tail:
            self._compare_tails(made.data, tail, footer)
        said = footer.entry(key=entry.key, size=entry.size, sha256=whole, crc32c=crc)
        if said != _as_footer_says(entry):
            raise ColdCorrupt(entry.key, "its footer is not what the manifest says of it")
        if entry.replaces is not None:
            sources.opened(entry, parts.get(segment_object.SOURCES, b""))

    def _compare_tails(self, made: bytes, tail: bytes, footer: Footer) -> None:
        """They may differ in how dense the indexes are, which is the writer's choice."""
        entry = self._entry
        size = entry.data_bytes + len(made)
        again = segment_object.parse_tail(made, object_size=size, key=entry.key)
        if footer != replace(again, sections=footer.sections, index_crc32c=footer.index_crc32c):
            raise ColdCorrupt(entry.key, "its footer is not that of its batches")
        for name in ("block_crcs", "batch_hashes", "leader_epochs"):
            one, other = footer.section(name), again.section(name)
            assert one is not None, "every object has it"
            assert other is not None, "every object has it"
            if _part(tail, entry, one) != _part(made, entry, other):
                raise ColdCorrupt(entry.key, f"its section {name} is not that of its batches")
        start, end = segment_object.reader_span(entry)
        index = tail[start - entry.data_bytes : end - entry.data_bytes]
        if crc32c(index) != footer.index_crc32c:
            raise ColdCorrupt(entry.key, "the checksum of its index is wrong")
        segment_object.open_reader_index(entry, index)


class _Looking:
    """One reading of the batches. Without a witness it ends at the first fault."""

    def __init__(
        self, audit: ObjectAudit, tail: bytes, witness: Callable[[Bytes], object] | None
    ) -> None:
        self._audit = audit
        self._tail = tail
        self._witness = witness
        self._reason: str | None = None
        self._footer: Footer | None = None
        self._scan: SegmentScan | None = None

    def feed(self, piece: Bytes) -> None:
        if self._witness is not None:
            self._witness(piece)
        try:
            self._look(piece)
        except (ColdCorrupt, SegmentUnsound) as fault:
            self._reason = self._reason or _said(fault)
            if self._witness is None:
                raise

    def _look(self, piece: Bytes) -> None:
        if self._reason is not None:
            return
        if self._scan is None:
            self._footer = self._audit.open_tail(self._tail)
            self._scan = self._audit.new_scan(self._footer)
        self._scan.feed(piece)

    def end(self) -> str | None:
        """Why these are not the bytes."""
        if self._witness is not None:
            self._witness(self._tail)
        if self._reason is None:
            assert self._scan is not None, "an object has batches"
            assert self._footer is not None, "as the scan"
            try:
                self._audit.compare(self._scan, self._tail, self._footer)
            except (ColdCorrupt, SegmentUnsound) as fault:
                return _said(fault)
        return self._reason


def _said(fault: ColdCorrupt | SegmentUnsound) -> str:
    return fault.reason if isinstance(fault, ColdCorrupt) else str(fault)


def _part(tail: bytes, entry: Entry, section: segment_object.Section) -> bytes:
    start = section.position - entry.data_bytes
    return tail[start : start + section.size]


def _as_footer_says(entry: Entry) -> Entry:
    """Without what only the manifest knows."""
    plain = {"version_id": None, "chain": "", "replaces": None, "storage_class": "STANDARD"}
    return replace(entry, **plain, retain_until_ms=-1, dek_id=None)  # type: ignore[arg-type]  # of a dict
