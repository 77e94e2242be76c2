"""Reads records from partitions it is told to read, without a group.

    consumer = Consumer(client)
    await consumer.assign("t", start=EARLIEST)
    async for record in consumer.until(await consumer.end_offsets()):
        ...

Records of a partition come in the order of their offsets, each once for as long as nobody seeks. A
batch is checked against its CRC before it is opened. Errors that may pass are waited out; others
raise `BrokerError`, an offset outside the log among them, unless `reset` says where to go on
instead. Where other partitions brought records along with an error, these come first and the error
with the next poll: busy partitions do not hide one that is stuck.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence

from tierlog.client.client import Client
from tierlog.client.data import EARLIEST, FETCH_BYTES_MAX, LATEST, PARTITION_BYTES_MAX
from tierlog.client.errors import BrokerError, ClientError
from tierlog.client.values import Consumed, Fetched, TopicPartition
from tierlog.records.batch import iter_batches, validate_stored
from tierlog.records.record import decode_records
from tierlog.wire.error_codes import ErrorCode


class Consumer:
    """See the module."""

    def __init__(
        self,
        client: Client,
        *,
        reset: int | None = None,
        fetch_bytes_max: int = FETCH_BYTES_MAX,
        partition_bytes_max: int = PARTITION_BYTES_MAX,
        deadline_s: float | None = None,
    ) -> None:
        self.positions: dict[TopicPartition, int] = {}
        """The next offset to read of each assigned partition."""
        self._client = client
        self._reset = reset
        self._fetch_bytes_max = fetch_bytes_max
        self._partition_bytes_max = partition_bytes_max
        self._deadline_s = deadline_s
        self._owed: dict[TopicPartition, tuple[int, BrokerError]] = {}
        """Errors that came along with records, and the offsets they were about."""

    # Where to read

    async def assign(
        self, topic: str, partitions: Sequence[int] | None = None, *, start: int = EARLIEST
    ) -> None:
        """Add partitions, by default all; `start` is an offset, EARLIEST or LATEST."""
        if partitions is None:
            partitions = sorted((await self._client.topic(topic)).partitions)
        if start >= 0:
            self.positions |= {TopicPartition(topic, each): start for each in partitions}
        else:
            await self._seek([TopicPartition(topic, each) for each in partitions], start)

    def unassign(self, topic: str, partition: int) -> None:
        self.positions.pop(TopicPartition(topic, partition), None)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self.positions[TopicPartition(topic, partition)] = offset

    async def seek_to_beginning(self) -> None:
        await self._seek(list(self.positions), EARLIEST)

    async def seek_to_end(self) -> None:
        await self._seek(list(self.positions), LATEST)

    async def seek_to_time(self, timestamp: int) -> None:
        """To the first record at or after the time; to the end where there is none."""
        places = list(self.positions)
        found = await self._offsets(places, timestamp)
        late = [place for place in places if found[place] < 0]
        self.positions |= found | await self._offsets(late, LATEST)

    async def end_offsets(self) -> dict[TopicPartition, int]:
        return await self._offsets(list(self.positions), LATEST)

    async def beginning_offsets(self) -> dict[TopicPartition, int]:
        return await self._offsets(list(self.positions), EARLIEST)

    async def _seek(self, places: Sequence[TopicPartition], timestamp: int) -> None:
        self.positions |= await self._offsets(places, timestamp)

    async def _offsets(
        self, places: Sequence[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for topic in dict.fromkeys(place.topic for place in places):
            asked = {place.partition: timestamp for place in places if place.topic == topic}
            listed = await self._client.list_offsets(topic, asked, deadline_s=self._deadline_s)
            found |= {TopicPartition(topic, each): listed[each].offset for each in asked}
        return found

    # Reading

    async def poll(self, *, max_wait_ms: int = 500, min_bytes: int = 1) -> list[Consumed]:
        """What has come; an empty list when nothing does in time. One round, errors waited out."""
        if not self.positions:
            raise ValueError("no partitions are assigned")
        return await self._poll(dict(self.positions), max_wait_ms, min_bytes)

    async def __aiter__(self) -> AsyncIterator[Consumed]:
        """Records for ever."""
        while True:
            for record in await self.poll():
                yield record

    async def until(self, ends: Mapping[TopicPartition, int]) -> AsyncIterator[Consumed]:
        """Records below these offsets, exclusive; ends when all positions are there."""
        while places := self._behind(ends):
            for record in await self._poll(places, max_wait_ms=500, min_bytes=1):
                if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                    yield record

    def _behind(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {p: at for p, at in self.positions.items() if at < ends.get(p, 0)}

    async def _poll(
        self, places: Mapping[TopicPartition, int], max_wait_ms: int, min_bytes: int
    ) -> list[Consumed]:
        self._raise_owed(places)
        retry = self._client.router.retry(self._deadline_s)
        while True:
            try:
                return await self._round(places, max_wait_ms, min_bytes)
            except ClientError as error:
                if not error.retriable:
                    raise
                for topic in {place.topic for place in places}:
                    self._client.router.note(error, topic)
                await retry.pause(error)

    async def _round(
        self,
        places: Mapping[TopicPartition, int],
        max_wait_ms: int,
        min_bytes: int,
    ) -> list[Consumed]:
        """One fetch to each leader, all at once."""
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for place, offset in places.items():
            topic = await self._client.router.topic(place.topic)
            by_leader[topic.leader_of(place.partition).leader][place] = offset
        answers = await asyncio.gather(
            *(
                self._client.fetch_many(
                    asked,
                    max_wait_ms=max_wait_ms,
                    min_bytes=min_bytes,
                    max_bytes=self._fetch_bytes_max,
                    partition_bytes_max=self._partition_bytes_max,
                )
                for asked in by_leader.values()
            )
        )
        found = {place: each for answer in answers for place, each in answer.items()}
        return await self._taken(found, places)

    async def _taken(
        self, found: Mapping[TopicPartition, Fetched], asked: Mapping[TopicPartition, int]
    ) -> list[Consumed]:
        records: list[Consumed] = []
        troubles: dict[TopicPartition, BrokerError] = {}
        for place, fetched in found.items():
            if self.positions.get(place) != asked.get(place, -1):
                continue  # Somebody has sought elsewhere meanwhile.
            if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE and self._reset is not None:
                await self._seek([place], self._reset)
            elif fetched.error:
                sentence = f"{place} at offset {asked[place]}"
                troubles[place] = BrokerError(fetched.error, sentence)
            else:
                records += self._opened(place, fetched)
        if troubles and not records:
            raise next(iter(troubles.values()))
        self._put_off(troubles, asked)
        return records

    def _put_off(
        self, troubles: Mapping[TopicPartition, BrokerError], asked: Mapping[TopicPartition, int]
    ) -> None:
        """What may pass is asked for anew in the next round, from whoever leads by then."""
        for place, error in troubles.items():
            self._client.router.note(error, place.topic)
            if not error.retriable:
                self._owed[place] = asked[place], error

    def _raise_owed(self, places: Mapping[TopicPartition, int]) -> None:
        """Unless somebody has sought elsewhere meanwhile."""
        owed, self._owed = self._owed, {}
        for place, (offset, error) in owed.items():
            if places.get(place) == offset:
                raise error

    def _opened(self, place: TopicPartition, fetched: Fetched) -> list[Consumed]:
        """Open the batches and move the position behind them."""
        view = memoryview(fetched.batches)
        start = self.positions[place]
        records: list[Consumed] = []
        for position, header in iter_batches(view):
            batch = view[position : position + header.size_bytes]
            validate_stored(batch)
            if header.next_offset <= start:
                continue
            if not header.is_control:
                records += [
                    Consumed(
                        *place, each.offset, each.timestamp, each.key, each.value, each.headers
                    )
                    for each in decode_records(batch)
                    if each.offset >= start
                ]
            self.positions[place] = header.next_offset
        return records
