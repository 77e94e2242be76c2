"""Produce, Fetch and ListOffsets: one request to the leader of its partitions.

From v13 on Produce and Fetch name topics by id. Where the broker tells no id, v12 is used.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tierlog.client.certainty import surely_not_written
from tierlog.client.cluster import TopicInfo
from tierlog.client.connection import Connection
from tierlog.client.errors import BadAnswer, BrokerError, ClientError, check, known_code
from tierlog.client.pool import FETCH, PRODUCE
from tierlog.client.router import Router, call
from tierlog.client.values import Fetched, ListedOffset, NewRecord, Produced, TopicPartition
from tierlog.env import Clock
from tierlog.records.attributes import Codec
from tierlog.records.record import Record, encode_batch
from tierlog.types import Bytes, Offset, TimestampMs
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages import fetch as fetches
from tierlog.wire.messages import list_offsets as offsets
from tierlog.wire.messages import produce as produces
from tierlog.wire.messages.fetch import FetchResponse
from tierlog.wire.messages.list_offsets import ListOffsetsResponse
from tierlog.wire.messages.produce import ProduceRequest, ProduceResponse

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LAST_TIERED = -1, -2, -3, -4, -5
"""Special timestamps of ListOffsets."""

NAMES_UNTIL = 12
"""The last version of Produce and Fetch that names topics."""

FETCH_BYTES_MAX = 50 * 1024 * 1024
"""Kafka's default of fetch.max.bytes."""
PARTITION_BYTES_MAX = 1024 * 1024
"""Kafka's default of max.partition.fetch.bytes."""


class Data:
    """The part of `Client` that moves records."""

    _router: Router

    async def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[NewRecord] | Bytes,
        *,
        acks: int = -1,
        timeout_ms: int = 20_000,
        codec: Codec = Codec.NONE,
        deadline_s: float | None = None,
    ) -> Produced:
        """Append records, or one whole encoded batch.

        Tried again only where it is sure that nothing was written. Every other outcome is left to
        the caller: repeating might write twice.
        """
        batch = records
        if not isinstance(batch, bytes | bytearray | memoryview):
            batch = encode_new(batch, self._router.clock, codec=codec)

        async def once() -> Produced:
            info = await self._router.topic(topic)
            leader = info.leader_of(partition).leader
            connection = await self._router.connection_to(leader, PRODUCE)
            request = produce_request(info, partition, batch, acks=acks, timeout_ms=timeout_ms)
            version = id_version(connection, ApiKey.PRODUCE, info)
            answer = await call(connection, request, ProduceResponse, version=version)
            return produced(answer, partition, acks=acks)

        retry = self._router.retry(deadline_s)
        while True:
            try:
                return await once()
            except ClientError as error:
                self._router.note(error, topic)
                if not error.retriable or not surely_not_written(error, acks=acks):
                    raise
                await retry.pause(error)

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = PARTITION_BYTES_MAX,
        read_committed: bool = False,
    ) -> Fetched:
        """Read one partition: one attempt; the broker's error stands in the answer."""
        place = TopicPartition(topic, partition)
        answers = await self.fetch_many(
            {place: offset},
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            partition_bytes_max=max_bytes,
            read_committed=read_committed,
        )
        return answers[place]

    async def fetch_many(
        self,
        places: Mapping[TopicPartition, int],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = FETCH_BYTES_MAX,
        partition_bytes_max: int = PARTITION_BYTES_MAX,
        read_committed: bool = False,
    ) -> dict[TopicPartition, Fetched]:
        """Read partitions that share a leader, in one request. ValueError if they do not."""
        infos = {name: await self._router.topic(name) for name in {each.topic for each in places}}
        leaders = {infos[each.topic].leader_of(each.partition).leader for each in places}
        if len(leaders) != 1:
            raise ValueError(f"the partitions are led by nodes {sorted(leaders)}")
        connection = await self._router.connection_to(leaders.pop(), FETCH)
        request = fetches.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=1 if read_committed else 0,
            topics=_fetch_topics(infos, places, partition_bytes_max),
        )
        version = id_version(connection, ApiKey.FETCH, *infos.values())
        timeout_s = self._router.settings.request_timeout_s + max_wait_ms / 1000
        answer = await call(
            connection, request, FetchResponse, version=version, timeout_s=timeout_s
        )
        check(answer.error_code)
        fetched = _fetched(infos, answer)
        if missing := places.keys() - fetched.keys():
            raise BadAnswer(f"Fetch was answered without {sorted(missing)}")
        for place, each in fetched.items():
            if each.error:
                self._router.note(BrokerError(each.error), place.topic)
        return fetched

    async def list_offsets(
        self,
        topic: str,
        timestamps: Mapping[int, int],
        *,
        read_committed: bool = False,
        deadline_s: float | None = None,
    ) -> dict[int, ListedOffset]:
        """By partition: the offset at a time, or at EARLIEST, LATEST, MAX_TIMESTAMP,
        EARLIEST_LOCAL, LAST_TIERED (-1 if nothing is tiered)."""

        async def once() -> dict[int, ListedOffset]:
            info = await self._router.topic(topic)
            asked: dict[int, list[int]] = defaultdict(list)
            for partition in timestamps:
                asked[info.leader_of(partition).leader].append(partition)
            found: dict[int, ListedOffset] = {}
            for node, partitions in asked.items():
                request = offsets.ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=1 if read_committed else 0,
                    topics=[_list_topic(info, {each: timestamps[each] for each in partitions})],
                )
                connection = await self._router.connection_to(node)
                found |= _listed(await call(connection, request, ListOffsetsResponse))
            return found

        return await self._router.attempt(once, topic=topic, deadline_s=deadline_s, repeatable=True)


