"""Control batches: the markers by which a broker ends a transaction in a partition.

One record in a batch that is both transactional and control. Key: version i16, type i16 (0 abort,
1 commit). Value: version i16, epoch of the transaction coordinator i32. Readers ignore versions and
bytes that were added later. Other types belong to Kafka's own quorum and are not ours to read.
"""

from dataclasses import dataclass
from struct import Struct

from tierlog.records.errors import MalformedRecords
from tierlog.records.record import FIRST_OFFSET, NO_LEADER_EPOCH, Record, encode_batch
from tierlog.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs

ABORT = 0
COMMIT = 1
MARKER_VERSION = 0

_KEY = Struct(">hh")
_VALUE = Struct(">hi")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMarker:
    """How a transaction ended, and which coordinator said so."""

    commit: bool
    coordinator_epoch: int


def encode_end_marker(
    marker: EndMarker,
    *,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    timestamp: TimestampMs,
    offset: Offset = FIRST_OFFSET,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytearray:
    """The whole control batch. It takes one offset and, as in Kafka, no sequence."""
    record = Record(
        offset=offset,
        timestamp=timestamp,
        key=_KEY.pack(MARKER_VERSION, COMMIT if marker.commit else ABORT),
        value=_VALUE.pack(MARKER_VERSION, marker.coordinator_epoch),
    )
    return encode_batch(
        [record],
        base_offset=offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def decode_end_marker(record: Record) -> EndMarker | None:
    """The marker in a record of a control batch; None for a control record of another type."""
    key, value = record.key, record.value
    if key is None or len(key) < _KEY.size:
        raise MalformedRecords(f"control record {record.offset} without version and type")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise MalformedRecords(f"control record {record.offset} of version {version}")
    if kind not in (ABORT, COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise MalformedRecords(f"end marker {record.offset} without coordinator epoch")
    _, coordinator_epoch = _VALUE.unpack_from(value)
    return EndMarker(commit=kind == COMMIT, coordinator_epoch=coordinator_epoch)
