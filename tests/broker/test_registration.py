"""What a start refuses: other people's data, and defaults that topics cannot live with."""

from dataclasses import replace

import pytest

from tests.broker.support import serving
from tierlog.config import InvalidConfig, NodeSettings
from tierlog.sim.disk import SimDisk

PLAIN = NodeSettings()
COMPACTED = NodeSettings(log_cleanup_policy=frozenset({"compact"}))
UNTIERED = NodeSettings(remote_log_storage_system_enable=False)


async def left_behind(settings: NodeSettings = PLAIN, **configs: str) -> SimDisk:
    """The disk of a node that had a topic."""
    disk = SimDisk()
    async with serving(settings, disk=disk) as served:
        await served.create("orders", partitions=1, **configs)
    return disk


async def refused(disk: SimDisk, settings: NodeSettings) -> str:
    with pytest.raises(InvalidConfig) as error:
        async with serving(settings, disk=disk):
            pass
    return error.value.sentence


async def test_the_data_of_another_node_are_refused_and_its_number_named() -> None:
    disk = await left_behind()
    sentence = await refused(disk, NodeSettings(node_id=5))
    assert sentence.startswith("node.id is 5, and the data are those of node 1; start it with")
    async with serving(disk=disk) as served:
        assert served.node.topics.named("orders").partition(0).log.log_end == 0


@pytest.mark.parametrize("settings", [COMPACTED, UNTIERED])
async def test_a_default_that_would_turn_tiering_off_is_refused_and_the_topic_named(
    settings: NodeSettings,
) -> None:
    sentence = await refused(await left_behind(), settings)
    assert sentence.startswith("topic orders cannot live with the defaults that this node is given")
    assert "remote.storage.enable cannot be turned off" in sentence


async def test_a_default_that_a_topic_contradicts_is_refused_and_the_topic_named() -> None:
    disk = await left_behind(tierlog_compliance="true")
    sentence = await refused(disk, COMPACTED)
    assert sentence.startswith("topic orders cannot live")
    assert "cannot be compacted" in sentence
    assert "topic orders" in await refused(disk, UNTIERED)


async def test_the_retention_of_a_compliance_topic_does_not_shrink_by_a_default() -> None:
    disk = await left_behind(NodeSettings(log_retention_ms=5000), tierlog_compliance="true")
    assert "never shrink: 5000 to 4000" in await refused(disk, NodeSettings(log_retention_ms=4000))
    grown = NodeSettings(log_retention_ms=6000)
    async with serving(grown, disk=disk):
        pass
    assert "6000 to 5000" in await refused(disk, NodeSettings(log_retention_ms=5000))


async def test_defaults_that_no_topic_minds_may_change_at_every_start() -> None:
    disk = await left_behind(remote_storage_enable="false")
    large = NodeSettings(socket_request_max_bytes=200 << 20, message_max_bytes=150 << 20)
    for settings in (COMPACTED, PLAIN, large, replace(PLAIN, log_segment_bytes=4096), PLAIN):
        async with serving(settings, disk=disk) as served:
            assert served.node.topics.named("orders").config.segment_bytes in (4096, 128 << 20)
