"""Records inside a batch: what goes in comes out, and nothing else gets in."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.batches import altered, codecs, record_lists, some_records
from tierlog.records.attributes import Codec
from tierlog.records.batch import HEADER_BYTES, parse_header, validate_stored
from tierlog.records.errors import BatchError, CorruptBatch, MalformedRecords, TruncatedBatch
from tierlog.records.limits import Limits
from tierlog.records.record import Record, decode_batch, decode_records, encode_batch
from tierlog.records.varint import encode_varint
from tierlog.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs


@given(records=record_lists(), codec=codecs)
def test_records_of_a_producer_come_back(records: list[Record], codec: Codec) -> None:
    batch = encode_batch(records, codec=codec)
    assert decode_records(batch, dense=True) == records
    assert parse_header(batch).max_timestamp == max(r.timestamp for r in records)


@given(
    records=record_lists(dense=False, base_offset=10**12), codec=codecs, beyond=st.integers(0, 9)
)
def test_records_of_a_cleaned_log_come_back(
    records: list[Record], codec: Codec, beyond: int
) -> None:
    last = Offset(records[-1].offset + beyond)
    batch = encode_batch(records, codec=codec, base_offset=Offset(10**12), last_offset=last)
    assert validate_stored(batch).last_offset == last
    assert decode_records(batch) == records


@given(
    timestamps=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4),
    attributes=st.integers(0, 255),
)
def test_any_timestamps_and_attributes_come_back(timestamps: list[int], attributes: int) -> None:
    # Deltas have 64 bits as well, so the two ends of time cannot meet in one batch.
    timestamps = [t for t in timestamps if -(2**63) <= t - timestamps[0] < 2**63]
    records = [
        Record(Offset(i), TimestampMs(t), None, b"", (), attributes)
        for i, t in enumerate(timestamps)
    ]
    assert decode_records(encode_batch(records)) == records


def test_every_field_of_the_header_is_written() -> None:
    batch = encode_batch(
        some_records(2),
        leader_epoch=LeaderEpoch(4),
        codec=Codec.LZ4,
        producer_id=ProducerId(5),
        producer_epoch=ProducerEpoch(6),
        base_sequence=7,
        transactional=True,
    )
    decoded = decode_batch(batch)
    header = decoded.header
    assert header == validate_stored(batch)
    assert decoded.records == tuple(some_records(2))
    assert (header.leader_epoch, header.codec, header.producer_id) == (4, Codec.LZ4, 5)
    assert (header.producer_epoch, header.base_sequence, header.is_transactional) == (6, 7, True)


def test_with_log_append_time_all_records_have_the_time_of_the_batch() -> None:
    batch = encode_batch(some_records(3), log_append_time=TimestampMs(99))
    assert [record.timestamp for record in decode_records(batch)] == [99, 99, 99]


def test_an_empty_batch_has_no_records_whatever_its_codec() -> None:
    batch = encode_batch([], codec=Codec.ZSTD, last_offset=Offset(4))
    assert len(batch) == HEADER_BYTES
    assert decode_records(batch) == []
    with pytest.raises(ValueError, match="which offsets"):
        encode_batch([])


def stamped(*timestamps: int) -> list[Record]:
    return [Record(Offset(i), TimestampMs(t), None, None) for i, t in enumerate(timestamps)]


UNWRITABLE: dict[str, tuple[str, Callable[[], object]]] = {
    "falling offsets": ("follows", lambda: encode_batch(some_records(2)[::-1])),
    "an offset twice": ("follows", lambda: encode_batch([some_records(1)[0]] * 2)),
    "an offset below the base": (
        "offset 0 follows 4",
        lambda: encode_batch(some_records(2), base_offset=Offset(5)),
    ),
    "a last offset below the records": (
        "beyond the last offset, 1",
        lambda: encode_batch(some_records(3), last_offset=Offset(1)),
    ),
    "offsets too far apart": (
        "31 bits",
        lambda: encode_batch(some_records(1), last_offset=Offset(2**31)),
    ),
    "a last offset below the base": (
        "beyond the last",
        lambda: encode_batch([], base_offset=Offset(5), last_offset=Offset(3)),
    ),
    "timestamps too far apart": ("too far", lambda: encode_batch(stamped(-(2**62), 2**63 - 1))),
    "timestamps too far back": ("too far", lambda: encode_batch(stamped(2**62, -(2**63)))),
    "a timestamp beyond 64 bits": ("64 bits", lambda: encode_batch(stamped(2**63))),
    "attributes beyond a byte": (
        "fit a byte",
        lambda: encode_batch([some_records(1)[0]._replace(attributes=256)]),
    ),
    "a leader epoch beyond 32 bits": (
        "fit its field",
        lambda: encode_batch(some_records(1), leader_epoch=LeaderEpoch(2**31)),
    ),
    "a producer epoch beyond 16 bits": (
        "fit its field",
        lambda: encode_batch(some_records(1), producer_epoch=ProducerEpoch(2**15)),
    ),
    "a base offset beyond 64 bits": (
        "fit its field",
        lambda: encode_batch([], base_offset=Offset(2**63), last_offset=Offset(2**63)),
    ),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_the_encoder_refuses_what_the_format_cannot_hold(name: str) -> None:
    sentence, encode = UNWRITABLE[name]
    with pytest.raises(ValueError, match=sentence):
        encode()


def test_a_header_name_that_is_not_utf8_keeps_its_bytes() -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    records = [some_records(1)[0]._replace(headers=((name, b"x"),))]
    batch = encode_batch(records)
    assert b"\xff\xfe" in batch
    assert decode_records(batch) == records


def test_bytes_after_the_batch_are_not_looked_at() -> None:
    assert decode_records(encode_batch(some_records()) + b"more") == some_records()


# From here on: bytes that no encoder writes.


def record_of(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def batch_of(payload: bytes, *, count: int = 1, delta: int | None = None) -> bytearray:
    """A batch of any payload, under a header that fits it."""
    batch = encode_batch([], last_offset=Offset(count - 1 if delta is None else delta)) + payload
    return altered(batch, length=len(batch) - 12, record_count=count)


ZERO = encode_varint(0)
NULL = encode_varint(-1)
HEAD = b"\0" + ZERO + ZERO  # attributes, timestamp delta, offset delta
SOUND = record_of(HEAD, NULL, NULL, ZERO)

MALFORMED = {
    "no bytes at all": batch_of(b""),
    "a record that is cut off": batch_of(SOUND[:-1]),
    "a record of negative length": batch_of(encode_varint(-5) + SOUND),
    "a record of length 0": batch_of(ZERO),
    "a record longer than the batch": batch_of(encode_varint(2**31 - 1) + SOUND),
    "a length varint of 6 bytes": batch_of(b"\xff\xff\xff\xff\xff\x01" + SOUND),
    "a length varint of 33 bits": batch_of(b"\xff\xff\xff\xff\x1f" + SOUND),
    "a length varint without end": batch_of(b"\x80"),
    "a second byte of a varint missing": batch_of(b"\x80\x80"),
    "a timestamp varint of 11 bytes": batch_of(
        record_of(b"\0" + b"\xff" * 10 + b"\x01", ZERO, NULL, NULL, ZERO)
    ),
    "a timestamp varint of 65 bits": batch_of(
        record_of(b"\0" + b"\xff" * 9 + b"\x03", ZERO, NULL, NULL, ZERO)
    ),
    "a timestamp past 64 bits": altered(
        batch_of(record_of(b"\0", encode_varint(2**62), ZERO, NULL, NULL, ZERO)),
        base_timestamp=2**63 - 1,
    ),
    "a key longer than the record": batch_of(record_of(HEAD, encode_varint(9), NULL, ZERO)),
    "a key of length -2": batch_of(record_of(HEAD, encode_varint(-2), NULL, ZERO)),
    "a key of the greatest length": batch_of(record_of(HEAD, encode_varint(2**31 - 1), NULL, ZERO)),
    "a value longer than the record": batch_of(
        record_of(HEAD, NULL, encode_varint(200), ZERO) + bytes(300)
    ),
    "a value of length -70": batch_of(record_of(HEAD, NULL, encode_varint(-70), ZERO)),
    "a negative header count": batch_of(record_of(HEAD, NULL, NULL, NULL)),
    "a header count beyond reason": batch_of(record_of(HEAD, NULL, NULL, encode_varint(2**31 - 1))),
    "a header count of two for one": batch_of(
        record_of(HEAD, NULL, NULL, encode_varint(2), ZERO, NULL)
    ),
    "a header without a name": batch_of(record_of(HEAD, NULL, NULL, encode_varint(1), NULL, NULL)),
    "a header name past the record": batch_of(
        record_of(HEAD, NULL, NULL, encode_varint(1), encode_varint(60), NULL) + bytes(99)
    ),
    "a header value past the record": batch_of(
        record_of(HEAD, NULL, NULL, encode_varint(1), ZERO, encode_varint(60)) + bytes(99)
    ),
    "a long header name past the record": batch_of(
        record_of(HEAD, NULL, NULL, encode_varint(1), encode_varint(200), NULL) + bytes(300)
    ),
    "a long header value past the record": batch_of(
        record_of(HEAD, NULL, NULL, encode_varint(1), ZERO, encode_varint(200)) + bytes(300)
    ),
    "a header value of length -2": batch_of(
        record_of(HEAD, NULL, NULL, encode_varint(1), ZERO, encode_varint(-2))
    ),
    "spare bytes in a record": batch_of(record_of(HEAD, NULL, NULL, ZERO, b"?")),
    "bytes after the last record": batch_of(SOUND + b"?"),
    "fewer records than bytes": batch_of(SOUND + SOUND, count=1),
    "more records than bytes": batch_of(SOUND, count=2),
    "a negative count": batch_of(SOUND, count=-1, delta=0),
    "a count beyond reason": batch_of(SOUND, count=2**31 - 1, delta=2**31 - 1),
    "records in an empty batch": batch_of(SOUND, count=0, delta=0),
    "the same offset twice": batch_of(SOUND + SOUND, count=2),
    "a negative offset delta": batch_of(record_of(b"\0", ZERO, NULL, NULL, NULL, ZERO)),
    "an offset beyond the last": batch_of(
        record_of(b"\0", ZERO, encode_varint(1), NULL, NULL, ZERO), delta=0
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_the_decoder_refuses(name: str) -> None:
    assert decode_records(batch_of(SOUND)), "the sound one must pass for the others to mean it"
    with pytest.raises(MalformedRecords):
        decode_records(MALFORMED[name])


def test_a_gap_between_offsets_is_refused_when_dense_is_asked() -> None:
    batch = encode_batch([some_records(3)[i] for i in (0, 2)])
    assert len(decode_records(batch)) == 2
    with pytest.raises(MalformedRecords, match="not 0, 1, 2"):
        decode_records(batch, dense=True)
    with pytest.raises(MalformedRecords, match="not 0, 1, 2"):
        decode_records(encode_batch(some_records(2), last_offset=Offset(2)), dense=True)


def test_padded_varints_are_read_as_java_reads_them() -> None:
    padded = record_of(b"\0", b"\x80\x00", b"\x80\x80\x00", NULL, NULL, ZERO)
    assert decode_records(batch_of(padded)) == decode_records(batch_of(SOUND))


@pytest.mark.parametrize("size", [0, 60, 61, 80])
def test_a_batch_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(TruncatedBatch):
        decode_records(encode_batch(some_records())[:size])


def test_unknown_formats_and_lengths_are_refused() -> None:
    batch = encode_batch(some_records())
    for bad in (altered(batch, magic=1), altered(batch, attributes=5), altered(batch, length=3)):
        with pytest.raises(CorruptBatch):
            decode_records(bad)


def test_the_count_of_records_is_bounded() -> None:
    batch = altered(encode_batch(some_records(), codec=Codec.ZSTD), record_count=500)
    with pytest.raises(MalformedRecords, match="500 records; at most 100"):
        decode_records(batch, limits=Limits(record_count_max=100))


def crowd(*header_counts: int) -> list[Record]:
    """Records with so many empty headers each."""
    return [
        Record(Offset(i), TimestampMs(0), None, None, (("", None),) * count)
        for i, count in enumerate(header_counts)
    ]


def test_the_count_of_headers_is_bounded_over_the_whole_batch() -> None:
    limits = Limits(header_count_max=1000)
    batch = encode_batch(crowd(600, 400), codec=Codec.ZSTD)
    assert len(batch) < 1000
    assert decode_records(batch, limits=limits) == crowd(600, 400)
    batch = encode_batch(crowd(600, 401), codec=Codec.ZSTD)
    with pytest.raises(MalformedRecords, match="401 headers in a record; the batch may have 400"):
        decode_records(batch, limits=limits)


def test_a_batch_may_have_as_many_headers_as_bytes_on_the_wire() -> None:
    batch = encode_batch(crowd(300))
    assert decode_records(batch, limits=Limits(header_count_max=0)) == crowd(300)


def test_a_small_batch_of_half_a_million_headers_is_refused_before_they_are_made() -> None:
    batch = encode_batch(crowd(500_000), codec=Codec.ZSTD)
    assert len(batch) < 500
    tracemalloc.start()
    with pytest.raises(MalformedRecords, match="500000 headers"):
        decode_records(batch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 1024 * 1024  # twice the plain bytes and a little, far from 40 MB of headers


@given(
    records=record_lists(min_size=2),
    codec=codecs,
    data=st.data(),
    dense=st.booleans(),
)
def test_a_flipped_byte_gives_records_or_our_own_error(
    records: list[Record], codec: Codec, data: st.DataObject, dense: bool
) -> None:
    batch = encode_batch(records, codec=codec)
    batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_records(batch, dense=dense)
    except BatchError:
        return
    assert len(decoded) == parse_header(batch).record_count
