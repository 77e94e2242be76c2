"""Record batches: what the checks and patches cost beside the bare CRC, and the speed of decoding.

"check and patch" is all that Produce does to a batch: header, CRC-32C, base offset and leader epoch
in place. "stored check" is what recovery does. Hold at 64 KB: 0.7 of the speed of the bare CRC.
"""

import os
from functools import partial

from crc32c import crc32c

from benchmarks.harness import Comparison, Size
from tierlog.records.batch import patch_offset, validate_produced, validate_stored
from tierlog.records.record import Record, decode_records, encode_batch
from tierlog.types import LeaderEpoch, Offset, TimestampMs

SIZE_MAX = 1_048_588
"""Kafka's default `message.max.bytes`."""

BATCHES = {"200 B": (1, 130), "64 KB": (500, 121), "1 MB": (1000, 1030)}
"""Records and bytes of value in each."""


def comparisons(size: Size) -> list[Comparison]:
    checks = [
        comparison(label, *shape)
        for comparison in (_checks, _stored)
        for label, shape in BATCHES.items()
    ]
    return [*checks, _decode(records=500, value_bytes=100), _decode(records=100, value_bytes=1000)]


def _batch(records: int, value_bytes: int) -> memoryview:
    start = 1_700_000_000_000
    return memoryview(
        encode_batch(
            [
                Record(Offset(i), TimestampMs(start + i), None, os.urandom(value_bytes))
                for i in range(records)
            ]
        )
    )


def _checks(label: str, records: int, value_bytes: int) -> Comparison:
    batch = _batch(records, value_bytes)
    offset, epoch = Offset(1_000_000), LeaderEpoch(3)

    def check_and_patch() -> None:
        validate_produced(batch, SIZE_MAX)
        patch_offset(batch, offset, epoch)

    return Comparison(
        name=f"produce check of {label}",
        variants={
            "bare CRC": partial(crc32c, batch),
            "check and patch": check_and_patch,
        },
        baseline="bare CRC",
        hold=0.7 if label == "64 KB" else None,
        units=len(batch),
        unit="bytes",
    )


def _stored(label: str, records: int, value_bytes: int) -> Comparison:
    batch = _batch(records, value_bytes)
    return Comparison(
        name=f"stored check of {label}",
        variants={
            "bare CRC": partial(crc32c, batch),
            "stored check": partial(validate_stored, batch),
        },
        baseline="bare CRC",
        units=len(batch),
        unit="bytes",
    )


def _decode(*, records: int, value_bytes: int) -> Comparison:
    batch = _batch(records, value_bytes)
    decoded = decode_records(batch)
    return Comparison(
        name=f"{records} records of {value_bytes} B",
        variants={
            "decode": partial(decode_records, batch),
            "encode": partial(encode_batch, decoded),
        },
        baseline="decode",
        units=records,
        unit="records",
        note="pure Python; off the hot path",
    )
