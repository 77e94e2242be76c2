"""What is converted next, and which small files are merged. Pure.

A table grows by what follows its end in HEAD: one large segment, or several small ones together. A
merge makes one file of neighbours with the same covered offsets; the result is at least twice its
largest member, so a row is written again as often as its file doubles at most.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise

from tierlog.cold.entry import Entry
from tierlog.table.manifest import MISSING, SOURCES_MAX, TableFile
from tierlog.table.settings import TableSettings
from tierlog.types import Offset

SMALL_SHARE = 4
"""Files of a quarter of the full size are left alone."""
GROWTH = 2


def next_run(entries: Sequence[Entry], settings: TableSettings) -> tuple[Entry, ...]:
    """Of entries that follow each other: the first, and with it as many as make a file. A gap
    between two ends it: a file covers what its sources do."""
    run = [entries[0]]
    size = entries[0].data_bytes
    for one, two in pairwise(entries):
        size += two.data_bytes
        is_full = size > settings.convert_bytes_max or len(run) >= settings.convert_segments_max
        if is_full or one.next_offset != two.base:
            break
        run.append(two)
    return tuple(run)


def merge_run(
    files: Sequence[TableFile], settings: TableSettings, *, spared: Collection[str] = ()
) -> tuple[TableFile, ...]:
    """Neighbours to be merged, the oldest that are worth it; none: (). Those with `spared` keys are
    left alone."""
    small = settings.merge_bytes_max // SMALL_SHARE
    run: list[TableFile] = []
    for file in (*files, None):
        if file is not None and file.key in spared:
            file = None
        fits = file is not None and _fits(run, file, small, settings)
        if not fits:
            if _is_worth(run, settings):
                return tuple(run)
            run = []
        if file is not None and file.size < small:
            run.append(file)
    return ()


def _fits(run: list[TableFile], file: TableFile, small: int, settings: TableSettings) -> bool:
    if file.size >= small:
        return False
    if not run:
        return True
    sources = sum(len(one.sources) for one in run) + len(file.sources)
    size = sum(one.size for one in run) + file.size
    is_next = run[-1].end == file.start
    return is_next and sources <= SOURCES_MAX and size <= settings.merge_bytes_max


def _is_worth(run: list[TableFile], settings: TableSettings) -> bool:
    size = sum(one.size for one in run)
    is_many = len(run) >= settings.merge_files_min
    return is_many and size >= GROWTH * max((one.size for one in run), default=0)


def is_stale(file: TableFile, entries: Sequence[Entry]) -> bool:
    """Whether the log lists other bytes for these offsets than the file was made from. Entries that
    were merged of others hold their batches verbatim."""
    if any(one.sha256 == MISSING for one in file.sources):
        return True
    made_of = dict(file.sources)
    return any(
        one.replaces is None and made_of.get(one.key) != one.sha256
        for one in entries
        if one.base < file.end and file.start < one.next_offset
    )


def covers(entries: Sequence[Entry], start: Offset, end: Offset) -> bool:
    """Whether they have all that there is of `[start, end)`, and are not too many for a file."""
    if not entries or len(entries) > SOURCES_MAX:
        return False
    is_whole = all(one.next_offset == two.base for one, two in pairwise(entries))
    return is_whole and entries[0].base <= start and entries[-1].next_offset >= end
