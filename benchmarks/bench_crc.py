"""CRC-32C over a view of a buffer, against the same bytes copied out first.

The hot path checks batches where they were received. This shows that the CRC library takes a
memoryview at full speed, and what a copy would cost. 64 KB is a usual batch, 1 KB a small one.
"""

import os
from functools import partial

from crc32c import crc32c

from benchmarks.harness import Comparison, Size

SIZES = {"1 KB": 1 << 10, "64 KB": 64 << 10, "1 MB": 1 << 20}


def comparisons(size: Size) -> list[Comparison]:
    return [_views(label, length) for label, length in SIZES.items() if length <= size.data_bytes]


def _views(label: str, length: int) -> Comparison:
    data = os.urandom(length)
    view = memoryview(bytearray(data))
    return Comparison(
        name=f"crc32c of {label}",
        variants={
            "bytes": partial(crc32c, data),
            "memoryview": partial(crc32c, view),
            "copy, then bytes": lambda: crc32c(bytes(view)),
        },
        baseline="bytes",
        units=length,
        unit="bytes",
    )
