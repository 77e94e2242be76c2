"""Opening a partition's directory: what is there, what may be believed, what must be set aside.

Segments that the checkpoint lists, at the sizes it lists, are believed without reading them. From
the first place where files and checkpoint differ, batches are scanned. A scan that meets a bad
batch cuts the segment there; sound batches behind it move into a segment of their own, so that
offsets keep naming the records they named; the bad bytes go into a file beside the log:

- `.torn`: a write that never was durable. Its offsets are skipped; readers pass over the gap.
- `.damaged`: records that were, or may have been, durable. Reading them is an error that says so,
  until another copy fills the gap.

Which of the two is `judge`. Offsets that were seen in a cut tail are not given out again: the next
segment begins behind them. Everything scanned is fdatasynced before it counts as durable, and where
the page cache may outlive a failed fsync, written again first. A recovery that is itself cut off
can simply be run again.
"""

import logging
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tierlog.env import Disk, File
from tierlog.hot import names, smallfile
from tierlog.hot.checkpoint import (
    NEVER_CLEANED,
    NOTHING_TRIMMED,
    Checkpoint,
    load_checkpoint,
    store_checkpoint,
)
from tierlog.hot.endmark import EndMark, boot_digest, load_end, store_end
from tierlog.hot.epochs import LeaderEpochs
from tierlog.hot.files import FilePool
from tierlog.hot.holes import Gap, uncovered
from tierlog.hot.indexes import write_indexes
from tierlog.hot.producers import Producers
from tierlog.hot.replay import drop_snapshots, load_producers
from tierlog.hot.resync import resync, seen_end
from tierlog.hot.salvage import put_away, remove_segment, rewrite, set_aside, split_off
from tierlog.hot.scan import Scanned, Visit, scan
from tierlog.hot.seed import Seed, clear_unbegun, plant_producers, seeded_epochs
from tierlog.hot.segment import Segment, SegmentNumbers, empty_numbers
from tierlog.hot.settings import LogSettings
from tierlog.hot.snapshot import encode_snapshot
from tierlog.hot.swapping import settle_swaps
from tierlog.records.errors import TruncatedBatch
from tierlog.records.header import PREFIX_BYTES, BatchHeader
from tierlog.types import Offset, Position

logger = logging.getLogger(__name__)

OFFSET_MAX = Offset(2**63 - 1)


@dataclass(slots=True, kw_only=True)
class Recovered:
    """What a log starts from. The last segment takes the appends."""

    segments: list[Segment]
    trusted_from: dict[Offset, Position]
    """Per segment, the position from which its bytes were scanned now."""
    log_start: Offset
    trimmed_to: Offset
    cleaned_to: Offset
    compacted: bool
    names_replaced: bool
    """Whether the checkpoint on the disk speaks of a swap."""
    epochs: LeaderEpochs
    producers: Producers
    gaps: list[Gap]
    """New ones, found by this recovery."""
    scanned_bytes: int
    is_clean: bool
    """Whether the checkpoint on the disk is a clean one that agrees with all of this."""


def judge(
    *, start: Offset, durable_end: Offset | None, same_boot: bool, at_end: bool, whole: bool
) -> str:
    """Is a bad batch at offset `start` a torn write or damage?

    Below the recorded durable end it is damage. In the same boot the page cache survived, so only
    the write that the kill interrupted can be torn: the very last one, and cut short (not `whole`).
    After a power cut unsynced writes may be torn in any order. Where no durable end is recorded
    nobody knows, and the careful answer is damage.
    """
    if durable_end is None or start < durable_end:
        return names.DAMAGED
    if same_boot and (whole or not at_end):
        return names.DAMAGED
    return names.TORN


