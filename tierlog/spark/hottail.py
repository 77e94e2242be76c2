"""The hot tail: what the bucket does not have yet, asked of a broker by its own protocol.

The broker serves these offsets also when they have gone cold meanwhile, so a span that was planned
stays readable.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tierlog.client import EARLIEST, LATEST, Client, ClientSettings, Fetched
from tierlog.client.errors import check
from tierlog.env import SystemClock, SystemRng
from tierlog.records.batch import iter_batches, validate_stored
from tierlog.spark.bounds import PartitionName
from tierlog.spark.errors import DataLost, NotReadable
from tierlog.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from tierlog.config import Address
    from tierlog.records.header import BatchHeader
    from tierlog.spark.plan import HotSlice

logger = logging.getLogger(__name__)

FETCH_BYTES = 8 << 20
EMPTIES_MAX = 60
"""Of half a second each, before a broker that answers with nothing is given up."""


@asynccontextmanager
async def connected(brokers: Sequence[Address]) -> AsyncIterator[Client]:
    settings = ClientSettings(client_id="tierlog-spark")
    places = [(each.host, each.port) for each in brokers]
    async with Client(places, clock=SystemClock(), rng=SystemRng(), settings=settings) as client:
        yield client


async def topics_of(client: Client) -> dict[str, tuple[str, list[int]]]:
    """Of every topic that is not internal: its id in hexadecimal, and its partitions."""
    answer = await client.metadata(None)
    return {
        topic.name: (
            topic.topic_id.hex(),
            sorted(each.partition_index for each in topic.partitions),
        )
        for topic in answer.topics
        if topic.name and not topic.is_internal and not topic.error_code
    }


async def ends_of(
    client: Client, names: Sequence[PartitionName]
) -> dict[PartitionName, tuple[int, int]]:
    """The first offset and the end of each partition."""
    first = await offsets_at(client, dict.fromkeys(names, EARLIEST))
    last = await offsets_at(client, dict.fromkeys(names, LATEST))
    return {name: (first[name], last[name]) for name in names}


async def offsets_at(
    client: Client, times: Mapping[PartitionName, int]
) -> dict[PartitionName, int]:
    """-1 where no record is that late."""
    found: dict[PartitionName, int] = {}
    for topic in dict.fromkeys(name.topic for name in times):
        asked = {name.partition: ms for name, ms in times.items() if name.topic == topic}
        listed = await client.list_offsets(topic, asked)
        found |= {PartitionName(topic, each): listed[each].offset for each in asked}
    return found


async def batches_of(
    client: Client, one: HotSlice, *, fail_on_data_loss: bool = True
) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
    """Whole batches that hold offsets of the slice, each checked. What was deleted while it was
    read is a loss, or left out."""
    offset, empties = one.start, 0
    while offset < one.end:
        try:
            fetched = await _fetched(client, one.name, offset)
        except DataLost as lost:
            if fail_on_data_loss:
                raise
            start, _ = (await ends_of(client, [one.name]))[one.name]
            logger.warning("%s: what is there is read", lost)
            if start <= offset:
                return  # The log ends before: there is nothing behind.
            offset = start
            continue
        view = memoryview(fetched.batches)
        for position, header in iter_batches(view):
            batch = view[position : position + header.size_bytes]
            validate_stored(batch)
            if header.next_offset > offset:
                offset = header.next_offset
                yield header, batch
            if offset >= one.end:
                return
        empties = 0 if len(view) else empties + 1
        if empties > EMPTIES_MAX:
            raise NotReadable(
                f"the broker has nothing of {one.name} from {offset} to {one.end}; "
                f"its high watermark is {fetched.high_watermark}"
            )


async def _fetched(client: Client, name: PartitionName, offset: int) -> Fetched:
    async def once() -> Fetched:
        fetched = await client.fetch(name.topic, name.partition, offset, max_bytes=FETCH_BYTES)
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise DataLost(
                f"offset {offset} of {name} is gone from the broker; failOnDataLoss=false goes on "
                "behind it"
            )
        check(fetched.error, f"{name} at offset {offset}")
        return fetched

    return await client.router.attempt(once, topic=name.topic, repeatable=True)
