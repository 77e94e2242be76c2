"""Merges as the model has them, beside the node's own choice of what to merge."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest

from cost_model.arith import at_most
from cost_model.derive import derive
from cost_model.flow import parquet_flow, segment_flow
from cost_model.merges import merged_file, merged_segment, merges_each
from cost_model.prices import default_book
from cost_model.read import from_dict
from cost_model.units import GIB, KIB, MIB
from tests.cost_model.support import QUIET, bill, part
from tierlog.cold import merging
from tierlog.table import choosing
from tierlog.table.settings import TableSettings

HOUR_MS = 3_600_000


@dataclass
class Segment:
    """As much of an entry as the choice of what to merge looks at."""

    base: int
    next_offset: int
    data_bytes: int
    min_timestamp: int
    max_timestamp: int
    replaces: Any = None
    storage_class: str = "STANDARD"
    retain_until_ms: int = -1
    has_aborted: bool = False
    dek_id: None = None

    @property
    def last(self) -> int:
        return self.next_offset - 1

    @property
    def key(self) -> str:
        return f"{self.base}-{self.next_offset}"

    @property
    def segments(self) -> int:
        return self.next_offset - self.base


def merged_by_the_node(size: int, count: int, *, span_h: int) -> tuple[int, int]:
    """Objects that are left of hourly segments, and merges that it took."""
    entries: list[Any] = []
    wanted: Any = merging.Wanted(
        target_bytes=128 << 20,
        start=0,  # type: ignore[arg-type]  # a plain int
        end=10**9,  # type: ignore[arg-type]  # as above
        segments_max=224,
        span_ms_max=span_h * HOUR_MS,
    )
    merges = 0
    for at in range(count):
        entries.append(Segment(at, at + 1, size, at * HOUR_MS, (at + 1) * HOUR_MS))
        while run := merging.choose(entries, wanted):
            first, last = run[0], run[-1]
            made: Any = Segment(
                int(first.base),
                int(last.next_offset),
                sum(one.data_bytes for one in run),
                first.min_timestamp,
                last.max_timestamp,
            )
            made.replaces = made
            place = entries.index(first)
            entries[place : place + len(run)] = [made]
            merges += 1
    return len(entries), merges


@pytest.mark.parametrize("size", [100 * KIB, 720_000, 2 * MIB, 5 * MIB, 20 * MIB, 40 * MIB])
@pytest.mark.parametrize("span_h", [21, 91])
def test_segments_end_up_as_large_as_the_node_makes_them(size: int, span_h: int) -> None:
    """Within a factor of 2.2, over sizes that differ 400 times; of requests within a fifth of an
    upload."""
    count = 800
    objects, merges = merged_by_the_node(size, count, span_h=span_h)
    last = merged_segment(size, target=128 * MIB, reach=size * span_h * 8)
    assert 1 / 2.2 < count * size / last / objects < 2.2
    uploads = last / size
    assert merges_each(size, last) / uploads == pytest.approx(merges / count, abs=0.2)


@dataclass
class File:
    key: str
    size: int
    start: int
    end: int
    sources: list[int] = field(default_factory=lambda: [0])


def files_of_the_node(size: int, count: int) -> tuple[int, int]:
    files: list[Any] = []
    merges = 0
    for at in range(count):
        files.append(File(f"{at}", size, at, at + 1))
        while run := choosing.merge_run(files, TableSettings()):
            first: Any = run[0]
            made = File(
                f"m{merges}",
                sum(one.size for one in run),
                int(first.start),
                int(run[-1].end),
                [0 for one in run for _ in one.sources],
            )
            place = files.index(first)
            files[place : place + len(run)] = [made]
            merges += 1
    return len(files), merges


@pytest.mark.parametrize(
    "size", [720_000, 2 * MIB, 5 * MIB, 10 * MIB, 15 * MIB, 32 * MIB, 128 * MIB, 200 * MIB]
)
def test_files_end_up_as_large_as_the_node_makes_them(size: int) -> None:
    count = 800
    files, merges = files_of_the_node(size, count)
    last = merged_file(size, full=128 * MIB)
    assert 1 / 1.5 < count * size / last / files < 1.5
    assert merges_each(size, last) * size / last == pytest.approx(merges / count, abs=0.1)


def test_a_file_of_a_quarter_of_the_full_size_is_written_once() -> None:
    """A segment of 128 MiB makes one file and one publication, and nothing is merged."""
    flow = parquet_flow(derive(from_dict({}), default_book()))
    assert flow.puts_each == 2
    assert flow.merges_each == 0
    assert flow.object_bytes == flow.first_bytes


def test_quiet_partitions_are_merged_once_and_read_in_fewer_requests_for_ever() -> None:
    quiet = {"write": "100 KB/s", "partitions": 1000, "retention": "1 year"}
    reads = {"replay": "1 TB", "replay_from": "segments"}
    table = {"enabled": False}
    merged, alone = (
        bill(workload=quiet, reads=reads, parquet=table, tiering={"merge": merge, **QUIET})
        for merge in ("128 MiB", "0 B")
    )
    gets = "segments in STANDARD: GET"
    assert part(merged, gets) < part(alone, gets) / 3
    puts = "segments in STANDARD: PUT"
    assert part(alone, puts) < part(merged, puts) < part(alone, puts) * 1.15


def test_merging_goes_no_further_than_the_segments_and_the_retention_of_a_topic() -> None:
    def size(retention: str, segment: str) -> float:
        made = from_dict(
            {
                "workload": {"write": "1 MB/s", "partitions": 1000, "retention": retention},
                "tiering": {"segment": segment},
            }
        )
        return segment_flow(derive(made, default_book())).object_bytes

    hourly = 1e6 / 1000 * 3600
    assert size("1 d", "128 MiB") == pytest.approx(hourly)
    assert hourly < size("7 d", "128 MiB") < size("1 year", "128 MiB") == 64 * MIB
    assert size("1 year", "16 MiB") <= 16 * MIB


def test_what_was_just_uploaded_is_read_as_it_was_uploaded() -> None:
    """Who falls behind the local disk reads segments that nobody has merged yet."""
    quiet = {"write": "1 MB/s", "partitions": 1000, "retention": "1 year"}
    made = bill(workload=quiet, reads={"tail_miss": 1}, parquet={"enabled": False}, tiering=QUIET)
    segments = 1000 * 730
    line = next(each for each in made.lines if each.item == "segments in STANDARD: GET requests")
    merging_gets = segments * 8 * (1 - 3.6e6 / (64 * MIB)) / 7
    assert line.quantity.value * 1000 == pytest.approx(segments * 2 + merging_gets)


def test_smooth_sizes_have_no_steps() -> None:
    sizes = [KIB * 1.05**at for at in range(300)]
    for made in (
        [merged_segment(size, target=128 * MIB, reach=100 * GIB) for size in sizes],
        [merged_file(size, full=128 * MIB) for size in sizes],
    ):
        assert all(1 / 1.2 < two / one < 1.2 for one, two in itertools.pairwise(made))
        assert all(at_most(size, last) == size for size, last in zip(sizes, made, strict=True))
