"""The plain values that go in and come out."""

from dataclasses import dataclass
from typing import NamedTuple

from tierlog.records.record import RecordHeader
from tierlog.types import Bytes
from tierlog.wire.error_codes import ErrorCode


class NewRecord(NamedTuple):
    """A record to be written. Without a timestamp it gets the client's clock."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[RecordHeader, ...] = ()
    timestamp: int | None = None


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Consumed(NamedTuple):
    """A record as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]


class Placed(NamedTuple):
    """Where a record went. Offset -1: written, but the broker no longer knows where, or acks=0."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """The answer to one batch. Offset -1 with acks=0."""

    base_offset: int
    log_append_time_ms: int = -1
    log_start: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The answer for one partition: whole batches; the first may begin below the offset."""

    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start: int
    batches: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """Offset -1: no record is that late."""

    offset: int
    timestamp: int
    leader_epoch: int
