"""Bounds become offsets, streams keep their limit, filters leave out what cannot matter. Pure."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.spark.bounds import Edge, Everywhere, Offsets, PartitionName, Time
from tierlog.spark.errors import DataLost, NotReadable
from tierlog.spark.options import Mode, ReadOptions, parse_options
from tierlog.spark.plan import ParquetFile, ParquetSlice, RawSegment, RawSlice, Slice
from tierlog.spark.resolving import check_dead, ends, starts

A, B = PartitionName("a", 0), PartitionName("a", 1)
OPTIONS = parse_options({"store": "file:///s", "subscribe": "a"}, mode=Mode.BATCH)


@dataclass(frozen=True)
class Known:
    earliest: int
    latest: int


PINNED = {A: Known(5, 50), B: Known(0, 20)}


def with_start(start: object, **more: object) -> ReadOptions:
    return replace(OPTIONS, start=start, **more)  # type: ignore[arg-type]


def test_edges_and_signs() -> None:
    assert starts(OPTIONS, PINNED, {}) == {A: 5, B: 0}
    assert ends(OPTIONS, PINNED, {}) == {A: 50, B: 20}
    assert starts(with_start(Offsets({A: -2, B: 7})), PINNED, {}) == {A: 5, B: 7}
    assert ends(replace(OPTIONS, end=Offsets({A: -1, B: 7})), PINNED, {}) == {A: 50, B: 7}
    assert starts(with_start(Everywhere(30)), PINNED, {}) == {A: 30, B: 20}
    assert ends(replace(OPTIONS, end=Edge.LATEST), PINNED, {}) == {A: 50, B: 20}


def test_a_time_that_no_record_reaches() -> None:
    late = with_start(Time(1))
    with pytest.raises(NotReadable, match="Strategy=latest"):
        starts(late, PINNED, {A: 7, B: None})
    assert starts(replace(late, late_start_is_latest=True), PINNED, {A: 7, B: None}) == {
        A: 7,
        B: 20,
    }
    assert ends(replace(OPTIONS, end=Time(1)), PINNED, {A: 7, B: None}) == {A: 7, B: 20}


def test_what_is_gone_is_a_loss_or_is_left_out() -> None:
    gone = with_start(Offsets({A: 3, B: 0}))
    with pytest.raises(DataLost, match="a-0 has offsets 5 to 50, and the read begins at 3"):
        starts(gone, PINNED, {})
    assert starts(replace(gone, fail_on_data_loss=False), PINNED, {}) == {A: 5, B: 0}
    beyond = replace(OPTIONS, end=Offsets({A: 51, B: 0}))
    with pytest.raises(DataLost, match="ends at 51"):
        ends(beyond, PINNED, {})


def test_every_partition_has_an_offset() -> None:
    with pytest.raises(NotReadable, match="a-1 has no offset"):
        starts(with_start(Offsets({A: 7})), PINNED, {})
    with pytest.raises(NotReadable, match="b-0 is not read"):
        ends(replace(OPTIONS, end=Offsets({A: 7, B: 7, PartitionName("b", 0): 1})), PINNED, {})


def parquet(start: int, end: int, **more: object) -> ParquetSlice:
    file = ParquetFile(key="k", start=start, end=end, rows=1, size=1, **more)  # type: ignore[arg-type]
    return ParquetSlice(name=A, start=start, end=end, file=file)


def test_files_that_lack_records_say_so() -> None:
    check_dead(OPTIONS, parquet(0, 9), 0)
    with pytest.raises(DataLost, match="3 records of a-0"):
        check_dead(OPTIONS, parquet(0, 9), 3)
    check_dead(replace(OPTIONS, fail_on_data_loss=False), parquet(0, 9), 3)


offsets = st.dictionaries(st.sampled_from([A, B, PartitionName("b", 3)]), st.integers(0, 1000))


@given(offsets, st.integers(1, 300), st.data())
def test_a_limited_step_goes_forward_and_not_too_far(
    end: dict[PartitionName, int], limit: int, data: st.DataObject
) -> None:
    streaming = pytest.importorskip("tierlog.spark.streaming")
    start = {name: data.draw(st.integers(0, at)) for name, at in end.items()}
    found = streaming.limited(start, end, limit)
    assert all(start[name] <= found[name] <= end[name] for name in end)
    moved = sum(found[name] - start[name] for name in end)
    left = {name for name in end if end[name] > start[name]}
    assert moved <= max(limit, len(left))
    assert all(found[name] > start[name] for name in left)


def test_filters_leave_out_slices() -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan

    from tierlog.spark.pruning import pruned

    early, late = parquet(0, 10, times=(1000, 2000)), parquet(10, 20, times=(3000, 4000))
    segment = RawSegment(key="s", start=20, end=30, records=10, size=100)
    raw = RawSlice(name=B, start=20, end=30, segment=segment)
    every: list[Slice] = [early, late, raw]
    moment = datetime.fromtimestamp(2.5, UTC)
    assert pruned(every, [GreaterThanOrEqual(("offset",), 10)]) == [late, raw]
    assert pruned(every, [LessThan(("offset",), 10)]) == [
        early,
        late,
    ]  # 10 itself is not told apart.
    assert pruned(every, [EqualTo(("partition",), 1)]) == [raw]
    assert pruned(every, [In(("partition",), (0, 1))]) == every
    assert pruned(every, [GreaterThan(("timestamp",), moment)]) == [late, raw]
    assert pruned(every, [EqualTo(("topic",), "b")]) == []
    assert pruned(every, [EqualTo(("headers", "key"), 1)]) == every
