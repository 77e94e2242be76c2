"""Records into columns by compiled loops.

Numba is imported at the first use: it takes a second, and three when nothing is in its cache. The
cache is a directory that only this user may write to (`env.compiling`); without one, every process
compiles for itself. Where Numba is missing `purescan` does the same, fifty times slower.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tierlog.env.compiling import compiler
from tierlog.records.attributes import LOG_APPEND_TIME
from tierlog.records.header import BatchHeader
from tierlog.table import kernel
from tierlog.table.columns import Columns, names, offsets_of, table_of, validity
from tierlog.table.schema import HEADERS, TIMESTAMP_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tierlog.table.columns import Longs
    from tierlog.types import Bytes


@cache
def _compiled() -> dict[str, Callable[..., Any]] | None:
    """None where there is no compiler."""
    jit = compiler()
    if jit is None:
        return None
    # The inner ones first: the outer ones take them from their module when they are compiled.
    for name in ("varint", "varlong", "field", "walk_one"):
        setattr(kernel, name, jit(getattr(kernel, name)))
    return {name: jit(getattr(kernel, name)) for name in ("walk", "walk_headers")}


def is_available() -> bool:
    return _compiled() is not None


def columns_of(
    headers: Sequence[BatchHeader], payloads: Sequence[Bytes], headers_max: Sequence[int]
) -> tuple[Columns | None, list[int]]:
    """The records of these batches; or None, and the numbers of those that are refused."""
    loops = _compiled()
    assert loops is not None, "ask is_available first"
    data = np.frombuffer(payloads[0] if len(payloads) == 1 else b"".join(payloads), np.uint8)
    sizes = np.array([len(one) for one in payloads], np.int64)
    fields = dict(zip(BatchHeader._fields, table_of(headers).T.copy(), strict=True))
    counts = fields["record_count"]
    ends = np.cumsum(sizes)
    rows = int(counts.sum())
    verdicts = np.zeros(len(headers), np.uint8)
    found = [np.zeros(rows, np.int64) for _ in range(8)]
    loops["walk"](
        data,
        ends - sizes,
        ends,
        counts,
        np.cumsum(counts) - counts,
        fields["base_offset"],
        fields["last_offset_delta"],
        fields["base_timestamp"],
        fields["max_timestamp"],
        (fields["attributes"] & LOG_APPEND_TIME).astype(np.uint8),
        np.array(headers_max, np.int64),
        TIMESTAMP_MS_MAX,
        verdicts,
        *found,
    )
    refused = np.flatnonzero(verdicts)
    if len(refused):
        return None, [int(one) for one in refused]
    offsets, times, key_at, key_size, value_at, value_size, headers_at, header_count = found
    columns = Columns(
        headers=list(headers),
        counts=[int(one) for one in counts],
        offsets=offsets,
        times_ms=times,
        keys=_gathered(data, key_at, key_size),
        values=_gathered(data, value_at, value_size),
        record_headers=_headers(data, headers_at, header_count),
    )
    return columns, []


def _gathered(data: NDArray[np.uint8], at: Longs, sizes: Longs) -> pa.Array:
    """A column of the fields that lie at these places; those of size -1 are null.

    Fields and what lies between them are taken for one column of byte strings, of which Arrow then
    takes every second one: its copy is four times as fast as a compiled loop.
    """
    count = len(at)
    if not count:
        return pa.array([], pa.binary())
    borders = np.empty(2 * count + 1, np.int32)
    borders[0:-1:2] = at
    borders[1::2] = at + np.maximum(sizes, 0)
    borders[-1] = borders[-2]
    both = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(borders), pa.py_buffer(data)]
    )
    fields = both.take(pa.array(np.arange(0, 2 * count, 2)))
    _, offsets, content = fields.buffers()
    return pa.Array.from_buffers(
        pa.binary(), count, [validity(sizes >= 0), offsets, content], offset=fields.offset
    )


def _headers(data: NDArray[np.uint8], at: Longs, counts: Longs) -> pa.Array:
    total = int(counts.sum())
    if not total:
        return pa.nulls(len(counts), HEADERS)
    name_at, name_size, value_at, value_size = (np.zeros(total, np.int64) for _ in range(4))
    loops = _compiled()
    assert loops is not None, "asked before"
    loops["walk_headers"](data, at, counts, name_at, name_size, value_at, value_size)
    pairs = pa.StructArray.from_arrays(
        [
            names(_gathered(data, name_at, name_size)),
            _gathered(data, value_at, value_size),
        ],
        fields=list(HEADERS.value_type),
    )
    offsets = offsets_of(counts)
    return pa.Array.from_buffers(
        HEADERS, len(counts), [validity(counts > 0), pa.py_buffer(offsets)], children=[pairs]
    )
