"""Topics for the tests of Spark: written batch by batch, so that every codec is there, partly cold,
and read by a real consumer, whose records are what everybody must see."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hypothesis import strategies as st

from tests.compat.cold import STAYS_HOT, TIERED, make_cold
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tierlog.client import Client
from tierlog.env import local_env
from tierlog.records.attributes import Codec
from tierlog.records.record import Record, encode_batch
from tierlog.types import Offset, TimestampMs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PATIENCE_S = 60.0
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Seen(NamedTuple):
    """A record as all readers must see it."""

    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Written:
    partition: int
    codec: Codec
    records: tuple[tuple[bytes | None, bytes | None, Headers, int], ...]
    """Key, value, headers, timestamp."""


@dataclass(frozen=True, slots=True)
class Topic:
    """Cold first, then hot. Of the cold part the table covers so many segments a partition."""

    partitions: int
    cold: tuple[Written, ...]
    hot: tuple[Written, ...]
    log_append_time: bool
    converted_share: float


names = st.text("abcé-", min_size=1, max_size=4)
some_bytes = st.none() | st.binary(max_size=30) | st.just(b"x" * 300)
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
times = st.integers(1_700_000_000_000, 1_700_000_000_050)
records = st.lists(st.tuples(some_bytes, some_bytes, headers, times), min_size=1, max_size=12)


@st.composite
def topics(draw: st.DrawFn) -> Topic:
    partitions = draw(st.integers(1, 2))
    # Every codec in every topic, in an order of its own.
    codecs = draw(st.permutations(list(Codec)))
    batch = st.builds(
        Written,
        st.integers(0, partitions - 1),
        st.sampled_from(list(Codec)),
        records.map(tuple),
    )
    cold = [
        Written(draw(st.integers(0, partitions - 1)), each, tuple(draw(records))) for each in codecs
    ]
    cold += draw(st.lists(batch, max_size=12))
    return Topic(
        partitions=partitions,
        cold=tuple(cold),
        hot=tuple(draw(st.lists(batch, max_size=4))),
        log_append_time=draw(st.booleans()),
        converted_share=draw(st.sampled_from([0.0, 0.3, 0.7, 1.0])),
    )


def write(node: RunningNode, name: str, batches: Sequence[Written]) -> None:
    async def run() -> None:
        env = local_env()
        host, port = node.address.split(":")
        async with Client([(host, int(port))], clock=env.clock, rng=env.rng) as client:
            for one in batches:
                await client.produce(name, one.partition, encoded(one))

    asyncio.run(run())


def encoded(one: Written) -> bytearray:
    return encode_batch(
        [
            Record(Offset(number), TimestampMs(ms), key, value, tuple(some))
            for number, (key, value, some, ms) in enumerate(one.records)
        ],
        codec=one.codec,
    )


def make(node: RunningNode, name: str, topic: Topic) -> None:
    """In the node: its cold part in the store and not on the disk, the rest the other way round."""
    kind = "LogAppendTime" if topic.log_append_time else "CreateTime"
    # The table is left to the tests, which convert as much as they want.
    settings = {**TIERED, "segment_bytes": "1024", "tierlog_table_enable": "false"}
    settings["message_timestamp_type"] = kind
    Confluent().admin(node.address).create(name, topic.partitions, **settings)
    write(node, name, topic.cold)
    make_cold(node, name)
    Confluent().admin(node.address).alter(name, **STAYS_HOT)
    write(node, name, topic.hot)


def consumed(
    node: RunningNode,
    name: str,
    *,
    starts: Mapping[int, int] | None = None,
    ends: Mapping[int, int] | None = None,
) -> list[Seen]:
    """By librdkafka: all of it, or `[start, end)` of each partition while it grows."""
    import confluent_kafka as kafka

    consumer = kafka.Consumer(
        {
            "bootstrap.servers": node.address,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "broker.address.family": "v4",
            # An offset that is gone is an error, not another offset.
            "auto.offset.reset": "earliest" if starts is None else "error",
        }
    )
    try:
        partitions = sorted(consumer.list_topics(name, PATIENCE_S).topics[name].partitions)
        at = {each: 0 if starts is None else starts[each] for each in partitions}
        consumer.assign([kafka.TopicPartition(name, each, at[each]) for each in partitions])
        found: list[Seen] = []
        ended = {each for each in partitions if ends is not None and at[each] >= ends[each]}
        while len(ended) < len(partitions):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "the node has fallen silent"
            error, partition, offset = message.error(), message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            if error is not None:
                assert error.code() == kafka.KafkaError._PARTITION_EOF, error
                if ends is None or offset >= ends[partition]:
                    ended.add(partition)
                continue
            if ends is None or offset < ends[partition]:
                found.append(_seen(message))
            if ends is not None and offset >= ends[partition] - 1:
                ended.add(partition)
        return sorted(found)
    finally:
        consumer.close()


def _seen(message: Any) -> Seen:
    kind, ms = message.timestamp()
    return Seen(
        message.partition(),
        message.offset(),
        ms,
        {1: 0, 2: 1}[kind],
        message.key(),
        message.value(),
        tuple((name, value) for name, value in message.headers() or ()),
    )


def collected(frame: "DataFrame") -> list[Seen]:
    """By Spark, with whatever columns of Kafka's there are."""
    from pyspark.sql import functions as f

    frame = frame.withColumn("timestamp", f.unix_millis("timestamp"))
    return sorted(
        Seen(
            row.partition,
            row.offset,
            row.timestamp,
            row.timestampType,
            _bytes(row.key),
            _bytes(row.value),
            tuple((one.key, _bytes(one.value)) for one in row.headers or ()),
        )
        for row in frame.collect()
    )


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


