"""The traps of the protocol by name, from 19 on: coordinators, writing, settings, metadata."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.broker.asks import (
    batch_of,
    create,
    create_request,
    fetch_topic,
    metadata,
    offset_at,
    produce,
    produce_request,
)
from tests.broker.support import Served, serving
from tierlog.client import Connection
from tierlog.config import NodeSettings
from tierlog.env import local_env
from tierlog.server import Server
from tierlog.sim.disk import SimDisk
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages import create_partitions as grows
from tierlog.wire.messages import describe_configs as describes
from tierlog.wire.messages import incremental_alter_configs as alters
from tierlog.wire.messages.api_versions import ApiVersionsRequest
from tierlog.wire.messages.fetch import FetchRequest
from tierlog.wire.messages.init_producer_id import InitProducerIdRequest
from tierlog.wire.messages.metadata import MetadataRequest

SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}
TOPIC, BROKER = 2, 4


# 20, 23: idempotence, writing


async def new_producer(served: Served) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    response = await served.call(request, 4)
    assert response.error_code == 0
    producer: int = response.producer_id
    return producer


async def test_pitfall_20_the_last_five_batches_are_known_and_keep_their_offsets(
    served: Served,
) -> None:
    await served.create("t")
    producer = await new_producer(served)
    batches = [batch_of(served, b"v", producer=producer, sequence=number) for number in range(6)]
    for offset, batch in enumerate(batches):
        assert (await produce(served, "t", batch)).base_offset == offset
    for offset, batch in list(enumerate(batches))[1:]:
        again = await produce(served, "t", batch)
        assert (again.error_code, again.base_offset) == (0, offset)
    assert (await offset_at(served, "t", -1)).offset == 6


async def test_pitfall_20_a_gap_is_out_of_order(served: Served) -> None:
    await served.create("t")
    producer = await new_producer(served)
    await produce(served, "t", batch_of(served, b"a", producer=producer, sequence=0))
    gap = await produce(served, "t", batch_of(served, b"c", producer=producer, sequence=2))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    rest = await produce(served, "t", batch_of(served, b"b", producer=producer, sequence=1))
    assert (rest.error_code, rest.base_offset) == (0, 1)


async def test_pitfall_20_what_a_producer_sent_is_known_after_a_restart() -> None:
    disk = SimDisk()
    async with serving(disk=disk) as served:
        await served.create("t")
        producer = await new_producer(served)
        sent = batch_of(served, b"a", b"b", producer=producer, sequence=0)
        await produce(served, "t", sent)
    async with serving(disk=disk) as served:
        again = await produce(served, "t", sent)
        assert (again.error_code, again.base_offset) == (0, 0)
        assert (await offset_at(served, "t", -1)).offset == 2
        assert await new_producer(served) != producer


async def test_pitfall_23_a_batch_beyond_the_limit_of_its_topic_is_too_large(
    served: Served,
) -> None:
    await served.create("t", max_message_bytes="200")
    refused = await produce(served, "t", batch_of(served, b"x" * 300))
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await produce(served, "t", batch_of(served, b"x"))).base_offset == 0


async def test_pitfall_23_records_without_a_key_are_named_on_a_compacted_topic(
    served: Served,
) -> None:
    await served.create("t", cleanup_policy="compact")
    refused = await produce(served, "t", batch_of(served, b"a", b"b", key=None))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in refused.record_errors] == [0, 1]
    assert (await offset_at(served, "t", -1)).offset == 0


async def test_pitfall_23_acks_0_gets_no_answer(served: Served) -> None:
    await served.create("t")
    answer = served.send(produce_request("t", batch_of(served, b"v"), acks=0), 12)
    assert answer is None or (isinstance(answer, asyncio.Future) and await answer is None)
    await served.node.topics.named("t").partition(0).log.settle()
    assert (await offset_at(served, "t", -1)).offset == 1


async def test_pitfall_23_answers_leave_in_the_order_of_the_requests(tmp_path: Path) -> None:
    """A long poll first, then what could be answered at once: it waits for its turn."""
    settings = NodeSettings(data=str(tmp_path / "data"), listen="127.0.0.1:0", http="off")
    server = Server(local_env(), settings)
    ready = await server.start()
    connection = await Connection.connect(*ready.kafka)
    answered: list[str] = []
    try:
        await connection.call(create_request("t"))
        asked = {
            "fetch": FetchRequest(max_wait_ms=300, min_bytes=1, topics=[fetch_topic("t")]),
            "metadata": MetadataRequest(topics=[]),
            "versions": ApiVersionsRequest(**SOFTWARE),
        }
        futures = []
        for name, request in asked.items():
            future = connection.send(request, version=12 if name == "fetch" else None)
            future.add_done_callback(lambda _, name=name: answered.append(name))  # type: ignore[misc]
            futures.append(future)
        await asyncio.gather(*futures)
    finally:
        await connection.close()
        await server.stop()
    assert answered == ["fetch", "metadata", "versions"]


# 24, 25: settings and metadata


async def described(served: Served, version: int, *, kind: int = TOPIC, name: str = "t") -> Any:
    resource = describes.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = describes.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = (await served.call(request, version)).results
    assert result.error_code == 0
    return {entry.name: entry for entry in result.configs}


@pytest.mark.parametrize("version", [1, 4])
async def test_pitfall_24_every_setting_is_listed_with_value_and_source(
    served: Served, version: int
) -> None:
    default, of_topic = 5, 1
    await served.create("t", retention_ms="1234")
    found = await described(served, version)
    assert {"cleanup.policy", "max.message.bytes", "segment.bytes", "retention.bytes"} <= set(found)
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("1234", of_topic)
    assert found["max.message.bytes"].config_source == default
    first, *others = found["retention.ms"].synonyms
    assert first.value == "1234"
    assert others
    assert all(entry.value is not None for entry in found.values())
    of_node = await described(served, version, kind=BROKER, name=str(served.node.node_id))
    assert "auto.create.topics.enable" in of_node


async def test_pitfall_24_lists_are_appended_to_and_subtracted_from(served: Served) -> None:
    append, subtract = 2, 3
    await served.create("t", cleanup_policy="delete", remote_storage_enable="false")
    for operation, expected in ((append, {"delete", "compact"}), (subtract, {"delete"})):
        change = alters.AlterableConfig(
            name="cleanup.policy", config_operation=operation, value="compact"
        )
        resource = alters.AlterConfigsResource(
            resource_type=TOPIC, resource_name="t", configs=[change]
        )
        request = alters.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        (answer,) = (await served.call(request, 1)).responses
        assert answer.error_code == 0, answer.error_message
        policy = (await described(served, 4))["cleanup.policy"].value
        assert set(policy.split(",")) == expected


async def test_pitfall_24_create_partitions_echoes_its_topics(served: Served) -> None:
    await served.create("t")
    topics = [
        grows.CreatePartitionsTopic(name=name, count=count, assignments=None)
        for name, count in (("t", 3), ("missing", 2))
    ]
    request = grows.CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=False)
    results = (await served.call(request, 3)).results
    assert {one.name: one.error_code for one in results} == {
        "t": 0,
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_pitfall_24_minus_one_means_the_default_and_validate_only_makes_nothing() -> None:
    async with serving(NodeSettings(num_partitions=4)) as served:
        checked = await create(served, "t", partitions=-1, replicas=-1, validate_only=True)
        assert checked.error_code == 0
        assert "t" not in served.node.topics.by_name
        made = await create(served, "t", partitions=-1, replicas=-1)
        assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 4, 1)
        assert len(served.node.topics.named("t").partitions) == 4


async def test_pitfall_25_metadata_creates_where_node_and_client_allow_it() -> None:
    async with serving(NodeSettings(num_partitions=4)) as served:
        await metadata(served, "t", auto_create=True)
        (topic,) = (await metadata(served, "t")).topics
        assert (topic.error_code, len(topic.partitions)) == (0, 4)
        (other,) = (await metadata(served, "other", auto_create=False)).topics
        assert other.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "other" not in served.node.topics.by_name


async def test_pitfall_25_an_unknown_or_impossible_topic_is_listed_with_its_error(
    served: Served,
) -> None:
    await served.create("t")
    found = (await metadata(served, "missing", "t", "no good", auto_create=False)).topics
    assert {one.name: one.error_code for one in found} == {
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "t": 0,
        "no good": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


async def test_pitfall_25_null_is_all_topics_and_empty_is_none(served: Served) -> None:
    await served.create("t")
    for version in (1, 5, 12):
        everything = await served.call(MetadataRequest(topics=None), version)
        assert [one.name for one in everything.topics] == ["t"]
        assert (await served.call(MetadataRequest(topics=[]), version)).topics == []


async def test_pitfall_25_operations_that_nobody_asked_for_are_the_least_number(
    served: Served,
) -> None:
    await served.create("t")
    response = await metadata(served, "t", version=8)
    assert response.cluster_authorized_operations == -(2**31)
    assert response.topics[0].topic_authorized_operations == -(2**31)


async def test_pitfall_25_the_address_is_the_one_that_the_client_reached(served: Served) -> None:
    (broker,) = (await metadata(served)).brokers
    assert (broker.host, broker.port) == (served.peer.local_host, served.peer.local_port)
