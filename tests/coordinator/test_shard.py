"""A shard whose log does not take what was decided."""

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from tests.broker.support import Served
from tests.groups.conftest import serving_groups
from tierlog.coordinator import shard as shards
from tierlog.coordinator.errors import CoordinatorLoading
from tierlog.coordinator.shard import Shard
from tierlog.coordinator.step import Now
from tierlog.groups.formats import NO_ID
from tierlog.groups.machine import GroupMachine
from tierlog.groups.service import groups_of
from tierlog.groups.values import Commit, GroupStep
from tierlog.hot import Log
from tierlog.hot.errors import DiskFull, LogBroken
from tierlog.sim.disk import SimDisk
from tierlog.wire.error_codes import ErrorCode


async def loaded(served: Served) -> Shard[GroupMachine]:
    groups = groups_of(served.node)
    await served.create("t", partitions=1)
    await groups.ensure()
    shard = groups.shards[0]
    await until_loaded(shard)
    return shard


async def until_loaded(shard: Shard[GroupMachine]) -> None:
    while not shard.is_loaded:  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0)


def commit(shard: Shard[GroupMachine], offset: int) -> "asyncio.Future[Any]":
    def decide(ticket: int, now: Now) -> GroupStep:
        commits = [Commit("t", 0, offset, -1, "")]
        return shard.machine.commit("g", "", None, -1, commits, ticket, now)

    return shard.act(decide)


def full_disk(shard: Shard[GroupMachine]) -> Any:
    log = shard._partition.log
    return patch.object(type(log), "append", side_effect=DiskFull("full"))


async def test_what_a_full_disk_refuses_is_not_remembered() -> None:
    async with serving_groups() as served:
        shard = await loaded(served)
        assert await commit(shard, 1) == [ErrorCode.NONE]
        with full_disk(shard), pytest.raises(DiskFull):
            commit(shard, 2)
        with pytest.raises(CoordinatorLoading):
            commit(shard, 3)
        await until_loaded(shard)
        assert shard.machine.committed("g")["t", 0].offset == 1
        assert await commit(shard, 4) == [ErrorCode.NONE]


async def test_what_was_on_its_way_to_the_disk_is_remembered() -> None:
    """Also if who asked for it was told to ask again."""
    async with serving_groups() as served:
        shard = await loaded(served)
        under_way = commit(shard, 1)
        with full_disk(shard), pytest.raises(DiskFull):
            commit(shard, 2)
        with pytest.raises(CoordinatorLoading):
            await under_way
        await until_loaded(shard)
        assert shard.machine.committed("g")["t", 0].offset == 1


async def test_a_shard_that_cannot_be_loaded_is_tried_again() -> None:
    async with serving_groups() as served:
        shard = await loaded(served)
        await commit(shard, 1)
        log, faults = shard._partition.log, [LogBroken("unreadable"), OSError("bad sector")]
        read = type(log).read

        def failing(self: Log, *args: Any, **more: Any) -> Any:
            if faults:
                raise faults.pop()
            return read(self, *args, **more)

        with patch.object(type(log), "read", failing), patch.object(shards, "RETRY_S", 0.001):
            shard._begin_anew()
            await until_loaded(shard)
        assert not faults
        assert shard.machine.committed("g")["t", 0].offset == 1
        assert await commit(shard, 2) == [ErrorCode.NONE]


async def test_shards_are_loaded_though_another_one_cannot_be_yet() -> None:
    disk, may_read = SimDisk(), False
    async with serving_groups(disk) as served:
        shard = await loaded(served)
        await commit(shard, 1)
    load = Shard.load

    async def failing(self: Shard[GroupMachine]) -> None:
        if self._partition.index == 0 and not may_read:
            raise OSError("bad sector")
        await load(self)

    with patch.object(Shard, "load", failing), patch.object(shards, "RETRY_S", 0.001):
        async with serving_groups(disk) as served:
            first, *others = groups_of(served.node).shards
            for one in others:
                await until_loaded(one)
            assert not first.is_loaded
            may_read = True
            await until_loaded(first)
            assert first.machine.committed("g")["t", 0].offset == 1


async def test_whoever_waits_for_others_is_told_to_ask_again() -> None:
    async with serving_groups() as served:
        shard = await loaded(served)
        waiting = shard.act(lambda ticket, now: GroupStep())
        with full_disk(shard), pytest.raises(DiskFull):
            commit(shard, 2)
        with pytest.raises(CoordinatorLoading):
            await waiting


async def test_a_full_disk_is_no_reason_to_fail_for_time_that_passes() -> None:
    async with serving_groups() as served:
        shard = await loaded(served)
        await commit(shard, 1)
        with full_disk(shard):
            shard.machine.topic_gone("t", NO_ID)
            for step in shard.machine.forgetting():
                shard.carry_out(step)
        await until_loaded(shard)
        assert shard.machine.committed("g")["t", 0].offset == 1
