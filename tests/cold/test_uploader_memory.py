"""An upload holds pieces of a segment in memory, never the whole."""

import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cold.tiering import CLUSTER, LIFE, TOPIC, TOPIC_ID, no_probe
from tests.hot.support import append, batch
from tierlog.cold.tier import ColdTier
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.env import Env, local_env
from tierlog.hot import LogDirectory, LogSettings
from tierlog.objectstore.folder import FolderStore
from tierlog.types import LeaderEpoch

MIB = 1 << 20
SEGMENT_BYTES = 220 * MIB


@pytest.fixture
async def env() -> AsyncIterator[Env]:
    env = local_env()
    yield env
    env.tasks.close()  # type: ignore[attr-defined]  # local ones have it


@pytest.mark.slow
@pytest.mark.parametrize("single_put_bytes_max", [256 * MIB, 64 * MIB])
async def test_the_memory_of_an_upload_is_bounded(
    env: Env, tmp_path: Path, single_put_bytes_max: int
) -> None:
    directory = LogDirectory(env, str(tmp_path / "logs"), reserve_bytes=0)
    log = await directory.open_log(f"{TOPIC_ID}-0", LogSettings(segment_bytes=256 * MIB))
    value = env.rng.randbytes(MIB)
    while log.segments.active.size < SEGMENT_BYTES:
        append(log, batch(value))
    log.roll()
    await log.settle()
    store = FolderStore(env, str(tmp_path / "store"))
    tier = ColdTier(
        env,
        store,
        TierSettings(single_put_bytes_max=single_put_bytes_max),
        data=str(tmp_path),
        cluster_id=CLUSTER,
        node_id=1,
        process="p",
        incarnation=LIFE,
        probe=no_probe,
    )
    await tier.start()
    await tier.attach(TOPIC_ID, TOPIC, 0, log, leader_epoch=LeaderEpoch(1), tiering=TopicTiering())
    partition = tier.partitions[TOPIC_ID, 0]
    await tier.membership.save()
    tracemalloc.start()
    try:
        await partition.uploader.upload()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert partition.prefix.uploaded_end == log.log_end
    assert peak < 16 * MIB, f"{peak >> 20} MiB"
    await tier.stop()
    await log.close()
    directory.close()
    await store.close()
