"""Batches into columns: both scans against the decoder of `records/`."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.records.batches import altered, some_records, unsealed
from tests.table.batches import expected_rows, range_of, segments
from tierlog.cold.entry import Sample
from tierlog.records.attributes import Codec
from tierlog.records.batch import crc_of
from tierlog.records.header import HEADER_BYTES
from tierlog.records.limits import Limits
from tierlog.records.record import Record, encode_batch
from tierlog.table import fastscan, purescan
from tierlog.table import scan as scanning
from tierlog.table.parquet import regrouped
from tierlog.table.scan import Dead, InMemory, Range, Tally, scan
from tierlog.table.schema import SCHEMA
from tierlog.types import Offset, Position, TimestampMs

ENGINES = (fastscan, purescan)
both = pytest.mark.parametrize("by", ENGINES, ids=["numba", "pure"])
# Compiling takes seconds, once.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def scanned(
    data: bytes | bytearray, wanted: Range, by: ModuleType, **more: Any
) -> tuple[pa.Table, Tally]:
    tally = Tally()
    found = list(scan(InMemory(data), wanted, tally, by=by, **more))
    assert all(one.num_rows for one in found)
    return pa.Table.from_batches(found, SCHEMA), tally


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    place = SCHEMA.get_field_index("timestamp")
    plain = table.set_column(place, "timestamp", table.column("timestamp").cast(pa.int64()))
    rows: list[dict[str, Any]] = plain.to_pylist()
    return rows


def test_numba_is_there_to_be_tested() -> None:
    assert fastscan.is_available()


@both
@unhurried
@given(data=segments(), start=st.integers(-5, 2500), length=st.integers(0, 3000))
def test_rows_are_those_of_the_record_decoder(
    by: ModuleType, data: bytearray, start: int, length: int
) -> None:
    wanted = range_of(data, start=start, end=start + length)
    table, tally = scanned(data, wanted, by, piece_rows=4)
    table.validate(full=True)
    assert rows_of(table) == expected_rows(data, start=start, end=start + length)
    assert (tally.rows, tally.dead) == (table.num_rows, [])


@unhurried
@given(data=segments(most=3), flips=st.lists(st.tuples(st.integers(0), st.integers(1, 255))))
def test_both_scans_refuse_the_same_batches_and_say_the_same(
    data: bytearray, flips: list[tuple[int, int]]
) -> None:
    """Bytes inside the batches change, and their checksums with them: only the decoder is left."""
    wanted = range_of(data)
    for place, bits in flips:
        data[place % len(data)] ^= bits
    data = _resealed(data)
    fast, pure = (scanned(data, wanted, by) for by in ENGINES)
    assert fast[0].equals(pure[0])
    assert fast[1] == pure[1]


def _resealed(data: bytearray) -> bytearray:
    """Every batch that has its length gets the checksum that belongs to it."""
    position = 0
    while position + HEADER_BYTES <= len(data):
        size = int.from_bytes(data[position + 8 : position + 12], signed=True) + 12
        if not HEADER_BYTES <= size <= len(data) - position:
            break
        data[position + 17 : position + 21] = crc_of(
            bytes(data[position : position + size])
        ).to_bytes(4)
        position += size
    return data


# What cannot be converted


def three_batches() -> list[bytearray]:
    return [
        encode_batch(
            [one._replace(offset=Offset(base + place)) for place, one in enumerate(some_records())],
            base_offset=Offset(base),
            codec=Codec.ZSTD,
        )
        for base in (0, 3, 6)
    ]


def _bad_crc(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


def _bad_codec(batch: bytearray) -> bytearray:
    return altered(batch[:-4] + b"junk")


def _bad_count(batch: bytearray) -> bytearray:
    return altered(batch, record_count=2)


def _far_time(batch: bytearray) -> bytearray:
    return altered(batch, base_timestamp=2**62, max_timestamp=2**62)


SPOILT = {
    "checksum": (_bad_crc, "CRC"),
    "codec": (_bad_codec, "zstd"),
    "count": (_bad_count, "bytes follow the last record"),
    "time": (_far_time, "no microseconds"),
}


@both
@pytest.mark.parametrize("what", SPOILT)
def test_a_bad_batch_is_a_dead_letter_and_costs_itself(by: ModuleType, what: str) -> None:
    spoil, reason = SPOILT[what]
    one, two, three = three_batches()
    two = spoil(two)
    table, tally = scanned(one + two + three, range_of(b"".join(three_batches())), by)
    assert table.column("offset").to_pylist() == [0, 1, 2, 6, 7, 8]
    (dead,) = tally.dead
    assert reason in dead.reason
    assert (dead.first_offset, dead.position, dead.batch) == (3, len(one), bytes(two))


@both
def test_a_batch_beyond_the_limits_is_a_dead_letter(by: ModuleType) -> None:
    zeros = encode_batch([Record(Offset(0), TimestampMs(1), None, bytes(5000))], codec=Codec.GZIP)
    limits = Limits(bytes_free=100, ratio_max=2)
    table, tally = scanned(zeros, range_of(zeros), by, limits=limits)
    assert table.num_rows == 0
    assert "gzip" in tally.dead[0].reason


@both
def test_where_no_length_can_be_believed_the_next_known_place_goes_on(by: ModuleType) -> None:
    one, two, three = three_batches()
    data = one + unsealed(two, length=2**30) + three
    wanted = range_of(b"".join(three_batches()))
    samples = (Sample(Offset(6), Position(len(one + two))),)
    table, tally = scanned(data, Range(**_fields(wanted) | {"samples": samples}), by)
    assert table.column("offset").to_pylist() == [0, 1, 2, 6, 7, 8]
    assert [(dead.first_offset, dead.last_offset, dead.records) for dead in tally.dead] == [
        (3, 5, 3)
    ]
    table, tally = scanned(data, wanted, by)
    assert table.column("offset").to_pylist() == [0, 1, 2]
    assert [(dead.first_offset, dead.last_offset) for dead in tally.dead] == [(3, 8)]


def _fields(wanted: Range) -> dict[str, Any]:
    return {name: getattr(wanted, name) for name in Range.__slots__}


@both
def test_what_a_source_lacks_that_was_cut_off_is_a_dead_letter(by: ModuleType) -> None:
    """At the border of a batch, where nothing that is left looks wrong."""
    one, two, three = three_batches()
    size = len(one + two + three)
    wanted = replace(range_of(one + two + three), size=size)
    table, tally = scanned(one, wanted, by)
    assert table.column("offset").to_pylist() == [0, 1, 2]
    reason = f"it ends at position {len(one)} of {size}"
    assert tally.dead == [Dead(3, 8, 6, len(one), reason, b"")]
    table, tally = scanned(one + two + three, wanted, by)
    assert (table.num_rows, tally.dead) == (9, [])


@both
def test_samples_behind_the_end_of_what_was_cut_off_lead_nowhere(by: ModuleType) -> None:
    one, two, three = three_batches()
    samples = (Sample(Offset(6), Position(len(one + two))),)
    wanted = replace(range_of(one + two + three), size=len(one + two + three), samples=samples)
    table, tally = scanned(one + two[:-1], wanted, by)
    assert table.column("offset").to_pylist() == [0, 1, 2]
    assert [(dead.first_offset, dead.last_offset, dead.records) for dead in tally.dead] == [
        (3, 8, 6)
    ]


@both
def test_a_base_offset_out_of_place_is_not_believed(by: ModuleType) -> None:
    one, two, three = three_batches()
    moved = unsealed(two, base_offset=1)
    table, tally = scanned(one + moved + three, range_of(one + two + three), by)
    assert table.column("offset").to_pylist() == [0, 1, 2]  # No sample says where to go on.
    assert "[1, 4), where [3, 9) are due" in tally.dead[0].reason


@both
def test_dead_letters_outside_of_what_is_wanted_are_not_counted(by: ModuleType) -> None:
    one, two, three = three_batches()
    wanted = range_of(one + two + three, start=4, end=7)
    table, tally = scanned(_bad_crc(one) + two + three, wanted, by)
    assert table.column("offset").to_pylist() == [4, 5, 6]
    assert tally.dead == []


@both
def test_names_of_headers_that_are_no_text_are_read_as_java_reads_them(by: ModuleType) -> None:
    name = b"a\xff\xc3\xa9".decode("utf-8", "surrogateescape")
    data = encode_batch([Record(Offset(0), TimestampMs(1), None, b"", ((name, b"x"),))])
    table, _ = scanned(data, range_of(data), by)
    assert table.column("headers").to_pylist() == [[{"key": "a\ufffdé", "value": b"x"}]]


@both
def test_a_long_batch_is_cut_into_groups(by: ModuleType) -> None:
    data = encode_batch(some_records(10))
    found = list(scan(InMemory(data), range_of(data), Tally(), by=by, piece_rows=4))
    assert [one.num_rows for one in found] == [4, 4, 2]


@both
def test_groups_end_by_bytes(by: ModuleType) -> None:
    data = b"".join(three_batches())
    found = list(scan(InMemory(data), range_of(data), Tally(), by=by, piece_bytes=60))
    assert [one.num_rows for one in found] == [3, 3, 3]


def test_a_dead_letter_says_where_it_lay() -> None:
    one = _bad_crc(three_batches()[0])
    _, tally = scanned(one, range_of(three_batches()[0]), purescan)
    assert tally.dead == [Dead(0, 2, 3, 0, tally.dead[0].reason, bytes(one))]
    assert tally.dead_records == 3


@both
def test_dead_letters_are_let_go_before_they_fill_the_memory(
    by: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "DEAD_BYTES_MAX", 100)
    one, two, three = map(_bad_crc, three_batches())
    taken: list[list[Dead]] = []
    tally = Tally(spill=taken.append)
    wanted = range_of(b"".join(three_batches()))
    assert not list(scan(InMemory(one + two + three), wanted, tally, by=by))
    assert [[dead.first_offset for dead in some] for some in taken] == [[0], [3], [6]]
    assert tally.dead == []


@both
@pytest.mark.parametrize("window_bytes", [61, 100, 200, 300])
def test_batches_may_be_larger_than_the_window_or_lie_across_its_end(
    by: ModuleType, window_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = three_batches()
    data, wanted = one + _bad_crc(two) + three, range_of(b"".join(three_batches()))
    expected = scanned(data, wanted, by)
    monkeypatch.setattr(scanning, "WINDOW_BYTES", window_bytes)
    found = scanned(data, wanted, by)
    assert found[0].equals(expected[0])
    assert found[1] == expected[1]


@given(sizes=st.lists(st.integers(0, 9)), rows_max=st.integers(1, 8), bytes_max=st.integers(1, 200))
def test_groups_are_full_and_have_all_rows(sizes: list[int], rows_max: int, bytes_max: int) -> None:
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    batches = [
        pa.record_batch({"offset": pa.array(range(end - size, end), pa.int64())})
        for size, end in zip(sizes, ends, strict=True)
    ]
    groups = list(regrouped(batches, rows_max=rows_max, bytes_max=bytes_max))
    offsets = [offset for group in groups for offset in group.column("offset").to_pylist()]
    assert offsets == list(range(sum(sizes)))
    assert all(0 < group.num_rows <= rows_max for group in groups)
    if bytes_max == 200:  # More than eight rows have.
        assert all(group.num_rows == rows_max for group in groups[:-1])
