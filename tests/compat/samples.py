"""Records for the tests of real clients, and the ways to write and read them."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from random import Random

import pytest

from tests.compat.drivers.base import FETCH_BYTES, Driver, Record, Sending

MARKS = [
    pytest.mark.compat,
    # kafka-python reads its schemas that way when it is imported.
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),
]

NOON_MS = 1_794_830_400_000
"""Some noon: records carry times of that day, whenever the tests run."""

_SEPARATORS = bytes.maketrans(b"\x1e\x1f", b"..")


def noise(size: int, *, seed: int = 1) -> bytes:
    """Bytes that no codec makes smaller, without those that kcat splits at."""
    return Random(seed).randbytes(size).translate(_SEPARATORS)


def odd_records() -> list[Record]:
    """What a client must not confuse: null, empty, binary, long, repeated."""
    return [
        # Long enough that every codec makes it smaller: clients send what does not shrink as it is.
        Record(key=b"plain", value=b"a value that repeats itself, " * 40),
        Record(key=None, value=b"no key"),
        Record(key=b"no value", value=None),
        Record(key=b"empty value", value=b""),
        Record(key=noise(40, seed=2), value=noise(3000, seed=3)),
        Record(key="ключ".encode(), value="значение".encode()),
        Record(key=b"one header", value=b"v", headers=(("trace", b"1"),)),
        Record(key=b"headers", value=b"v", headers=(("a", b"1"), ("a", b"2"), ("empty", b""))),
    ]


def timed(records: Sequence[Record], *, first_ms: int = NOON_MS) -> list[Record]:
    return [replace(one, timestamp_ms=first_ms + 1000 * n) for n, one in enumerate(records)]


def placed(records: Sequence[Record]) -> list[Record]:
    """As they lie in a log that holds nothing else."""
    return [replace(one, offset=offset) for offset, one in enumerate(records)]


def write(
    driver: Driver, server: str, topic: str, records: Sequence[Record], sending: Sending
) -> list[int]:
    with closing(driver.producer(server, sending)) as producer:
        return producer.send(topic, records)


def read(
    driver: Driver,
    server: str,
    topic: str,
    count: int,
    *,
    partitions: Sequence[int] = (0,),
    offset: int | None = None,
    fetch_bytes: int = FETCH_BYTES,
) -> list[Record]:
    opened = driver.consumer(server, topic, partitions, offset=offset, fetch_bytes=fetch_bytes)
    with closing(opened) as consumer:
        return consumer.read(count)


def without_places(records: Sequence[Record]) -> list[Record]:
    return [one.without_place() for one in records]
