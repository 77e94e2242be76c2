"""The inner loops of the scan, in the part of Python that Numba compiles. Called by `fastscan`.

`walk` finds the fields of every record in payloads that lie end to end; it accepts exactly what
`records.record` accepts, and notes the batches that it refuses. `walk_headers` finds the headers.
Every position is compared with the end of its batch before it is read.
"""

# The loops read and write NumPy arrays; under Numba there is nothing else.

import numpy as np
from numpy.typing import NDArray

Bytes8 = NDArray[np.uint8]
Longs = NDArray[np.int64]

SOUND = 0
REFUSED = 1
TIME_BEYOND = 2


def varint(data: Bytes8, position: int, end: int) -> tuple[int, int]:
    """The 32-bit number before the zigzag is undone, and the position after it; -1: none."""
    raw = 0
    for place in range(5):
        if position >= end:
            return -1, position
        byte = int(data[position])
        position += 1
        if place == 4 and byte > 0x0F:
            return -1, position
        raw |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return raw, position
    return -1, position


def varlong(data: Bytes8, position: int, end: int) -> tuple[int, int]:
    """The 64-bit number, zigzag undone, and the position after it; position -1: none."""
    raw = np.uint64(0)
    for place in range(10):
        if position >= end:
            return 0, -1
        byte = data[position]
        position += 1
        if place == 9 and byte > 1:
            return 0, -1
        raw |= np.uint64(byte & 0x7F) << np.uint64(7 * place)
        if byte < 0x80:
            half = np.int64(raw >> np.uint64(1))
            if raw & np.uint64(1):
                half = ~half
            return half, position  # type: ignore[return-value]  # an int to Numba
    return 0, -1


def walk(
    data: Bytes8,
    starts: Longs,
    ends: Longs,
    counts: Longs,
    first_rows: Longs,
    bases: Longs,
    last_deltas: Longs,
    base_times: Longs,
    append_times: Longs,
    is_append_time: Bytes8,
    headers_max: Longs,
    time_max: int,
    verdicts: Bytes8,
    offsets: Longs,
    times: Longs,
    key_at: Longs,
    key_size: Longs,
    value_at: Longs,
    value_size: Longs,
    headers_at: Longs,
    header_count: Longs,
) -> None:
    for batch in range(len(starts)):
        verdicts[batch] = walk_one(
            data,
            starts[batch],
            ends[batch],
            counts[batch],
            first_rows[batch],
            bases[batch],
            last_deltas[batch],
            base_times[batch],
            append_times[batch],
            is_append_time[batch] != 0,
            headers_max[batch],
            time_max,
            offsets,
            times,
            key_at,
            key_size,
            value_at,
            value_size,
            headers_at,
            header_count,
        )


def walk_one(
    data: Bytes8,
    position: int,
    size: int,
    count: int,
    row: int,
    base: int,
    last_delta: int,
    base_time: int,
    append_time: int,
    has_append_time: bool,
    headers_left: int,
    time_max: int,
    offsets: Longs,
    times: Longs,
    key_at: Longs,
    key_size: Longs,
    value_at: Longs,
    value_size: Longs,
    headers_at: Longs,
    header_count: Longs,
) -> int:
    """`size` is the end of the batch's records in `data`."""
    previous = -1
    is_time_beyond = False
    for _ in range(count):
        raw, position = varint(data, position, size)
        if raw < 0 or raw & 1:
            return REFUSED
        end = position + (raw >> 1)
        if end > size:
            return REFUSED
        position += 1  # Attributes, which say nothing.
        delta, position = varlong(data, position, end)
        if position < 0:
            return REFUSED
        if has_append_time:
            time = append_time
        else:
            time = base_time + delta
            if ((base_time ^ time) & (delta ^ time)) < 0:
                return REFUSED
        if time > time_max or time < -time_max:
            is_time_beyond = True
        raw, position = varint(data, position, end)
        if raw < 0:
            return REFUSED
        place = (raw >> 1) ^ -(raw & 1)
        if place <= previous or place > last_delta:
            return REFUSED
        previous = place
        at, length, position = field(data, position, end)
        if position < 0:
            return REFUSED
        key_at[row] = at
        key_size[row] = length
        at, length, position = field(data, position, end)
        if position < 0:
            return REFUSED
        value_at[row] = at
        value_size[row] = length
        raw, position = varint(data, position, end)
        if raw < 0 or raw & 1:
            return REFUSED
        headers = raw >> 1
        if headers > (end - position) // 2 or headers > headers_left:
            return REFUSED
        headers_left -= headers
        headers_at[row] = position
        header_count[row] = headers
        for _ in range(headers):
            at, length, position = field(data, position, end)
            if position < 0 or length < 0:
                return REFUSED
            at, length, position = field(data, position, end)
            if position < 0:
                return REFUSED
        if position != end:
            return REFUSED
        offsets[row] = base + place
        times[row] = time
        row += 1
    if position != size:
        return REFUSED
    return TIME_BEYOND if is_time_beyond else SOUND


def field(data: Bytes8, position: int, end: int) -> tuple[int, int, int]:
    """Where a field's bytes are, how many (-1: null), and the position after; -1: none."""
    if position >= end:
        return 0, 0, -1
    if data[position] == 1:
        return position + 1, -1, position + 1
    raw, position = varint(data, position, end)
    if raw < 0 or raw & 1 or position + (raw >> 1) > end:
        return 0, 0, -1
    return position, raw >> 1, position + (raw >> 1)


def walk_headers(
    data: Bytes8,
    headers_at: Longs,
    header_count: Longs,
    name_at: Longs,
    name_size: Longs,
    value_at: Longs,
    value_size: Longs,
) -> None:
    """Of records that `walk` has accepted."""
    place = 0
    end = len(data)
    for row in range(len(headers_at)):
        position = headers_at[row]
        for _ in range(header_count[row]):
            at, size, position = field(data, position, end)
            name_at[place] = at
            name_size[place] = size
            at, size, position = field(data, position, end)
            value_at[place] = at
            value_size[place] = size
            place += 1