def encode_new(
    records: Sequence[NewRecord], clock: Clock, *, codec: Codec = Codec.NONE
) -> bytearray:
    return encode_batch(stamped(records, clock.now_ms()), codec=codec)


def stamped(records: Sequence[NewRecord], now_ms: int) -> list[Record]:
    """As records of a batch that begins at offset 0; the broker gives the real offsets."""
    return [
        Record(
            offset=Offset(place),
            timestamp=TimestampMs(now_ms if each.timestamp is None else each.timestamp),
            key=each.key,
            value=each.value,
            headers=each.headers,
        )
        for place, each in enumerate(records)
    ]


def id_version(connection: Connection, api: ApiKey, *topics: TopicInfo) -> int:
    """The version to use of an API that names topics by id where it can."""
    named = not all(topic.has_id for topic in topics)
    return connection.version_of(api, at_most=NAMES_UNTIL if named else None)


def produce_request(
    topic: TopicInfo, partition: int, batch: Bytes, *, acks: int, timeout_ms: int
) -> ProduceRequest:
    data = produces.PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            produces.TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=[data])
        ],
    )


def produced(answer: ProduceResponse, partition: int, *, acks: int) -> Produced:
    """The answer to a request of one batch."""
    if acks == 0:
        return Produced(base_offset=-1)
    for topic in answer.responses:
        for each in topic.partition_responses:
            if each.index == partition:
                check(each.error_code, each.error_message)
                return Produced(
                    base_offset=each.base_offset,
                    log_append_time_ms=each.log_append_time_ms,
                    log_start=each.log_start_offset,
                )
    raise BadAnswer(f"Produce was answered without partition {partition}")


def _fetch_topics(
    infos: Mapping[str, TopicInfo], places: Mapping[TopicPartition, int], bytes_max: int
) -> list[fetches.FetchTopic]:
    by_topic: dict[str, list[fetches.FetchPartition]] = {}
    for (name, partition), offset in places.items():
        by_topic.setdefault(name, []).append(
            fetches.FetchPartition(
                partition=partition,
                current_leader_epoch=infos[name].partitions[partition].leader_epoch,
                fetch_offset=offset,
                partition_max_bytes=bytes_max,
            )
        )
    return [
        fetches.FetchTopic(topic=name, topic_id=infos[name].id, partitions=partitions)
        for name, partitions in by_topic.items()
    ]


def _fetched(
    infos: Mapping[str, TopicInfo], answer: FetchResponse
) -> dict[TopicPartition, Fetched]:
    names = {info.id: info.name for info in infos.values()}
    return {
        TopicPartition(topic.topic or names.get(topic.topic_id, ""), each.partition_index): Fetched(
            error=known_code(each.error_code),
            high_watermark=each.high_watermark,
            last_stable_offset=each.last_stable_offset,
            log_start=each.log_start_offset,
            batches=each.records or b"",
        )
        for topic in answer.responses
        for each in topic.partitions
    }


def _list_topic(info: TopicInfo, timestamps: Mapping[int, int]) -> offsets.ListOffsetsTopic:
    return offsets.ListOffsetsTopic(
        name=info.name,
        partitions=[
            offsets.ListOffsetsPartition(
                partition_index=partition,
                current_leader_epoch=info.partitions[partition].leader_epoch,
                timestamp=timestamp,
            )
            for partition, timestamp in timestamps.items()
        ],
    )


def _listed(answer: ListOffsetsResponse) -> dict[int, ListedOffset]:
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"{topic.name}-{each.partition_index}")
            found[each.partition_index] = ListedOffset(
                offset=each.offset, timestamp=each.timestamp, leader_epoch=each.leader_epoch
            )
    return found
