"""What every real client can do for a test, in one set of words.

A driver opens producers, consumers and admins of one client library. They stay open until they are
closed, so that a test can change the world under a running client. Every wait has a deadline. What
the broker refuses comes up as `Refused` with Kafka's number, whatever the client calls it.

Consumers are assigned their partitions by hand and fall back to the beginning when their offset is
gone; groups have their own tests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

PATIENCE_S = 20.0
CLIENT_ID = "tierlog-compat"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FETCH_BYTES = 4 << 20
"""Of a partition, in one answer."""

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
"""Questions that an admin may ask about a partition's offsets, by Kafka's numbers."""

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`offset` is -1 and `timestamp_ms` may be None in what is to be written."""

    key: bytes | None = None
    value: bytes | None = b""
    headers: Headers = ()
    partition: int = 0
    timestamp_ms: int | None = None
    offset: int = -1

    def without_place(self) -> "Record":
        """Comparable with what was sent without a timestamp."""
        return replace(self, timestamp_ms=None, offset=-1)


class Refused(Exception):
    """The broker said no."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How a producer sends. `bytes_max` is the client's own limit for records and requests;
    `patience_s` how long it tries before it gives up a record."""

    codec: str = "none"
    acks: str = "all"
    idempotent: bool = False
    bytes_max: int = 1_000_000
    patience_s: float = PATIENCE_S


class Producer(Protocol):
    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        """The offset of each; -1 where the client does not learn it."""
        ...

    def close(self) -> None: ...


class Consumer(Protocol):
    def read(self, count: int) -> list[Record]:
        """The next so many records, or fewer when patience ends."""
        ...

    def seek(self, offset: int) -> None:
        """Go on from there, in all of its partitions."""
        ...

    def offset_at(self, timestamp_ms: int) -> int | None:
        """The first offset at or after a time in the first of its partitions."""
        ...

    def close(self) -> None: ...


class Admin(Protocol):
    def create(self, topic: str, partitions: int = 1, **configs: str) -> None: ...

    def delete(self, topic: str) -> None: ...

    def topics(self) -> set[str]: ...

    def partition_count(self, topic: str) -> int: ...

    def grow(self, topic: str, total: int) -> None: ...

    def configs(self, topic: str) -> Mapping[str, str | None]: ...

    def alter(self, topic: str, **configs: str) -> None: ...

    def trim(self, topic: str, before: int) -> int:
        """Delete records of partition 0; the new beginning."""
        ...

    def offset_of(self, topic: str, question: int) -> int | None:
        """Of partition 0, by one of Kafka's numbers below zero; None where it cannot ask that."""
        ...

    def cluster(self) -> tuple[str | None, set[str]]:
        """Its id, and the addresses of its nodes."""
        ...

    def stored_bytes(self, topic: str) -> int:
        """What the log directories hold of a topic."""
        ...

    def close(self) -> None: ...


class Driver(Protocol):
    name: str

    def missing(self) -> str | None:
        """Why it cannot run here, or None."""
        ...

    def producer(self, server: str, sending: Sending) -> Producer: ...

    def consumer(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        *,
        offset: int | None = None,
        fetch_bytes: int = FETCH_BYTES,
    ) -> Consumer:
        """From an offset, or from the beginning."""
        ...

    def admin(self, server: str) -> Admin | None:
        """None where the client has no admin calls."""
        ...


def dotted(configs: Mapping[str, str]) -> dict[str, str]:
    """`max_message_bytes` is `max.message.bytes`."""
    return {name.replace("_", "."): value for name, value in configs.items()}


def headers_of(pairs: Any) -> Headers:
    return tuple((name, value) for name, value in pairs or ())
