"""Columns of converted records: from arrays of numbers and bytes to one Arrow record batch.

Both scans end here, so whatever one does differently shows in the columns alone.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tierlog.records.header import SEQUENCE_MAX, BatchHeader
from tierlog.table.schema import SCHEMA

Array: TypeAlias = pa.Array
Longs: TypeAlias = NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class Columns:
    """Of the records of some batches, in order."""

    headers: list[BatchHeader]
    """One for each batch."""
    counts: list[int]
    """Records of each batch."""
    offsets: Longs
    times_ms: Longs
    keys: Array
    values: Array
    record_headers: Array


def record_batch(columns: Columns, *, topic: str, partition: int) -> pa.RecordBatch:
    """In schema v1."""
    count = len(columns.offsets)
    headers, counts = columns.headers, np.asarray(columns.counts, np.int64)

    def each(values: list[Any], kind: type[np.generic]) -> Array:
        return pa.array(np.repeat(np.array(values, kind), counts))

    bases = np.repeat(np.array([one.base_offset for one in headers], np.int64), counts)
    first = np.repeat(np.array([one.base_sequence for one in headers], np.int64), counts)
    sequences = np.where(first < 0, -1, (first + columns.offsets - bases) & SEQUENCE_MAX)
    arrays = {
        "offset": pa.array(columns.offsets),
        "timestamp": pa.array(columns.times_ms * 1000).view(SCHEMA.field("timestamp").type),
        "timestampType": each([int(one.is_log_append_time) for one in headers], np.int32),
        "key": columns.keys,
        "value": columns.values,
        "headers": columns.record_headers,
        "topic": pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "leader_epoch": each([one.leader_epoch for one in headers], np.int32),
        "producer_id": each([one.producer_id for one in headers], np.int64),
        "producer_epoch": each([one.producer_epoch for one in headers], np.int16),
        "sequence": pa.array(sequences.astype(np.int32)),
        "is_transactional": each([one.is_transactional for one in headers], np.bool_),
        "is_control": each([one.is_control for one in headers], np.bool_),
        "batch_base_offset": pa.array(bases),
    }
    return pa.RecordBatch.from_arrays([arrays[name] for name in SCHEMA.names], schema=SCHEMA)


def validity(is_there: NDArray[np.bool_]) -> pa.Buffer | None:
    if is_there.all():
        return None
    return pa.py_buffer(np.packbits(is_there, bitorder="little"))


def offsets_of(sizes: Longs) -> NDArray[np.int32]:
    """Where each field begins, and the end of the last. Groups are far below 2 GiB."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(np.maximum(sizes, 0), out=offsets[1:])
    return offsets


def names(raw: Array) -> Array:
    """Names of headers as text. What is not UTF-8 is read as Java reads it: with U+FFFD."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([one.decode("utf-8", "replace") for one in raw.to_pylist()], pa.string())
