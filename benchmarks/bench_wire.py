"""Wire codecs against kio 0.6.5: its native parser and its Python writer.

Every message and version that both know, with typical values: names of usual length, three
elements an array, 1 KB of records a partition. One row for the whole of a side, then the worst
messages by name; and the hand-written Produce and Fetch paths beside the compiled codecs. Ratios
are our speed over theirs: 0.33 is three times slower.
"""

from __future__ import annotations

import time
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Comparison, Size, Unavailable
from tests.wire.values import Values, every_version
from tierlog.wire.compiler import reader, writer
from tierlog.wire.fetch import FetchWriter
from tierlog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tierlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tierlog.wire.produce import read_produce

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.wire.schema import Field, Message

READ_HOLD = 1 / 3
WRITE_HOLD = 1.0
WORST = 5
"""So many messages are measured and printed by name."""

SURVEY_CALLS = 12
RECORDS = bytes(1024)


class Typical(Values):
    """Values as they come in practice, all of one kind, so that runs can be compared."""

    def _count(self, field: Field) -> int:
        return self._size

    def _text(self) -> str:
        return self._random.choice(("orders", "payments-eu", "host-1.example.com", "consumer-7"))

    def _integer(self, field: Field) -> int:
        return 0 if field.name.endswith("error_code") else self._random.choice((0, 1, 7, 100))

    def _value(self, layout: Any, field: Field) -> Any:
        if field.kind in ("bytes", "records"):
            return RECORDS if field.kind == "records" else RECORDS[:100]
        return super()._value(layout, field)


class Pair:
    """One message in one version, ready to be read and written by both."""

    def __init__(self, kind: type[Message], version: int) -> None:
        from kio.serial import entity_reader, entity_writer

        from tests.wire import kio_oracle

        message = Typical(1, size=3).message(kind, version)
        entity = kio_oracle.as_entity(message, version)
        data = kio_oracle.write(entity)
        self.name = f"{kind.__name__} v{version}"
        self.data = data
        self.reads: dict[str, Callable[[], object]] = {
            "kio": partial(entity_reader(type(entity)), data, 0),
            "tierlog": partial(reader(kind, version), data),
        }
        write, kio_write = writer(kind, version), entity_writer(type(entity))
        self.writes: dict[str, Callable[[], object]] = {
            "kio": lambda: _written(kio_write, entity),
            "tierlog": lambda: b"".join(write(message)),
        }
        assert self.writes["tierlog"]() == data


def _written(write: Any, entity: Any) -> bytes:
    with BytesIO() as buffer:
        write(buffer, entity)
        return buffer.getvalue()


def comparisons(size: Size) -> list[Comparison]:
    try:
        import kio.serial  # noqa: F401  # only whether it is there
    except ImportError:
        raise Unavailable("kio, a development dependency, is not installed") from None
    kinds = list(every_version()) if size.is_full else list(every_version())[::40]
    pairs = [Pair(kind, version) for kind, version in kinds]
    made = [_all(pairs, "read", READ_HOLD), _all(pairs, "write", WRITE_HOLD)]
    made += [_one(f"read {p.name}", p.reads, READ_HOLD) for p in _worst(pairs, "reads")]
    made += [_one(f"write {p.name}", p.writes, WRITE_HOLD) for p in _worst(pairs, "writes")]
    return [*made, *_produce(), *_fetch()]


def _one(name: str, variants: dict[str, Callable[[], object]], hold: float) -> Comparison:
    return Comparison(name=name, variants=variants, baseline="kio", hold=hold)


def _all(pairs: list[Pair], side: str, hold: float) -> Comparison:
    """Every message once a call."""
    variants = {
        codec: partial(_each, [getattr(pair, f"{side}s")[codec] for pair in pairs])
        for codec in ("kio", "tierlog")
    }
    return Comparison(
        name=f"{side} all {len(pairs)} messages and versions",
        variants=variants,
        baseline="kio",
        hold=hold,
        units=len(pairs),
        unit="messages",
    )


def _each(calls: list[Callable[[], object]]) -> None:
    for call in calls:
        call()


def _worst(pairs: list[Pair], side: str) -> list[Pair]:
    """The messages with the least ratio in a quick survey."""
    return sorted(pairs, key=lambda pair: _ratio(getattr(pair, side)))[:WORST]


def _ratio(variants: dict[str, Callable[[], object]]) -> float:
    """Of the least times of several rounds: what else runs on the machine only ever adds."""
    for _ in range(SURVEY_CALLS):  # the interpreter specialises code after some calls
        _timed(variants["tierlog"])
    rounds = [(_timed(variants["kio"]), _timed(variants["tierlog"])) for _ in range(11)]
    return min(theirs for theirs, _ in rounds) / min(ours for _, ours in rounds)


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(SURVEY_CALLS):
        call()
    return time.perf_counter() - start


# The hand-written paths


def _produce() -> list[Comparison]:
    made = []
    for topics, partitions, size in ((1, 1, 16 << 10), (10, 10, 1 << 10)):
        pair = _produce_pair(topics, partitions, size)
        made.append(
            Comparison(
                name=f"parse Produce v9, {topics} x {partitions} partitions of {size >> 10} KB",
                variants={
                    "kio": pair["kio"],
                    "compiled": pair["tierlog"],
                    "by hand": pair["by hand"],
                },
                baseline="kio",
                hold=READ_HOLD,
            )
        )
    return made


def _produce_pair(topics: int, partitions: int, size: int) -> dict[str, Callable[[], object]]:
    from kio.serial import entity_reader

    from tests.wire import kio_oracle

    message = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=f"topic-{topic}",
                partition_data=[
                    PartitionProduceData(index=index, records=bytes(size))
                    for index in range(partitions)
                ],
            )
            for topic in range(topics)
        ],
    )
    data = b"".join(writer(ProduceRequest, 9)(message))
    return {
        "kio": partial(entity_reader(kio_oracle.entity_of(ProduceRequest, 9)), data, 0),
        "tierlog": partial(reader(ProduceRequest, 9), data),
        "by hand": partial(read_produce, 9, data),
    }


def _fetch() -> list[Comparison]:
    made = []
    for topics, partitions in ((1, 1), (10, 10)):
        records = memoryview(bytes(16 << 10))
        made.append(
            Comparison(
                name=f"build and write FetchResponse v12, {topics} x {partitions} of 16 KB",
                variants={
                    "compiled": partial(_fetch_compiled, topics, partitions, records),
                    "by hand": partial(_fetch_by_hand, topics, partitions, records),
                },
                baseline="compiled",
                hold=1.0,
                note="parts for one gathering write; the records are not copied",
            )
        )
    return made


def _fetch_compiled(topics: int, partitions: int, records: memoryview) -> object:
    response = FetchResponse(
        throttle_time_ms=0,
        responses=[
            FetchableTopicResponse(
                topic="topic",
                partitions=[
                    PartitionData(
                        partition_index=index,
                        error_code=0,
                        high_watermark=9,
                        last_stable_offset=9,
                        log_start_offset=0,
                        aborted_transactions=None,
                        records=records,
                    )
                    for index in range(partitions)
                ],
            )
            for _ in range(topics)
        ],
    )
    return writer(FetchResponse, 12)(response)


def _fetch_by_hand(topics: int, partitions: int, records: memoryview) -> object:
    made = FetchWriter(12, topic_count=topics)
    for _ in range(topics):
        made.topic("topic", partition_count=partitions)
        for index in range(partitions):
            made.partition(
                index,
                high_watermark=9,
                last_stable_offset=9,
                log_start_offset=0,
                records=records,
            )
    return made.finish()
