"""Large segments are scanned by a worker process: the same object, and the same complaints."""

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hot.support import append, batch
from tierlog.cold import staging
from tierlog.cold.errors import SegmentUnsound
from tierlog.cold.staging import WORKER_BYTES_MIN, Label, Plan, Staged, scan, stage
from tierlog.env import Env, local_env
from tierlog.hot import LogDirectory, LogSettings
from tierlog.types import Offset, Position

PART_BYTES = 5 << 20


@pytest.fixture
async def env() -> AsyncIterator[Env]:
    env = local_env()
    yield env
    env.tasks.close()  # type: ignore[attr-defined]  # local ones have it


@pytest.fixture
async def plan(env: Env, tmp_path: Path) -> AsyncIterator[Plan]:
    """Of a segment that is large enough for a worker."""
    directory = LogDirectory(env, str(tmp_path), reserve_bytes=0)
    log = await directory.open_log(f"{'0' * 32}-0", LogSettings(segment_bytes=64 << 20))
    value = env.rng.randbytes(100_000)
    while log.segments.active.size < WORKER_BYTES_MIN:
        append(log, batch(value))
    log.roll()
    await log.settle()
    segment = log.sealed()[0]
    yield Plan(
        path=segment.path,
        position=Position(0),
        end=segment.size,
        base=segment.base_offset,
        last=Offset(segment.next_offset - 1),
        label=Label(topic="orders", topic_id="0" * 32, partition=0),
        key="seg/one",
        producers=await log.producers_at(segment.next_offset),
        lineage=(),
        max_append_ms=7,
        part_bytes=0,
    )
    await log.close()
    directory.close()


def content(staged: Staged) -> bytes:
    return b"".join(bytes(piece) for piece in staged.body.pieces())


async def test_a_worker_makes_what_this_process_would(env: Env, plan: Plan) -> None:
    here = scan(env.disk, plan)
    staged = await stage(env, plan)
    assert staged.entry == here.tail.entry
    whole = content(staged)
    assert whole.endswith(here.tail.data)
    assert len(whole) == staged.entry.size
    parted = await stage(env, replace(plan, part_bytes=PART_BYTES))
    assert b"".join(bytes(piece) for part in parted.parts for piece in part.pieces()) == whole


async def test_a_worker_that_is_killed_costs_no_upload(env: Env, plan: Plan) -> None:
    pid = await env.tasks.in_process(os.getpid)
    os.kill(pid, signal.SIGKILL)
    staged = [await stage(env, plan) for _ in range(2)]
    assert staged[0].entry == staged[1].entry


async def test_a_worker_that_hangs_costs_no_upload(
    env: Env, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = await env.tasks.in_process(os.getpid)
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(staging, "HANGS_S", 0.0)
    staged = await stage(env, plan)
    assert staged.entry == scan(env.disk, plan).tail.entry
    assert await env.tasks.in_process(os.getpid) != pid


async def test_what_is_wrong_with_a_segment_is_told_by_the_worker(env: Env, plan: Plan) -> None:
    pid = await env.tasks.in_process(os.getpid)
    spoil(env, plan)
    with pytest.raises(SegmentUnsound) as found:
        await stage(env, plan)
    assert found.value.position > 0
    env.disk.unlink(plan.path)
    with pytest.raises(FileNotFoundError):
        await stage(env, plan)
    assert await env.tasks.in_process(os.getpid) == pid, "the worker lives"


def spoil(env: Env, plan: Plan) -> None:
    """One bit in the middle."""
    file = env.disk.open(plan.path, write=True)
    middle = plan.end // 2
    (byte,) = file.pread(1, middle)
    file.pwrite(bytes([byte ^ 1]), middle)
    file.close()
