"""Where a replay goes on: what its target took last of the same run.

The target says it by the header `tierlog.source` of its records, read from its end towards its
beginning: a run that was ended a moment ago is found at once, and one that never was only when all
has been read. Timestamps are no help, since a replay keeps those of its source. So the driver looks
once, says how far it is, and may be told that there was no earlier run; a task that is run again
reads what came since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierlog.client.data import EARLIEST, LATEST
from tierlog.records.record import decode_records
from tierlog.spark import hottail
from tierlog.spark.bounds import PartitionName
from tierlog.spark.pins import side_by_side
from tierlog.spark.plan import HotSlice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tierlog.client import Client
    from tierlog.records.record import Record

SOURCE_HEADER = "tierlog.source"
WINDOW, WINDOW_MAX = 256, 65_536
"""Offsets of the target that are read at a time: few at first, and twice as many each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """At one partition of the target."""

    end: int
    """Up to which offset of the target."""
    last: int | None
    """The offset of the source that it took last; None: it has none of this run."""


async def look(
    client: Client,
    target: str,
    names: Sequence[PartitionName],
    run: str,
    *,
    is_fresh: bool = False,
    watcher: Callable[[int, int], None] | None = None,
) -> dict[PartitionName, Looked]:
    """For each partition of the source. `is_fresh`: there was no earlier run, and nothing is read.
    The watcher is told offsets of the target that were looked at, and all."""
    numbers = [name.partition for name in names]
    first = await client.list_offsets(target, dict.fromkeys(numbers, EARLIEST))
    ends = await client.list_offsets(target, dict.fromkeys(numbers, LATEST))
    if is_fresh:
        return {name: Looked(end=ends[name.partition].offset, last=None) for name in names}
    total = sum(ends[each].offset - first[each].offset for each in numbers)
    done = 0

    def passed(offsets: int) -> None:
        nonlocal done
        done += offsets
        if watcher is not None:
            watcher(done, total)

    async def one(name: PartitionName) -> Looked:
        start, end = first[name.partition].offset, ends[name.partition].offset
        last = await last_source(client, target, name, run, start=start, end=end, passed=passed)
        return Looked(end=end, last=last)

    return dict(zip(names, await side_by_side(map(one, names)), strict=True))


async def last_since(
    client: Client, target: str, name: PartitionName, run: str, since: Looked
) -> int | None:
    """As `look`, by somebody who knows what it found."""
    end = (await client.list_offsets(target, {name.partition: LATEST}))[name.partition].offset
    found = await last_source(client, target, name, run, start=since.end, end=end)
    return since.last if found is None else found


async def last_source(
    client: Client,
    target: str,
    name: PartitionName,
    run: str,
    *,
    start: int,
    end: int,
    passed: Callable[[int], None] = lambda _: None,
) -> int | None:
    """The offset of `name` that `[start, end)` of the target took last in this run."""
    width = WINDOW
    while end > start:
        low = max(start, end - width)
        wanted = HotSlice(name=PartitionName(target, name.partition), start=low, end=end)
        found = await _newest(client, wanted, name, run)
        if found is not None:
            passed(end - start)  # The rest need not be read.
            return found
        passed(end - low)
        end, width = low, min(2 * width, WINDOW_MAX)
    return None


async def _newest(client: Client, one: HotSlice, name: PartitionName, run: str) -> int | None:
    found: int | None = None
    async for _, batch in hottail.batches_of(client, one):
        for record in decode_records(batch):
            if one.start <= record.offset < one.end:
                offsets = [source_offset(value, name, run) for value in _sources(record)]
                found = next((at for at in offsets if at is not None), found)
    return found


def _sources(record: Record) -> list[bytes]:
    return [value or b"" for header, value in record.headers if header == SOURCE_HEADER]


def source_offset(value: bytes, name: PartitionName, run: str) -> int | None:
    """Of a header that is ours; None of any other."""
    words = value.decode("utf-8", "replace").split("/")
    if len(words) != 4 or (words[0], words[1], words[3]) != (name.topic, str(name.partition), run):
        return None
    return int(words[2]) if words[2].isascii() and words[2].isdigit() else None
