"""Batches and records for the tests: makers for plain cases, strategies for all of them."""

from hypothesis import strategies as st

from tierlog.records.attributes import Codec
from tierlog.records.batch import crc_of
from tierlog.records.header import HEADER, parse_header
from tierlog.records.record import Record, RecordHeader, encode_batch
from tierlog.types import Bytes, Offset, TimestampMs

START = TimestampMs(1_700_000_000_000)


def some_records(count: int = 3, *, value: bytes = b"value") -> list[Record]:
    return [Record(Offset(i), TimestampMs(START + i), b"key%d" % i, value) for i in range(count)]


def altered(batch: Bytes, **fields: int) -> bytearray:
    """A copy with header fields replaced, and the CRC that then belongs to it."""
    copy = unsealed(batch, **fields)
    return copy if "crc" in fields else unsealed(copy, crc=crc_of(copy))


def unsealed(batch: Bytes, **fields: int) -> bytearray:
    """A copy with header fields replaced and the old CRC."""
    copy = bytearray(batch)
    values: dict[str, int] = parse_header(copy)._asdict() | fields
    HEADER.pack_into(copy, 0, *values.values())
    return copy


record_headers: st.SearchStrategy[RecordHeader] = st.tuples(
    st.text(max_size=20), st.none() | st.binary(max_size=40)
)
fields = st.none() | st.binary(max_size=100)
timestamps = st.just(-1) | st.integers(0, 2**42)
codecs = st.sampled_from(Codec)


@st.composite
def record_lists(
    draw: st.DrawFn, *, dense: bool = True, min_size: int = 1, base_offset: int = 0
) -> list[Record]:
    count = draw(st.integers(min_size, 5))
    gaps = [0 if dense else draw(st.integers(0, 300)) for _ in range(count)]
    return [
        Record(
            offset=Offset(base_offset + place + sum(gaps[: place + 1])),
            timestamp=TimestampMs(draw(timestamps)),
            key=draw(fields),
            value=draw(fields),
            headers=tuple(draw(st.lists(record_headers, max_size=3))),
        )
        for place in range(count)
    ]


@st.composite
def produced_batches(draw: st.DrawFn) -> bytearray:
    """What a client may send: dense, plain or idempotent or transactional, any codec."""
    records = draw(record_lists())
    # Java writes the timestamp of the first record as base; it is the least, or there is none.
    least = min(record.timestamp for record in records)
    records = [records[0]._replace(timestamp=least), *records[1:]]
    producer = draw(st.booleans())
    return encode_batch(
        records,
        codec=draw(codecs),
        producer_id=draw(st.integers(0, 2**63 - 1)) if producer else -1,  # type: ignore[arg-type]
        producer_epoch=draw(st.integers(0, 2**15 - 1)) if producer else -1,  # type: ignore[arg-type]
        base_sequence=draw(st.integers(0, 2**31 - 1)) if producer else -1,
        transactional=producer and draw(st.booleans()),
    )
