"""Columns of converted records: from arrays of numbers and bytes to one Arrow record batch.

Both scans end here, so whatever one does differently shows in the columns alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tierlog.records import attributes as bits
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
    count, counts = len(columns.offsets), np.asarray(columns.counts, np.int64)
    fields = dict(zip(BatchHeader._fields, table_of(columns.headers).T, strict=True))

    def each(values: Longs, kind: type[np.generic]) -> NDArray[Any]:
        # Most fields are the same in all batches of a piece; then there is nothing to count.
        if (values == values[0]).all():
            return np.full(count, values[0].astype(kind))
        return np.repeat(values.astype(kind), counts)

    def flag(bit: int) -> NDArray[Any]:
        return each(fields["attributes"] & bit, np.bool_)

    bases = each(fields["base_offset"], np.int64)
    arrays = {
        "offset": pa.array(columns.offsets),
        "timestamp": pa.array(columns.times_ms * 1000).view(SCHEMA.field("timestamp").type),
        "timestampType": pa.array(flag(bits.LOG_APPEND_TIME).astype(np.int32)),
        "key": columns.keys,
        "value": columns.values,
        "headers": columns.record_headers,
        "topic": pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "leader_epoch": pa.array(each(fields["leader_epoch"], np.int32)),
        "producer_id": pa.array(each(fields["producer_id"], np.int64)),
        "producer_epoch": pa.array(each(fields["producer_epoch"], np.int16)),
        "sequence": pa.array(_sequences(fields["base_sequence"], counts, columns.offsets - bases)),
        "is_transactional": pa.array(flag(bits.TRANSACTIONAL)),
        "is_control": pa.array(flag(bits.CONTROL)),
        "batch_base_offset": pa.array(bases),
    }
    return pa.RecordBatch.from_arrays([arrays[name] for name in SCHEMA.names], schema=SCHEMA)


def _sequences(first: Longs, counts: Longs, places: Longs) -> NDArray[np.int32]:
    """-1 for records of a producer that does not number them."""
    if (first < 0).all():
        return np.full(len(places), -1, np.int32)
    each = np.repeat(first, counts)
    return np.where(each < 0, -1, (each + places) & SEQUENCE_MAX).astype(np.int32)


def table_of(headers: Sequence[BatchHeader]) -> Longs:
    """A row for each, a column for each of their fields."""
    return np.array(headers, np.int64).reshape(len(headers), len(BatchHeader._fields))


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
