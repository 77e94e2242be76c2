"""From an offset to the end of a partition: its bytes, over both tiers, and when its record was
written.

Bytes are exact to the batch on the disk and, in the bucket, to the sample of the manifest that lies
nearest below: nothing is read for them but what the node has in memory. The time is that of the
record itself, read from the log or, through the chunk cache, from the bucket.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tierlog.cold.entry import Entry
from tierlog.hot.bytime import first_at_time
from tierlog.records.batch import parse_header
from tierlog.types import Offset, TimestampMs

if TYPE_CHECKING:
    from tierlog.broker.node import Node
    from tierlog.broker.partition import Partition
    from tierlog.cold.head import Head, PageRef
    from tierlog.groups.effort import Effort
    from tierlog.hot import Log
    from tierlog.hot.bytime import Found, Steps

ANY_TIME: Final = TimestampMs(0)
BATCHES_MAX: Final = 100
"""Looked through for the first record: batches may have lost theirs to compaction."""


def bytes_behind(partition: Partition, offset: int) -> int:
    """From `offset` to the end that consumers see."""
    log = partition.log
    total = local_bytes(log, max(offset, log.log_start))
    cold = partition.cold
    if cold is not None and cold.head is not None and offset < log.log_start:
        total += cold_bytes(cold.head, offset, int(log.log_start))
    return total


def local_bytes(log: Log, offset: int) -> int:
    if offset >= log.visible_end:
        return 0
    found, _ = log.measure(Offset(offset), end=log.visible_end)
    return found + sum(one.size for one in log.segments if one.base_offset > offset)


def cold_bytes(head: Head, start: int, end: int) -> int:
    """Of the batches in `[start, end)`, as the manifest knows them."""
    rows: list[Entry | PageRef] = [*head.indexes, *head.leaves, *head.entries]
    return sum(
        _before(row, end) - _before(row, start)
        for row in rows
        if row.next_offset > start and row.base < end
    )


def _before(row: Entry | PageRef, offset: int) -> int:
    """Bytes of the row that lie before `offset`."""
    size = row.data_bytes if isinstance(row, Entry) else row.bytes
    if offset <= row.base:
        return 0
    if offset >= row.next_offset:
        return size
    if isinstance(row, Entry):
        return max((one.position for one in row.samples if one.offset <= offset), default=0)
    # A page that is not open: as if its records were alike.
    return size * (offset - row.base) // (row.next_offset - row.base)


# Time


def is_local(partition: Partition, offset: int) -> bool:
    return offset >= partition.log.log_start


async def time_at(node: Node, partition: Partition, offset: int, effort: Effort) -> int | None:
    """Timestamp of the first record from `offset` on. What the store raises passes."""
    cold, proxy = partition.older, node.proxy
    if not is_local(partition, offset) and cold is not None and proxy is not None:
        found = await proxy.search_time(cold, ANY_TIME, start=Offset(offset))
        if found is not None:
            return found[1]
    start = max(offset, partition.log.log_start)
    found = await node.searches.run(_first_from(partition.log, Offset(start), effort))
    return None if found is None else found[1]


def _first_from(log: Log, offset: Offset, effort: Effort) -> Steps[Found | None]:
    for _ in range(BATCHES_MAX):
        batch = log.read(offset, bytes_max=1)
        if not batch:
            return None
        question = first_at_time(batch, ANY_TIME, offset)
        if not question.is_small:  # Those are answered in a thread.
            question = replace(question, look=effort.counted(question.look))
        found = yield question
        if found is not None:
            return found
        offset = parse_header(batch).next_offset
    return None