@dataclass(slots=True, kw_only=True)
class Recovery:
    """One run of it. `run` does everything; the rest are its steps."""

    disk: Disk
    directory: str
    pool: FilePool
    settings: LogSettings
    start: Offset
    """Where a new log begins."""
    now_ms: int
    seed: Seed | None = None
    """What a new log remembers of its past."""
    boot: str = ""
    is_new: bool = False
    checkpoint: Checkpoint | None = None
    mark: EndMark | None = None
    durable_end: Offset | None = None
    """As recorded; None when nobody wrote it down, or the record is damaged."""
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    producers: Producers = field(default_factory=Producers)
    segments: list[Segment] = field(default_factory=list)
    trusted_from: dict[Offset, Position] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    log_start: Offset = OFFSET_MAX
    scanned_bytes: int = 0
    is_clean: bool = False

    def run(self) -> Recovered:
        self.boot = self.disk.boot_id()
        self.checkpoint = load_checkpoint(self.disk, self.directory)
        self.mark = load_end(self.disk, self.directory)
        self.durable_end = self._durable_end()
        self._settle_cleaning()
        bases = self._tidy()
        if self.is_new or self._is_unbegun(bases):
            self._begin()
            return self._recovered()
        self.log_start = self._log_start(bases)
        scan_bases = self._believe(bases)
        if scan_bases is not None or not self.segments:
            self._scan_all(scan_bases or [])
            self._settle()
        else:
            self._load_producers(self.segments[-1].next_offset)
            self._sign()
            self.is_clean = self.checkpoint is not None and self.checkpoint.clean
        return self._recovered()

    def _recovered(self) -> Recovered:
        return Recovered(
            segments=self.segments,
            trusted_from=self.trusted_from,
            log_start=self.log_start,
            trimmed_to=self._trimmed_to,
            cleaned_to=self._cleaned_to,
            compacted=self._compacted,
            names_replaced=bool(self._replaced),
            epochs=self.epochs,
            producers=self.producers,
            gaps=self.gaps,
            scanned_bytes=self.scanned_bytes,
            is_clean=self.is_clean,
        )

    def _durable_end(self) -> Offset | None:
        known = [one.durable_end for one in (self.checkpoint, self.mark) if one is not None]
        return max(known, default=None)

    def _same_boot(self) -> bool:
        """Whether the page cache is the writer's own. Where nobody wrote it down, perhaps: yes."""
        if self.mark is not None and self.mark.boot == boot_digest(self.boot):
            return True
        if self.mark is None:
            return self.checkpoint is None or self.checkpoint.boot == self.boot
        return self.checkpoint is not None and self.checkpoint.boot == self.boot

    def _sign(self) -> None:
        """From now on writes are this boot's, and a restart must know it, whatever fails."""
        if self.mark is None or self.mark.boot != boot_digest(self.boot):
            store_end(self.disk, self.directory, self.segments[-1].next_offset)

    def _judge(self, start: Offset, *, at_end: bool, whole: bool) -> str:
        return judge(
            start=start,
            durable_end=self.durable_end,
            same_boot=self._same_boot(),
            at_end=at_end,
            whole=whole,
        )

    # What is there, and what may be believed

    def _settle_cleaning(self) -> None:
        """A swap that was cut off is finished or undone; what was ever compacted has gaps."""
        settle_swaps(self.disk, self.directory, self._replaced)
        if self._compacted:
            self.settings = replace(self.settings, contiguous=False)

    def _tidy(self) -> list[Offset]:
        """Remove leftovers that mean nothing; return the base offsets of the segments."""
        found = self.disk.listdir(self.directory)
        leftovers = [name for name in found if names.is_leftover(name)]
        for name in leftovers:
            self.disk.unlink(f"{self.directory}/{name}")
        self.is_new = len(leftovers) == len(found)
        offsets = (names.parse_offset(name, names.LOG) for name in found)
        return [offset for offset in offsets if offset is not None]

    def _is_unbegun(self, bases: list[Offset]) -> bool:
        """Whether a seeded log was cut off before its checkpoint. What it left is removed."""
        is_unbegun = (
            self.seed is not None
            and self.checkpoint is None
            and (self.durable_end is None or self.durable_end <= self.start)
            and not any(self._size_of(base) for base in bases)
        )
        if is_unbegun:
            clear_unbegun(self.disk, self.directory, bases)
        return is_unbegun

    def _log_start(self, bases: list[Offset]) -> Offset:
        if self.checkpoint is not None:
            return self.checkpoint.log_start
        return bases[0] if bases else self.start

    @property
    def _trimmed_to(self) -> Offset:
        """What the checkpoint alone knows: without it nothing counts as given up."""
        return NOTHING_TRIMMED if self.checkpoint is None else self.checkpoint.trimmed_to

    @property
    def _cleaned_to(self) -> Offset:
        return NEVER_CLEANED if self.checkpoint is None else self.checkpoint.cleaned_to

    @property
    def _compacted(self) -> bool:
        return self.checkpoint is not None and self.checkpoint.compacted

    @property
    def _replaced(self) -> tuple[Offset, ...]:
        return () if self.checkpoint is None else self.checkpoint.replaced

    def _believe(self, bases: list[Offset]) -> list[Offset] | None:
        """Take over what the checkpoint vouches for; return what must be scanned, None if nothing.

        Listed segments are believed up to the first that is missing, shorter than listed or stands
        behind one that is not listed; one that is longer is believed up to its listed size.
        """
        listed = self._listed(bases)
        present = set(bases)
        unlisted = present.difference(numbers.base_offset for numbers in listed)
        first_unlisted = min(unlisted, default=OFFSET_MAX)
        for numbers in listed:
            size = self._size_of(numbers.base_offset) if numbers.base_offset in present else -1
            if size < numbers.size or first_unlisted < numbers.base_offset:
                break
            self.segments.append(self._segment(numbers))
            if size > numbers.size:
                break
        if self.checkpoint is not None:
            self.epochs = LeaderEpochs(self.checkpoint.epochs)
        believed = [segment.base_offset for segment in self.segments]
        if bases == believed and len(believed) == len(listed) and not self._longer():
            return None
        settled = set(believed[:-1] if self._longer() else believed)
        return [base for base in bases if base not in settled]

    def _listed(self, bases: list[Offset]) -> list[SegmentNumbers]:
        """The checkpoint's segments, leftovers of a trim and strays taken out of both lists."""
        listed = list(self.checkpoint.segments) if self.checkpoint else []
        while len(listed) > 1 and listed[0].next_offset <= self.log_start:
            listed.pop(0)
        # Wholly below the log start: the next segment begins there or before.
        while listed and len(bases) > 1 and bases[1] <= min(self.log_start, listed[0].base_offset):
            remove_segment(self.disk, self.directory, bases.pop(0))
        listed_bases = [numbers.base_offset for numbers in listed]
        for base in set(bases).difference(listed_bases):
            number = bisect_right(listed_bases, base) - 1
            if number >= 0 and base < listed[number].next_offset:
                self._stray(bases, base)
        return listed

    def _stray(self, bases: list[Offset], base: Offset) -> None:
        """A segment whose offsets another one holds, and soundly: it is not part of the log."""
        bases.remove(base)
        logger.warning("%s: segment %d lies inside another one: set aside", self.directory, base)
        self.pool.forget(names.segment_path(self.directory, base, names.LOG))
        put_away(self.disk, self.directory, base)

    def _longer(self) -> bool:
        last = self.segments[-1] if self.segments else None
        return last is not None and self._size_of(last.base_offset) > last.size

    def _size_of(self, base: Offset) -> int:
        return self.disk.size(names.segment_path(self.directory, base, names.LOG))

    def _segment(self, numbers: SegmentNumbers) -> Segment:
        return Segment(
            self.directory, numbers, disk=self.disk, pool=self.pool, settings=self.settings
        )

    def _load_producers(self, end: Offset) -> None:
        self.producers = load_producers(
            self.disk,
            self.directory,
            self.segments,
            end=end,
            contiguous=self.settings.contiguous,
            now_ms=self.now_ms,
        )

    # Scanning

    def _scan_all(self, bases: list[Offset]) -> None:
        scan_from = self._scan_from(bases)
        self.epochs.truncate(scan_from)
        self._load_producers(scan_from)
        while bases:
            base = bases.pop(0)
            if not self.segments or self.segments[-1].base_offset != base:
                self.segments.append(self._segment(empty_numbers(base)))
            moved = self._scan_segment(self.segments[-1], bases)
            if moved is not None:
                bases.insert(0, moved)
        self._extend_to_what_was_known()
        self._name_holes()

    def _scan_from(self, bases: list[Offset]) -> Offset:
        """The first offset that is read again."""
        if self.segments:
            return self.segments[-1].next_offset
        return bases[0] if bases else self.log_start

    def _scan_segment(self, segment: Segment, later: list[Offset]) -> Offset | None:
        """Scan to the end or to the first bad batch; returns the base of what was split off.

        Of the `later` segments, those whose offsets were found here are taken out.
        """
        file = segment.file()
        size = Position(file.size())
        self.trusted_from[segment.base_offset] = segment.size
        self.scanned_bytes += size - segment.size
        state = scan(
            file,
            start=segment.size,
            end=size,
            expected=segment.next_offset,
            contiguous=self.settings.contiguous,
            visit=self._visitor(segment),
        )
        segment.grow(state.position, state.next_offset)
        while later and later[0] < state.next_offset:
            self._stray(later, later[0])
        if state.fault is None:
            return None
        ceiling = next((base for base in later if self._size_of(base)), OFFSET_MAX)
        return self._take_out(segment.file(), state, size, ceiling)

    def _visitor(self, segment: Segment) -> Visit:
        """What a scan does with each batch. One flat function: it runs millions of times."""
        note = segment.indexes().note
        epochs, producers, now_ms = self.epochs, self.producers, self.now_ms

        def visit(header: BatchHeader, position: Position) -> None:
            base_offset, length, leader_epoch, _, _, _, delta, _, timestamp, producer_id, *_ = (
                header
            )
            note(position, length + PREFIX_BYTES, Offset(base_offset + delta), timestamp)
            if leader_epoch > epochs.latest:
                epochs.note(leader_epoch, base_offset)
            if producer_id >= 0:
                producers.visit(header, now_ms=now_ms)

        return visit

    def _take_out(
        self, file: File, state: Scanned, size: Position, ceiling: Offset
    ) -> Offset | None:
        """Move bad bytes aside and sound ones behind them into a segment of their own."""
        bad, start = state.position, state.next_offset
        found = resync(file, start=bad, end=size, floor=start, ceiling=ceiling)
        at_end = found is None and ceiling == OFFSET_MAX
        whole = not isinstance(state.fault, TruncatedBatch)
        kind = self._judge(start, at_end=at_end, whole=whole)
        if found is not None:
            bad_end, end = found[0], found[1].base_offset
        else:
            bad_end = size
            end = self._tail_end(file, bad, size, start) if at_end else ceiling
        self._report(Gap(start=start, end=end, kind=kind), str(state.fault))
        name = names.aside_name(start, end, kind)
        set_aside(self.disk, self.directory, file, start=bad, end=bad_end, name=name)
        if found is not None:
            split_off(self.disk, self.directory, file, start=bad_end, end=size, base=end)
        file.truncate(bad)
        return end if found is not None else None

    def _tail_end(self, file: File, bad: Position, size: Position, start: Offset) -> Offset:
        """Where offsets go on after a tail was cut: behind everything that was seen or durable."""
        seen = seen_end(file, start=bad, end=size, floor=start)
        return seen if self.durable_end is None else max(seen, self.durable_end)

    def _report(self, gap: Gap, reason: str) -> None:
        self.gaps.append(gap)
        logger.warning(
            "%s: offsets [%d, %d) are %s: %s", self.directory, gap.start, gap.end, gap.kind, reason
        )

    def _extend_to_what_was_known(self) -> None:
        """Offsets below the durable end, or seen in a cut tail, belong to the past."""
        end = self.segments[-1].next_offset if self.segments else self.log_start
        known = [end, self.log_start, *(gap.end for gap in self.gaps)]
        if self.durable_end is not None:
            known.append(self.durable_end)
        log_end = max(known)
        if not self.segments or log_end > end:
            self._add_segment(log_end)

    def _add_segment(self, base_offset: Offset) -> None:
        segment = self._segment(empty_numbers(base_offset))
        self.pool.pin(segment.path, create=True)
        self.pool.unpin(segment.path)
        self.segments.append(segment)
        self.trusted_from[base_offset] = Position(0)

    def _name_holes(self) -> None:
        """Ranges between segments that nobody has accounted for yet get a name, and a file."""
        accounted = [*self._asides(), *self._listed_holes()]
        accounted += [(gap.start, gap.end) for gap in self.gaps]
        end = self.log_start
        for segment in self.segments:
            for start, stop in uncovered(end, segment.base_offset, accounted):
                kind = self._judge(start, at_end=False, whole=False)
                self._report(Gap(start=start, end=stop, kind=kind), "the bytes are missing")
                name = names.aside_name(start, stop, kind)
                smallfile.replace(self.disk, self.directory, name, b"")
            end = max(end, segment.next_offset)

    def _asides(self) -> list[tuple[Offset, Offset]]:
        found = self.disk.listdir(self.directory)
        ranges = (
            names.parse_aside(name, kind) for name in found for kind in (names.TORN, names.DAMAGED)
        )
        return [span for span in ranges if span is not None]

    def _listed_holes(self) -> list[tuple[Offset, Offset]]:
        """Where the checkpoint itself has a hole: an earlier recovery accounted for it."""
        listed = self.checkpoint.segments if self.checkpoint else ()
        return [
            (one.next_offset, other.base_offset)
            for one, other in pairwise(listed)
            if other.base_offset > one.next_offset
        ]

    # Making it durable

    def _make_durable(self, segment: Segment) -> None:
        if self._same_boot():
            rewrite(segment.file(), start=self._unsynced_from(segment), end=segment.size)
        segment.file().fdatasync()

    def _unsynced_from(self, segment: Segment) -> Position:
        """A position before the first scanned batch that is not on record as durable."""
        scanned_from = self.trusted_from[segment.base_offset]
        if self.durable_end is None:
            return scanned_from
        if segment.next_offset <= self.durable_end:
            return segment.size
        entry = segment.indexes().offsets.at_or_before(Offset(self.durable_end - 1))
        return scanned_from if entry is None else max(scanned_from, entry.position)

    def _settle(self) -> None:
        for segment in self.segments:
            if segment.base_offset in self.trusted_from:
                self._make_durable(segment)
                content = segment.indexes().to_bytes()
                write_indexes(self.disk, self.directory, segment.base_offset, content)
                segment.release_indexes()
        log_end = self.segments[-1].next_offset
        drop_snapshots(self.disk, self.directory, lambda offset: offset > log_end)
        snapshot = names.segment_path(self.directory, log_end, names.SNAPSHOT)
        smallfile.write_all(self.disk, snapshot, encode_snapshot(self.producers))
        self.disk.sync_dir(self.directory)
        store_end(self.disk, self.directory, log_end)  # Not before the names are durable too.
        self._vouch()

    def _begin(self) -> None:
        """A new log: two syncs, not eight. Its segment is empty, so there is nothing to index, and
        the sync of the directory that ends the checkpoint makes all names durable together."""
        self.log_start = self.start
        if self.seed is not None:
            self.epochs = seeded_epochs(self.seed, self.start)
            self.producers = plant_producers(self.disk, self.directory, self.seed, self.start)
        self._add_segment(self.start)
        store_end(self.disk, self.directory, self.start)
        self.is_clean = True
        self._vouch()

    def _vouch(self) -> None:
        log_end = self.segments[-1].next_offset
        checkpoint = Checkpoint(
            boot=self.boot,
            clean=self.is_clean,
            log_start=self.log_start,
            trimmed_to=self._trimmed_to,
            durable_end=log_end,
            segments=tuple(segment.numbers for segment in self.segments),
            epochs=self.epochs.entries,
            cleaned_to=self._cleaned_to,
            compacted=self._compacted,
        )
        store_checkpoint(self.disk, self.directory, checkpoint)