# Bounds


@dataclass(frozen=True, slots=True)
class Bounds:
    """By offset or by time, as shares of what there is."""

    by_time: bool
    start: float
    end: float


shares = st.floats(0, 1)
bounds = st.builds(Bounds, st.booleans(), shares, shares)


def options_of(name: str, topic: Topic, wanted: Bounds, rows: Sequence[Seen]) -> dict[str, str]:
    """As the query says it, in Kafka's words."""
    low, high = sorted((wanted.start, wanted.end))
    if wanted.by_time and not topic.log_append_time:
        first, last = (1_700_000_000_000 + int(52 * share) - 1 for share in (low, high))
        return {
            "startingTimestamp": str(first),
            "endingTimestamp": str(last),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    ends = ends_of(topic, rows)
    return {
        option: json.dumps({name: {str(each): int(share * end) for each, end in ends.items()}})
        for option, share in (("startingOffsets", low), ("endingOffsets", high))
    }


def ends_of(topic: Topic, rows: Sequence[Seen]) -> dict[int, int]:
    return {
        each: max((one.offset + 1 for one in rows if one.partition == each), default=0)
        for each in range(topic.partitions)
    }


def expected(name: str, topic: Topic, options: dict[str, str], rows: Sequence[Seen]) -> list[Seen]:
    """What these options mean, worked out from what the consumer read."""
    if "startingTimestamp" in options:
        first, last = (int(options[f"{word}Timestamp"]) for word in ("starting", "ending"))
        starts = _first_at(topic, rows, first)
        ends = _first_at(topic, rows, last)
    else:
        starts, ends = (
            {int(each): at for each, at in json.loads(options[option])[name].items()}
            for option in ("startingOffsets", "endingOffsets")
        )
    return [one for one in rows if starts[one.partition] <= one.offset < ends[one.partition]]


def _first_at(topic: Topic, rows: Sequence[Seen], ms: int) -> dict[int, int]:
    ends = ends_of(topic, rows)
    return {
        each: min(
            (one.offset for one in rows if one.partition == each and one.timestamp >= ms),
            default=end,
        )
        for each, end in ends.items()
    }
