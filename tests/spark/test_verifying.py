"""What a task of `tierlog spark verify` finds, and how objects are shared out. Without a Spark."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table.batches import range_of
from tests.table.test_scan import three_batches
from tierlog.cold.audit import Kind, Subject
from tierlog.cold.layout import PartitionKeys
from tierlog.env import LocalDisk, local_env
from tierlog.objectstore.errors import NoSuchObject
from tierlog.spark import stores, verifying
from tierlog.spark.running import grouped
from tierlog.spark.stores import StorePlace
from tierlog.spark.verifying import FileTask, check
from tierlog.table import plans
from tierlog.table.audit import objects_of
from tierlog.table.manifest import DeadLetters, Source, TableFile
from tierlog.table.plans import About, ConvertPlan, RawPart

KEYS = PartitionKeys("c/", "a" * 32, 0)
SUBJECT = Subject("orders", "a" * 32, 0)


def converted(folder: Path) -> TableFile:
    """Six rows and a batch that cannot be decoded, in a store that is a folder."""
    one, two, three = three_batches()
    two[-1] ^= 1
    data = bytes(one + two + three)
    raw, pq = folder / "raw", folder / f"store/{KEYS.prefix}pq"
    raw.write_bytes(data)
    pq.mkdir(parents=True)
    wanted = range_of(b"".join(three_batches()))
    part = RawPart(path=str(raw), size=len(data), source="seg/0", wanted=wanted)
    sources = (Source("seg/0", "0" * 64),)
    about = About(topic="orders", topic_id="i", partition=0, start=0, end=9, sources=sources)
    out, dead_out = str(pq / "0.parquet"), str(pq / "0.dead")
    plan = ConvertPlan(parts=(part,), out=out, dead_out=dead_out, about=about)
    made = plans.convert(LocalDisk(), plan)
    assert made.dead is not None
    return TableFile(
        key="pq/0.parquet",
        size=made.size,
        sha256=made.sha256,
        crc32c=0,
        start=0,  # type: ignore[arg-type]  # a plain number will do
        end=9,  # type: ignore[arg-type]  # likewise
        rows=6,
        row_groups=1,
        plain_bytes=1,
        min_timestamp=0,  # type: ignore[arg-type]  # likewise
        max_timestamp=0,  # type: ignore[arg-type]  # likewise
        dead=(DeadLetters("pq/0.dead", made.dead.size, made.dead.sha256, 1, 3),),
        sources=sources,
    )


def tasks_of(file: TableFile) -> list[FileTask]:
    return [FileTask(keys=KEYS, subject=SUBJECT, object=one) for one in objects_of(file)]


def found(folder: Path, file: TableFile) -> list[tuple[Kind, str]]:
    findings = check(StorePlace(url=f"file://{folder}/store"), tasks_of(file))
    return [(one.kind, one.key.removeprefix(KEYS.prefix)) for one in findings]


def test_dead_letters_are_read_and_rows_are_counted(tmp_path: Path) -> None:
    file = converted(tmp_path)
    assert found(tmp_path, file) == []
    assert found(tmp_path, replace(file, rows=7)) == [(Kind.FILE_WRONG, "pq/0.parquet")]
    dead = tmp_path / f"store/{KEYS.prefix}pq/0.dead"
    data = bytearray(dead.read_bytes())
    data[len(data) // 2] ^= 1
    dead.write_bytes(data)
    assert found(tmp_path, file) == [(Kind.FILE_WRONG, "pq/0.dead")]
    dead.unlink()
    assert found(tmp_path, file) == [(Kind.FILE_MISSING, "pq/0.dead")]


def test_the_version_that_was_published_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = converted(tmp_path)
    asked: list[str | None] = []

    class Noting:
        async def head(self, key: str, *, version_id: str | None = None) -> object:
            asked.append(version_id)
            raise NoSuchObject(key)

    bucket = stores.Opened(env=local_env(), store=Noting(), stats=None)  # type: ignore[arg-type]  # a stand-in

    def beside(_: StorePlace, work: object) -> object:
        return asyncio.run(work(bucket))  # type: ignore[operator]

    monkeypatch.setattr(verifying, "with_store", beside)
    check(StorePlace(url="file:///s"), tasks_of(replace(file, version_id="v7"))[:1])
    assert asked == ["v7"]


@given(st.lists(st.integers(0, 100)), st.integers(1, 150), st.integers(1, 5))
def test_groups_keep_everything_in_order_within_their_bounds(
    sizes: list[int], bytes_max: int, count_max: int
) -> None:
    groups = grouped(sizes, size_of=int, bytes_max=bytes_max, count_max=count_max)
    assert [one for some in groups for one in some] == sizes
    for some in groups:
        assert 1 <= len(some) <= count_max
        assert sum(some) <= bytes_max or len(some) == 1
    for some, more in pairwise(groups):
        assert len(some) == count_max or sum(some) + more[0] > bytes_max  # Not more than needed.
