"""Scanning a sealed segment on its way to the bucket.

Fed with the file's bytes in order, in pieces of any size. Every batch is checked before its bytes
get a fresh hash: its CRC, and that its offsets follow (U1: disk rot must not be laundered). On the
way everything is gathered that object, footer and manifest need, so the file is read once. Memory:
32 bytes a batch and the indexes, beside one batch that lies across two pieces.

Large calls are made over whole pieces; per batch there is one unpack, one CRC, one SHA-256.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from typing import Final

from crc32c import crc32c

from tierlog.cold import merkle
from tierlog.cold import segment_object as layout
from tierlog.cold.crcjoin import joined, joined_blocks
from tierlog.cold.entry import Entry, Sample
from tierlog.cold.entry_codec import SAMPLES_MAX
from tierlog.cold.errors import SegmentUnsound
from tierlog.cold.segment_object import BLOCK_BYTES, Footer
from tierlog.hot.epochs import EpochStart, LeaderEpochs
from tierlog.hot.indexes import SegmentIndexes
from tierlog.hot.scan import BATCH_BYTES_MAX, Misplaced
from tierlog.records import attributes as bits
from tierlog.records.attributes import Codec
from tierlog.records.batch import validate_stored
from tierlog.records.errors import CorruptBatch, TruncatedBatch
from tierlog.records.header import PREFIX_BYTES
from tierlog.types import NO_TIMESTAMP, Bytes, LeaderEpoch, Offset, Position, TimestampMs

INDEX_INTERVAL_BYTES: Final = 64 << 10
"""Sparser than on disk: readers fetch the index whole, and whole chunks of some MiB to search in.
128 MiB then have 2,048 entries, 41 kB."""

_new_leaf = sha256(merkle.LEAF).copy
"""Cheaper than putting the byte before each batch."""

_LENGTH: Final = Struct(">8xi")
_U32: Final = Struct(">I")
_OTHER_BASE_TIME: Final = bits.LOG_APPEND_TIME | bits.DELETE_HORIZON
"""With these the base timestamp is not that of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What follows the batches in the object, and the entry that goes into the manifest."""

    data: bytes
    entry: Entry
    """Without chain and version id: those come with publishing and uploading."""


class SegmentScan:
    """One segment, base to last offset, `size` bytes of batches. Not to be used after an error."""

    def __init__(
        self,
        *,
        topic: str,
        topic_id: str,
        partition: int,
        base: Offset,
        last: Offset,
        size: int,
        gaps: Iterable[tuple[Offset, Offset]] | None = (),
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
    ) -> None:
        """`gaps` are the ranges of offsets inside that no batch has, and that are accounted for.
        None: a log that was compacted has them wherever a batch is gone, as many as a footer
        can tell."""
        self._topic, self._topic_id, self._partition = topic, topic_id, partition
        self._base, self._last, self._size = base, last, size
        self._gaps = {int(start): int(end) for start, end in gaps or ()}
        self._takes_gaps = gaps is None
        self._indexes = SegmentIndexes(base, interval_bytes=index_interval_bytes)
        self._sample_step = max(1, -(-size // SAMPLES_MAX))
        self._samples: list[Sample] = []
        self._epochs: list[EpochStart] = []
        self._epoch_gaps: dict[LeaderEpoch, Offset] = {}
        """Where a gap begins that a leader epoch's first batch lies behind."""
        self._leader_epoch = -1
        self._hashes = bytearray()
        self._records = 0
        self._attributes: set[int] = set()
        self._min_timestamp = 2**63
        self._expected: int = base
        self._position = 0  # Of the next batch, in the file.
        self._taken = 0  # Of the next batch, in what was walked last.
        self._fed = 0
        self._rest = bytearray()  # The beginning of a batch whose end is not here yet.
        self._sha256 = sha256()
        self._block_crc = 0
        self._block_crcs: list[int] = []

    def feed(self, piece: Bytes) -> None:
        """The next bytes of the file. `SegmentUnsound` says where and why they are refused."""
        view = memoryview(piece)
        self._sha256.update(view)
        self._feed_blocks(view)
        self._fed += len(view)
        place = self._finish_rest(view) if self._rest else 0
        self._rest += view[self._walk(view, place) :]

    def _feed_blocks(self, view: memoryview) -> None:
        place = 0
        while place < len(view):
            room = BLOCK_BYTES - (self._fed + place) % BLOCK_BYTES
            part = view[place : place + room]
            self._block_crc = crc32c(part, self._block_crc)
            place += len(part)
            if len(part) == room:
                self._block_crcs.append(self._block_crc)
                self._block_crc = 0

    def _finish_rest(self, view: memoryview) -> int:
        """Complete the batch that began in an earlier piece; how much of this one it took."""
        place = 0
        if len(self._rest) < PREFIX_BYTES:
            place = PREFIX_BYTES - len(self._rest)
            self._rest += view[:place]
            if len(self._rest) < PREFIX_BYTES:
                return len(view)
        (length,) = _LENGTH.unpack_from(self._rest)
        missing = length + PREFIX_BYTES - len(self._rest)
        # A length too small is no length: the check of the batch will say so.
        if 0 < missing < BATCH_BYTES_MAX:
            taken = view[place : place + missing]
            self._rest += taken
            place += len(taken)
            if len(taken) < missing:
                return len(view)
        batch, self._rest = memoryview(bytes(self._rest)), bytearray()
        if self._walk(batch, 0) != len(batch):
            raise self._unsound("a batch says a length that no batch has")
        return place

    def _walk(self, view: memoryview, place: int) -> int:
        """Take the whole batches from `place` on; where the first that is not whole begins."""
        try:
            self._take_all(view, place)
        except TruncatedBatch as fault:
            if fault.needed > BATCH_BYTES_MAX:
                raise self._unsound(str(fault)) from None
        except CorruptBatch as fault:
            raise self._unsound(str(fault)) from fault
        return self._taken

    def _take_all(self, view: memoryview, place: int) -> None:
        """The loop that every batch of the log goes through: what it can keep in local names, it
        does. Ends at the end of `view`, or by the error of a batch; `_taken` is up to date."""
        end, size_of_view = place, len(view)
        expected, position, shift = self._expected, self._position, self._position - place
        records, min_time = self._records, self._min_timestamp
        hashes, note, add_attributes = self._hashes, self._indexes.note, self._attributes.add
        try:
            while end < size_of_view:
                base, length, epoch, _, _, attributes, delta, time, max_time, _, _, _, count = (
                    validate_stored(view, end)
                )
                if base != expected:
                    self._pass_gap(expected, base, position)
                if epoch != self._leader_epoch:
                    self._begin_epoch(epoch, base, position, expected)
                if position >= len(self._samples) * self._sample_step:
                    # The first stands for the base, whether or not that is still there.
                    first = base if position else self._base
                    self._samples.append(Sample(first, Position(position)))
                place, end = end, end + length + 12
                leaf = _new_leaf()
                leaf.update(view[place:end])
                hashes += leaf.digest()
                last = base + delta
                note(position, length + 12, last, max_time)  # type: ignore[arg-type]  # plain ints, of a hot loop
                if attributes & _OTHER_BASE_TIME:
                    time = max_time
                if time < min_time:
                    min_time = time
                add_attributes(attributes)
                records += count
                expected = last + 1
                position = end + shift
        finally:
            self._expected, self._position, self._taken = expected, position, end
            self._records, self._min_timestamp = records, min_time

    def _pass_gap(self, expected: int, base: int, position: int) -> None:
        if self._takes_gaps and base > expected and len(self._gaps) < layout.GAPS_MAX:
            self._gaps[expected] = base
        if self._gaps.get(expected) != base:
            raise Misplaced(f"a batch says offset {base}, expected {expected}", position=position)

    def _begin_epoch(self, epoch: LeaderEpoch, start: Offset, position: int, expected: int) -> None:
        # The epoch lies outside the batch's CRC; that it rises is what can be checked of it here.
        if epoch < self._leader_epoch:
            raise Misplaced(
                f"leader epoch {epoch} comes after {self._leader_epoch}", position=position
            )
        self._leader_epoch = epoch
        self._epochs.append(EpochStart(epoch, start))
        if start != expected:
            self._epoch_gaps[epoch] = Offset(expected)

    def _unsound(self, reason: str) -> SegmentUnsound:
        return SegmentUnsound(reason, position=self._position)

    # The end

    def finish(
        self,
        *,
        key: str,
        producers: bytes,
        max_append_ms: int,
        lineage: Sequence[EpochStart] = (),
        aborted: bytes = b"",
        sources: bytes = b"",
    ) -> Tail:
        """What follows the batches. `key` is the object's, relative to the partition; `producers`
        the snapshot of their state at the segment's end; `lineage` the partition's leader epochs,
        which must agree with those of the batches; `sources` what it is merged of, if it is."""
        self._check_end()
        if self._fed % BLOCK_BYTES:
            self._block_crcs.append(self._block_crc)
        lineage = tuple(one for one in lineage if one.start <= self._last)
        epochs = self._epochs_within(lineage)
        sections = self._sections(producers, lineage or epochs, aborted)
        if sources:
            sections[layout.SOURCES] = sources
        placed = layout.place_sections(sections, data_bytes=self._size)
        index = b"".join(sections[name] for name in layout.READER_SECTIONS)
        footer = self._footer(sections, placed, crc32c(index), epochs, max_append_ms)
        data = b"".join((*sections.values(), layout.encode_footer(footer)))
        digest, crc = self.whole(data)
        size = self._size + len(data)
        entry = footer.entry(key=key, size=size, sha256=digest, crc32c=crc)
        return Tail(data=data, entry=entry)

    def whole(self, tail: Bytes) -> tuple[str, int]:
        """SHA-256 and CRC-32C of what was fed and a tail behind it."""
        digest = self._sha256.copy()
        digest.update(tail)
        return digest.hexdigest(), crc32c(tail, self._data_crc())

    def _data_crc(self) -> int:
        """Of all that was fed."""
        count, rest = divmod(self._fed, BLOCK_BYTES)
        crc = joined_blocks(self._block_crcs[:count], block_bytes=BLOCK_BYTES)
        return joined(crc, self._block_crc, second_bytes=rest) if rest else crc

    def _check_end(self) -> None:
        if self._rest:
            raise self._unsound("the last batch is cut short")
        if self._fed != self._size:
            raise self._unsound(f"{self._fed} bytes were read, {self._size} expected")
        if self._expected != self._last + 1 or not self._hashes:
            raise self._unsound(f"it ends at offset {self._expected}, expected {self._last + 1}")

    def _epochs_within(self, lineage: tuple[EpochStart, ...]) -> tuple[EpochStart, ...]:
        """Epochs of the batches; the first with its true start, where the lineage tells it."""
        if not lineage:
            return tuple(self._epochs)
        lineage, epochs = self._aligned(lineage)
        # The lineage may have been trimmed to a log start inside the segment.
        start = max(self._base, lineage[0].start)
        if _trimmed(lineage, start) != _trimmed(epochs, start):
            raise self._unsound(f"leader epochs {epochs} are not those of {list(lineage)}")
        before = [one for one in lineage if one.start <= self._base][-1:]
        return tuple(before + epochs[len(before) :])

    def _aligned(
        self, lineage: tuple[EpochStart, ...]
    ) -> tuple[tuple[EpochStart, ...], list[EpochStart]]:
        """The lineage without leader epochs that lost all their batches, and the epochs of the
        batches, begun where the lineage says if that is in the gap before them."""
        if not self._gaps:
            return lineage, self._epochs
        found = {one.leader_epoch for one in self._epochs}
        starts = {one.leader_epoch: one.start for one in lineage}
        epochs = [
            EpochStart(
                one.leader_epoch, min(one.start, max(self._epoch_gaps[one.leader_epoch], start))
            )
            if one.leader_epoch in self._epoch_gaps
            and (start := starts.get(one.leader_epoch)) is not None
            else one
            for one in self._epochs
        ]
        return tuple(one for one in lineage if one.leader_epoch in found), epochs

    def _sections(
        self, producers: bytes, lineage: tuple[EpochStart, ...], aborted: bytes
    ) -> dict[str, bytes]:
        offset_index, time_index = self._indexes.to_bytes()
        return {
            "block_crcs": b"".join(_U32.pack(crc) for crc in self._block_crcs),
            "offset_index": offset_index,
            "time_index": time_index,
            "batch_hashes": bytes(self._hashes),
            "producers": producers,
            "leader_epochs": layout.encode_epochs(lineage),
            "aborted": aborted,
        }

    def _footer(
        self,
        sections: dict[str, bytes],
        placed: tuple[layout.Section, ...],
        index_crc32c: int,
        epochs: tuple[EpochStart, ...],
        max_append_ms: int,
    ) -> Footer:
        assert tuple(sections)[: len(layout.SECTIONS)] == layout.SECTIONS
        codecs = {Codec(one & bits.CODEC_MASK) for one in self._attributes}
        return Footer(
            topic=self._topic,
            topic_id=self._topic_id,
            partition=self._partition,
            base=self._base,
            last=self._last,
            records=self._records,
            batches=len(self._hashes) // merkle.HASH_BYTES,
            data_bytes=self._size,
            data_sha256=self._sha256.hexdigest(),
            merkle_root=merkle.root(sections["batch_hashes"]).hex(),
            min_timestamp=TimestampMs(max(self._min_timestamp, NO_TIMESTAMP)),
            max_timestamp=self._indexes.max_timestamp,
            max_timestamp_offset=self._indexes.max_timestamp_offset,
            max_append_ms=max_append_ms,
            leader_epochs=epochs,
            samples=tuple(self._samples),
            codecs=tuple(codec.name.lower() for codec in sorted(codecs)),
            has_aborted=bool(sections["aborted"]),
            gaps=tuple(sorted(self._gaps.items())),
            index_crc32c=index_crc32c,
            sections=placed,
        )


def _trimmed(epochs: Iterable[EpochStart], start: Offset) -> tuple[EpochStart, ...]:
    known = LeaderEpochs(epochs)
    known.trim(start)
    return known.entries
