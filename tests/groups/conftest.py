"""A node that serves groups, in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.broker.support import Served, serving
from tierlog.config import NodeSettings
from tierlog.groups.service import GroupCoordinator
from tierlog.server import served_apis
from tierlog.sim.disk import SimDisk

SETTINGS = NodeSettings(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=3)


@asynccontextmanager
async def serving_groups(disk: SimDisk | None = None) -> AsyncIterator[Served]:
    async with serving(SETTINGS, disk=disk) as served:
        groups = GroupCoordinator(served.node)
        served.node.services[GroupCoordinator] = groups
        groups.start()
        try:
            yield Served(served.node, served.metastore, served.disk, served_apis())
        finally:
            await groups.stop()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving_groups() as one:
        yield one
