"""Conversion in real worker processes on a real disk: the same file as here, and kill -9."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crc32c import crc32c

from tests.records.batches import some_records
from tests.table.standing import stand_still
from tierlog.env import LocalDisk, LocalTasks, WorkerLost, local_env
from tierlog.objectstore.memory import MemoryStore
from tierlog.records.record import encode_batch
from tierlog.table import plans
from tierlog.table.manifest import Source
from tierlog.table.plans import About, ConvertPlan, MergePlan, Range, RawPart
from tierlog.table.workshop import Workshop

pytestmark = pytest.mark.slow
"""Workers import pyarrow, and may have to compile, at the lowest priority."""


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    env, tasks = local_env(), LocalTasks(thread_count=1)
    try:
        yield Workshop(env, MemoryStore(env.clock), tasks, str(tmp_path))
    finally:
        tasks.end_workers()
        tasks.close()
        assert isinstance(env.tasks, LocalTasks)
        env.tasks.close()


def a_plan(folder: Path) -> ConvertPlan:
    data = encode_batch(some_records(100))
    (folder / "raw").write_bytes(data)
    wanted = Range(topic="t", partition=0, start=0, end=100, base=0, next_offset=100)
    part = RawPart(path=str(folder / "raw"), size=len(data), source="seg/0", wanted=wanted)
    about = About(
        topic="t",
        topic_id="id",
        partition=0,
        start=0,
        end=100,
        sources=(Source("seg/0", "0" * 64),),
    )
    return ConvertPlan(
        parts=(part,), out=str(folder / "out"), dead_out=str(folder / "dead"), about=about
    )


async def test_a_worker_makes_the_same_file_as_this_process(
    workshop: Workshop, tmp_path: Path
) -> None:
    plan = a_plan(tmp_path)
    made = await workshop.done(plans.convert_local, plans.convert, plan, size=1)
    written = (tmp_path / "out").read_bytes()
    assert (made.rows, made.size) == (100, len(written))
    assert plans.convert(LocalDisk(), replace(plan, out=str(tmp_path / "again"))) == made
    assert (tmp_path / "again").read_bytes() == written


async def test_a_worker_that_is_killed_is_lost_and_the_next_one_works(
    workshop: Workshop, tmp_path: Path
) -> None:
    plan = a_plan(tmp_path)
    await workshop.done(plans.convert_local, plans.convert, plan, size=1)
    pool = workshop._tasks._processes  # type: ignore[attr-defined]
    asked = asyncio.ensure_future(workshop.done(stand_still, plans.convert, plan, size=1))
    await began(asked, tmp_path / "standing")
    for pid in list(pool._processes):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerLost):
        await asked
    made = await workshop.done(plans.convert_local, plans.convert, plan, size=1)
    assert made.rows == 100


async def began(asked: "asyncio.Future[plans.Made]", path: Path) -> None:
    while not path.exists() and not asked.done():  # noqa: ASYNC110, ASYNC240  another process
        await asyncio.sleep(0.01)


async def test_merged_files_have_the_rows_of_both(workshop: Workshop, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    await workshop.done(plans.convert_local, plans.convert, plan, size=1)
    merge = MergePlan(
        paths=(plan.out, plan.out),
        out=str(tmp_path / "merged"),
        about=plan.about,
        control_records=0,
        dead_records=0,
    )
    made = await workshop.done(plans.merge_local, plans.merge, merge, size=1)
    one, both = pq.read_table(plan.out), pq.read_table(merge.out)
    assert both.column("offset").to_pylist() == 2 * one.column("offset").to_pylist()
    assert both.column("value").to_pylist() == 2 * one.column("value").to_pylist()
    assert (made.rows, made.row_groups) == (200, 1)


def test_dead_letters_lie_beside_the_file_and_not_in_the_answer(tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    raw = bytearray((tmp_path / "raw").read_bytes())
    raw[-1] ^= 1
    (tmp_path / "raw").write_bytes(raw)
    (part,) = plan.parts
    lost = replace(part, source="seg/1", missing="it was not there", records=7)
    made = plans.convert(LocalDisk(), replace(plan, parts=(part, lost)))
    written = Path(plan.dead_out).read_bytes()
    assert made.dead == (len(written), sha256(written).hexdigest(), crc32c(written), 2, 107)
    letters = pq.read_table(plan.dead_out).to_pylist()
    assert [(one["source"], one["batch"]) for one in letters] == [
        ("seg/0", bytes(raw)),
        ("seg/1", b""),
    ]
    assert made.rows == 0


def test_a_file_is_written_as_the_format_says(tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    plans.convert(LocalDisk(), plan)
    with pq.ParquetFile(plan.out) as file:
        group = file.metadata.row_group(0)
        columns = {
            group.column(place).path_in_schema: group.column(place)
            for place in range(group.num_columns)
        }
    assert {one.compression for one in columns.values()} == {"ZSTD"}
    assert "DELTA_BINARY_PACKED" in columns["offset"].encodings
    assert "RLE_DICTIONARY" in columns["key"].encodings
    assert "RLE_DICTIONARY" not in columns["value"].encodings
    assert columns["offset"].has_offset_index
    assert columns["offset"].has_column_index
    assert columns["value"].statistics is None
    assert [one.column_index for one in group.sorting_columns] == [0]
    assert columns["key"].bloom_filter_length
