"""Changes to topics that meet, in every order that a seed can think of.

Several administrators ask at once, through a metastore that answers late. Whatever they hear, the
metastore, the node and its disk must tell one story in the end.
"""

import asyncio
from random import Random
from typing import Any

import pytest

from tests.broker.support import Served, Wedge
from tierlog.broker.node import Node
from tierlog.config import NodeSettings
from tierlog.hot import LogDirectory
from tierlog.metastore import values
from tierlog.metastore.values import TopicState
from tierlog.sim import SimWorld, simulate
from tierlog.sim.metastore import SimMetaCluster, SimMetaStore
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tierlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tierlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tierlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tierlog.wire.schema import NO_UUID, Request

ADMINISTRATORS = 6
REQUESTS_EACH = 8
NAMES = ("a", "b")
SETTINGS = ("retention.ms", "segment.ms")
TIMEOUT_MS = (20, 60_000)

HEARD = {
    ErrorCode.NONE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
}
"""What an administrator may hear when others are at work."""


def draw(rng: Random) -> tuple[Request, int]:
    """A request and its version."""
    name, timeout_ms = rng.choice(NAMES), rng.choice(TIMEOUT_MS)
    kind = rng.randrange(4)
    if kind == 0:
        topic = CreatableTopic(
            name=name,
            num_partitions=rng.randint(1, 3),
            replication_factor=1,
            assignments=[],
            configs=[],
        )
        return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 7
    if kind == 1:
        gone = DeleteTopicState(name=name, topic_id=NO_UUID)
        return DeleteTopicsRequest(topics=[gone], timeout_ms=timeout_ms), 6
    if kind == 2:
        more = CreatePartitionsTopic(name=name, count=rng.randint(2, 6), assignments=None)
        return (
            CreatePartitionsRequest(topics=[more], timeout_ms=timeout_ms, validate_only=False),
            3,
        )
    change = AlterableConfig(name=rng.choice(SETTINGS), config_operation=0, value="60000")
    resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=[change])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1


def code(response: Any) -> int:
    for field in ("topics", "responses", "results"):
        if (rows := getattr(response, field, None)) is not None:
            return int(rows[0].error_code)
    raise AssertionError(response)


async def administer(served: Served, rng: Random) -> None:
    for _ in range(REQUESTS_EACH):
        heard = code(await served.call(*draw(rng)))
        assert heard in HEARD, heard
        await asyncio.sleep(rng.random() * 0.01)


async def races(world: SimWorld) -> None:
    """Ask, let everything come to rest, compare."""
    await world.start("node", on_node(world), what="races")


async def on_node(world: SimWorld) -> None:
    env = world.env("node")
    cluster = SimMetaCluster(world.rng("metastore"))
    metastore = Wedge(SimMetaStore(env, cluster))
    node = Node(env, NodeSettings(), metastore, LogDirectory(env, "/data/log"))
    await node.start()
    served = Served(node, metastore, world.disk("node"))
    await asyncio.gather(
        *(administer(served, world.rng(f"administrator {n}")) for n in range(ADMINISTRATORS))
    )
    await asyncio.sleep(60)  # Virtual: what nobody waits for any more comes to its end.
    await node.directory.swept()
    check(served, cluster)
    await node.stop()


def check(served: Served, cluster: SimMetaCluster) -> None:
    assert not served.node.broken.done()
    entries = cluster.state.entries
    topics = {
        bytes.fromhex(key.removeprefix(values.TOPICS)): TopicState.from_bytes(entry.value)
        for key, entry in entries.items()
        if key.startswith(values.TOPICS)
    }
    names = {
        key.removeprefix(values.TOPIC_NAMES): bytes.fromhex(entry.value.decode())
        for key, entry in entries.items()
        if key.startswith(values.TOPIC_NAMES)
    }
    partitions = [
        values.parse_partition_key(key) for key in entries if key.startswith(values.PARTITIONS)
    ]
    known = served.node.topics
    assert names == {topic.name: topic_id for topic_id, topic in topics.items()}
    assert {topic.name: topic.id for topic in known} == names
    assert {topic.id: topic.overrides for topic in known} == {
        topic_id: topic.configs for topic_id, topic in topics.items()
    }
    led = [(topic.id, one.index) for topic in known for one in topic.partitions]
    assert sorted(led) == sorted(partitions)
    assert all([one.index for one in t.partitions] == list(range(len(t.partitions))) for t in known)
    assert sorted(served.node.directory.names()) == sorted(values.log_name(*one) for one in led)
    assert not [key for key in entries if key.startswith(values.DELETED)]


@pytest.mark.parametrize("seed", range(20))
def test_changes_that_meet_leave_one_story_behind(seed: int) -> None:
    simulate(races, seed=seed)
