"""Segments for the tests: batches as they lie in a local log."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.hot.support import batch
from tierlog.cold.segment_scan import SegmentScan, Tail
from tierlog.hot.epochs import EpochStart
from tierlog.records.attributes import Codec
from tierlog.records.batch import patch_offset
from tierlog.records.header import parse_header
from tierlog.types import LeaderEpoch, Offset

KEY = "seg/the-key"
PRODUCERS = b"the state of producers"


class Segment(NamedTuple):
    data: bytes
    base: Offset
    last: Offset
    positions: tuple[int, ...]
    """Of each batch."""


def a_segment(
    batches: int = 20,
    *,
    base: int = 1000,
    value: bytes = b"v" * 50,
    epochs: Sequence[int] = (3,),
    codec: Codec = Codec.NONE,
) -> Segment:
    """Batches of one to three records; the epochs share them evenly."""
    data, positions, offset = bytearray(), [], base
    for number in range(batches):
        one = batch(
            *[value] * (number % 3 + 1), timestamp=1_700_000_000_000 + number * 10, codec=codec
        )
        epoch = epochs[number * len(epochs) // batches]
        patch_offset(one, Offset(offset), LeaderEpoch(epoch))
        positions.append(len(data))
        data += one
        offset = parse_header(one).next_offset
    return Segment(bytes(data), Offset(base), Offset(offset - 1), tuple(positions))


def new_scan(segment: Segment, **changes: object) -> SegmentScan:
    arguments: dict[str, object] = {
        "topic": "orders",
        "topic_id": "an-id",
        "partition": 7,
        "base": segment.base,
        "last": segment.last,
        "size": len(segment.data),
        "index_interval_bytes": 500,
    }
    return SegmentScan(**(arguments | changes))  # type: ignore[arg-type]  # as the caller gives them


def scanned(
    segment: Segment, *, piece: int = 1 << 20, lineage: Sequence[EpochStart] = (), **changes: object
) -> Tail:
    scan = new_scan(segment, **changes)
    for start in range(0, len(segment.data), piece):
        scan.feed(segment.data[start : start + piece])
    return scan.finish(
        key=KEY, producers=PRODUCERS, max_append_ms=1_800_000_000_000, lineage=lineage
    )
