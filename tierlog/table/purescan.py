"""Records into columns without a compiler: by the decoder of `records/`. Equal to `fastscan`."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tierlog.records.errors import MalformedRecords
from tierlog.records.header import BatchHeader
from tierlog.records.record import Record, records_of
from tierlog.table.columns import Columns
from tierlog.table.schema import HEADERS, TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN
from tierlog.types import Bytes


def columns_of(
    headers: Sequence[BatchHeader], payloads: Sequence[Bytes], headers_max: Sequence[int]
) -> tuple[Columns | None, list[int]]:
    """The records of these batches; or None, and the numbers of those that are refused."""
    found: list[list[Record]] = []
    refused: list[int] = []
    for number, parts in enumerate(zip(headers, payloads, headers_max, strict=True)):
        try:
            found.append(records(*parts))
        except MalformedRecords:
            refused.append(number)
    if refused:
        return None, refused
    flat = [record for some in found for record in some]
    columns = Columns(
        headers=list(headers),
        counts=[len(some) for some in found],
        offsets=np.array([one.offset for one in flat], np.int64),
        times_ms=np.array([one.timestamp for one in flat], np.int64),
        keys=pa.array([one.key for one in flat], pa.binary()),
        values=pa.array([one.value for one in flat], pa.binary()),
        record_headers=pa.array([_pairs(one) for one in flat], HEADERS),
    )
    return columns, []


def records(header: BatchHeader, payload: Bytes, headers_max: int) -> list[Record]:
    """Raises `MalformedRecords`, also for a time that the table cannot hold."""
    found = records_of(header, bytes(payload), header_count_max=headers_max)
    for one in found:
        if not TIMESTAMP_MS_MIN <= one.timestamp <= TIMESTAMP_MS_MAX:
            raise MalformedRecords(
                f"timestamp {one.timestamp} of offset {one.offset} has no microseconds in 64 bits"
            )
    return found


def _pairs(record: Record) -> list[dict[str, str | bytes | None]] | None:
    if not record.headers:
        return None
    return [{"key": _readable(name), "value": value} for name, value in record.headers]


def _readable(name: str) -> str:
    """What is not UTF-8 is read as Java reads it: with U+FFFD."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
