"""The plan: every offset of a span once, whatever is Parquet, raw or hot, for every position."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.spark.bounds import PartitionName
from tierlog.spark.plan import (
    HotSlice,
    ParquetFile,
    ParquetSlice,
    RawSegment,
    RawSlice,
    Slice,
    Span,
    divided,
    slices_of,
    tasks_of,
    uncovered,
)
from tierlog.spark.prices import ReadPrices, as_text, cost_of, show_bytes

NAME = PartitionName("orders", 3)


def file(start: int, end: int, row_groups: int = 1) -> ParquetFile:
    return ParquetFile(
        key=f"pq/{start}", start=start, end=end, rows=end - start, size=1000, row_groups=row_groups
    )


def segment(start: int, end: int) -> RawSegment:
    return RawSegment(
        key=f"seg/{start}",
        start=start,
        end=end,
        records=end - start,
        size=10 * (end - start),
        samples=tuple((offset, 10 * (offset - start)) for offset in range(start, end, 3)),
    )


def tiles(cuts: list[int]) -> Iterator[tuple[int, int]]:
    return pairwise(cuts)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[Span, list[ParquetFile], list[RawSegment]]:
    """Segments tile the bucket; files tile some of it, by borders of their own."""
    log_start = draw(st.integers(0, 10))
    bucket_end = draw(st.integers(log_start, log_start + 60))
    hot_end = draw(st.integers(bucket_end, bucket_end + 20))
    inner = st.lists(st.integers(log_start, bucket_end), max_size=8)
    cuts = sorted({log_start, bucket_end, *draw(inner)})
    table_start = draw(st.integers(0, bucket_end))
    # A TABLE that is newer than the HEAD may go beyond it.
    converted_end = draw(st.integers(table_start, bucket_end + 10))
    within = st.lists(st.integers(table_start, converted_end), max_size=6)
    file_cuts = sorted({table_start, converted_end, *draw(within)})
    start = draw(st.integers(log_start, hot_end))
    end = draw(st.integers(start, hot_end))
    span = Span(name=NAME, start=start, end=end, bucket_end=bucket_end)
    return span, [file(*one) for one in tiles(file_cuts)], [segment(*one) for one in tiles(cuts)]


@given(partitions())
def test_slices_tile_the_span(
    made: tuple[Span, list[ParquetFile], list[RawSegment]],
) -> None:
    span, files, segments = made
    found = slices_of(span, files, segments)
    offsets = [offset for one in found for offset in range(one.start, one.end)]
    assert offsets == list(range(span.start, span.end))
    for one in found:
        if isinstance(one, ParquetSlice):
            assert one.file.start <= one.start < one.end <= one.file.end
            assert one.end <= span.bucket_end
        elif isinstance(one, RawSlice):
            assert one.segment.start <= one.start < one.end <= one.segment.end
            assert not any(each.start < one.end and one.start < each.end for each in files)
        else:
            assert one.start >= span.bucket_end


@given(partitions(), st.none() | st.integers(1, 9), st.none() | st.integers(1, 9))
def test_tasks_keep_every_offset(
    made: tuple[Span, list[ParquetFile], list[RawSegment]],
    least: int | None,
    most: int | None,
) -> None:
    span, files, segments = made
    found = slices_of(span, files, segments)
    tasks = tasks_of(found, partitions_min=least, records_max=most)
    offsets = [at for some in tasks for one in some for at in range(one.start, one.end)]
    assert offsets == list(range(span.start, span.end))
    if most is not None:
        assert all(one.end - one.start <= most for some in tasks for one in some)
    if least is not None:
        assert len(tasks) >= min(least, span.end - span.start)


@given(partitions())
def test_a_raw_slice_begins_and_ends_at_batches_around_it(
    made: tuple[Span, list[ParquetFile], list[RawSegment]],
) -> None:
    for one in slices_of(*made):
        if isinstance(one, RawSlice):
            first = one.segment.start + one.position // 10
            behind = one.segment.start + one.position_end // 10
            assert first <= one.start < one.end <= behind


def test_skipped_offsets_are_in_no_slice() -> None:
    span = Span(name=NAME, start=0, end=30, bucket_end=30)
    found = slices_of(span, [file(0, 10)], [segment(20, 30)])
    assert [(one.start, one.end) for one in found] == [(0, 10), (20, 30)]
    assert list(uncovered(0, 30, [file(0, 10)])) == [(10, 30)]


def test_small_neighbours_share_a_task_and_the_hot_tail_has_its_own() -> None:
    small: list[Slice] = [
        RawSlice(name=NAME, start=at, end=at + 3, segment=segment(at, at + 3))
        for at in range(0, 30, 3)
    ]
    hot = HotSlice(name=NAME, start=30, end=40)
    tasks = tasks_of([*small, hot], partitions_min=None, records_max=None)
    assert tasks == [tuple(small), (hot,)]
    assert len(divided(small, partitions_min=12, records_max=None)) >= 12


def test_the_cost_counts_what_is_read() -> None:
    span = Span(name=NAME, start=5, end=50, bucket_end=40)
    files = [file(0, 10, row_groups=10), file(10, 20, row_groups=10)]
    found = slices_of(span, files, [segment(20, 40)])
    prices = ReadPrices(usd_per_1000_gets=1.0, usd_per_gb=100.0)
    cost = cost_of(found, manifest_gets=2, prices=prices)
    assert (cost.parquet_files, cost.boundary_files, cost.raw_segments) == (2, 1, 1)
    assert (cost.hot_offsets, cost.offsets) == (10, 45)
    assert cost.parquet_bytes == 600 + 1000
    assert cost.raw_bytes == 200
    assert cost.gets == 2 + (3 + 6) + (3 + 10) + 1
    assert cost.usd == pytest.approx(cost.gets / 1000 + cost.bytes / 1e7)
    text = as_text(cost, topics=["orders"], partitions=1)
    assert "2 files, 1.6 kB (1 read in part)" in text
    assert "25 GETs, $0.025180" in text


def test_sizes_for_people() -> None:
    assert [show_bytes(one) for one in (0, 999, 1000, 123_456_789, 2e15)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "123.5 MB",
        "2000.0 TB",
    ]
