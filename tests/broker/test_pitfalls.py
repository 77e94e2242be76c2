"""The traps of the Kafka protocol that others fell into, each by its number and by name.

The numbers are those of our notes on the protocol. What belongs to groups and transactions (6, 8,
15-18, 21, 22 and most of 19) is tested where these live, what belongs to tiering (14) in
`test_cold_fetch`.
"""

import asyncio
import struct
from typing import Any

import pytest

from tests.broker.asks import (
    NO_ID,
    batch_of,
    create,
    delete,
    fetch,
    fetch_all,
    fetch_topic,
    metadata,
    offset_at,
    offsets_in,
    produce,
)
from tests.broker.support import Served, serving
from tierlog.broker.request import CloseConnection
from tierlog.server import served_apis
from tierlog.sim.disk import SimDisk
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.header import decode_response
from tierlog.wire.messages import offset_for_leader_epoch as epochs
from tierlog.wire.messages.api_versions import ApiVersionsRequest
from tierlog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)

SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}
TOPIC, BROKER = 2, 4


def raw(served: Served, api: ApiKey, version: int, body: bytes = b"") -> bytes:
    """The frame that answers a hand-made one at once."""
    frame = struct.pack(">hhih", api, version, 77, -1) + body
    answer = served.handle(memoryview(bytearray(frame)))
    assert isinstance(answer, list)
    return b"".join(answer)[4:]


async def ranges(served: Served) -> dict[int, tuple[int, int]]:
    response = await served.call(ApiVersionsRequest(**SOFTWARE), 3)
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


# 1-5, 7: meeting the node


async def test_pitfall_01_an_unknown_version_of_api_versions_gets_a_version_0_answer(
    served: Served,
) -> None:
    told, response = decode_response(
        ApiKey.API_VERSIONS, 0, raw(served, ApiKey.API_VERSIONS, 99, b"from the future")
    )
    assert told == 77
    body: Any = response
    assert body.error_code == ErrorCode.UNSUPPORTED_VERSION
    found = {row.api_key: (row.min_version, row.max_version) for row in body.api_keys}
    assert found[ApiKey.API_VERSIONS] == (0, 4)


@pytest.mark.parametrize("version", [3, 4])
async def test_pitfall_01_its_response_header_has_no_tags_in_any_version(
    served: Served, version: int
) -> None:
    flexible_body = b"\0" + b"\5test" + b"\2" + b"1" + b"\0"
    frame = raw(served, ApiKey.API_VERSIONS, version, flexible_body)
    # Correlation id, error code, and at once the compact array: no tag section in between.
    assert struct.unpack_from(">ih", frame) == (77, 0)
    assert frame[6] == len(await ranges(served)) + 1


async def test_pitfall_02_produce_is_shown_from_version_0_and_refused_below_3(
    served: Served,
) -> None:
    assert (await ranges(served))[ApiKey.PRODUCE] == (0, 13)
    for version in (0, 1, 2):
        with pytest.raises(CloseConnection):
            raw(served, ApiKey.PRODUCE, version)


@pytest.mark.parametrize(("name", "software_version"), [("bad name", "1"), ("ok", "1 2"), ("", "")])
async def test_pitfall_03_a_bad_software_name_is_invalid_and_version_0_still_works(
    served: Served, name: str, software_version: str
) -> None:
    request = ApiVersionsRequest(
        client_software_name=name, client_software_version=software_version
    )
    assert (await served.call(request, 3)).error_code == ErrorCode.INVALID_REQUEST
    fallback = await served.call(ApiVersionsRequest(), 0)
    assert fallback.error_code == 0
    assert fallback.api_keys


def test_pitfall_04_the_ranges_that_features_are_inferred_from_are_there() -> None:
    found = {
        one.api_key: (one.min_version, one.max_version) for one in served_apis().api_versions()
    }
    needed = {
        ApiKey.FIND_COORDINATOR: 0,  # lz4, says librdkafka
        ApiKey.PRODUCE: 7,  # zstd
        ApiKey.FETCH: 10,  # zstd, reading
        ApiKey.INIT_PRODUCER_ID: 0,  # idempotence
        ApiKey.LIST_OFFSETS: 1,  # offsets for times
        ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,  # truncation detection
    }
    for api, version in needed.items():
        low, high = found[api]
        assert low <= version <= high, api.name


async def test_pitfall_05_topic_ids_are_stable_and_never_zero(served: Served) -> None:
    await create(served, "t")
    first, second = [(await metadata(served, "t", version=v)).topics[0] for v in (10, 13)]
    assert first.topic_id == second.topic_id != NO_ID


async def test_pitfall_05_after_a_recreation_the_old_id_is_unknown_and_the_name_is_not(
    served: Served,
) -> None:
    old = (await create(served, "t")).topic_id
    await delete(served, "t")
    new = (await create(served, "t")).topic_id
    assert new != old
    batch = batch_of(served, b"v")
    stale = await produce(served, "t", batch, version=13, topic_id=old)
    assert stale.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    for version in (13, 18):
        stale = await fetch(served, fetch_topic("t", topic_id=old), version=version)
        assert stale.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await produce(served, "t", batch, version=13, topic_id=new)).base_offset == 0
    assert (await produce(served, "t", batch, version=12)).base_offset == 1
    found = await fetch(served, fetch_topic("t", topic_id=new), version=13)
    assert offsets_in(found.records) == [0, 1]


async def test_pitfall_05_a_name_that_is_gone_is_an_unknown_topic(served: Served) -> None:
    await create(served, "t")
    await delete(served, "t")
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await produce(served, "t", batch_of(served, b"v"))).error_code == gone
    assert (await fetch(served, fetch_topic("t"))).error_code == gone


async def test_pitfall_07_lists_are_empty_where_java_cannot_bear_null(served: Served) -> None:
    for version in (5, 7):
        made = await create(served, f"t{version}", version=version)
        assert made.configs is not None
        checked = await create(served, "u", version=version, validate_only=True)
        assert checked.configs is not None
        refused = await create(served, f"t{version}", version=version)
        assert refused.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert refused.configs is not None
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t7")])
    (partition,) = (await served.call(request, 0)).topics[0].partitions
    assert partition.eligible_leader_replicas == []
    assert partition.last_known_elr == []


# 9-13: reading


async def test_pitfall_09_sessions_are_declined_so_every_fetch_is_a_full_one(
    served: Served,
) -> None:
    await served.create("t", partitions=2)
    for session in ((0, 0), (0, -1), (0, 0)):
        response = await fetch_all(served, fetch_topic("t", 0, 1), session=session)
        assert (response.error_code, response.session_id) == (0, 0)
        assert [one.partition_index for one in response.responses[0].partitions] == [0, 1]
    stale = await fetch_all(served, session=(4711, 3))
    assert stale.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_pitfall_10_an_offset_inside_a_batch_brings_the_whole_batch(served: Served) -> None:
    await served.create("t")
    await produce(served, "t", batch_of(served, b"a", b"b", b"c"))
    await produce(served, "t", batch_of(served, b"d"))
    found = await fetch(served, fetch_topic("t", offset=2))
    assert offsets_in(found.records) == [0, 1, 2, 3]


async def test_pitfall_11_the_first_batch_is_whole_and_the_others_wait(served: Served) -> None:
    await served.create("t", partitions=3)
    for partition in (1, 2):
        await served.fill("t", 3, partition=partition)
    response = await fetch_all(served, fetch_topic("t", 0, 2, 1, bytes_max=1), max_bytes=1)
    found = [
        (one.partition_index, offsets_in(one.records)) for one in response.responses[0].partitions
    ]
    assert found == [(0, []), (2, [0]), (1, [])]


async def test_pitfall_11_no_batch_is_ever_cut(served: Served) -> None:
    await served.create("t")
    await served.fill("t", 4)
    whole = await fetch(served, fetch_topic("t"))
    size = len(whole.records)
    for limit in range(0, size + 2, 7):
        found = await fetch(served, fetch_topic("t", bytes_max=limit))
        expected = max(1, limit // (size // 4))
        assert offsets_in(found.records) == list(range(min(expected, 4)))


async def test_pitfall_11_min_bytes_and_max_wait_are_a_long_poll(served: Served) -> None:
    await served.create("t")
    waiting = asyncio.ensure_future(fetch(served, fetch_topic("t"), wait_ms=60_000))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    await served.fill("t", 1)
    assert offsets_in((await waiting).records) == [0]
    late = await fetch(served, fetch_topic("t"), wait_ms=1, min_bytes=1 << 20)
    assert offsets_in(late.records) == [0]


async def epoch_end(served: Served, epoch: int, *, current: int = -1) -> tuple[int, int, int]:
    asked = epochs.OffsetForLeaderPartition(
        partition=0, current_leader_epoch=current, leader_epoch=epoch
    )
    topic = epochs.OffsetForLeaderTopic(topic="t", partitions=[asked])
    response = await served.call(epochs.OffsetForLeaderEpochRequest(topics=[topic]), 4)
    found = response.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


async def test_pitfall_12_the_leader_epoch_of_a_reader_is_checked() -> None:
    disk = SimDisk()
    async with serving(disk=disk) as served:
        await served.create("t")
        await served.fill("t", 2)
    async with serving(disk=disk) as served:  # every start takes the next epoch
        await served.fill("t", 1)
        epoch = (await metadata(served, "t")).topics[0].partitions[0].leader_epoch
        fenced, unknown = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
        for given, code in ((epoch, 0), (-1, 0), (epoch - 1, fenced), (epoch + 1, unknown)):
            assert (await fetch(served, fetch_topic("t", epoch=given))).error_code == code
            assert (await offset_at(served, "t", -1, epoch=given)).error_code == code
            assert (await epoch_end(served, epoch, current=given))[0] == code


async def test_pitfall_12_the_end_of_an_epoch_is_the_truth() -> None:
    disk = SimDisk()
    async with serving(disk=disk) as served:
        await served.create("t")
        await served.fill("t", 2)
        first = (await metadata(served, "t")).topics[0].partitions[0].leader_epoch
    async with serving(disk=disk) as served:
        await served.fill("t", 1)
        assert await epoch_end(served, first) == (0, first, 2)
        assert await epoch_end(served, first + 1) == (0, first + 1, 3)
        assert await epoch_end(served, first + 2) == (0, -1, -1)


async def test_pitfall_13_a_time_is_that_of_a_record_and_a_miss_is_no_error(
    served: Served,
) -> None:
    await served.create("t")
    now = served.node.now_ms()
    await produce(served, "t", batch_of(served, b"a", b"b", b"c", at_ms=now - 1000))
    await produce(served, "t", batch_of(served, b"d", at_ms=now - 5000))
    latest, earliest, max_timestamp, earliest_local, last_tiered = -1, -2, -3, -4, -5
    expected = {
        latest: 4,
        earliest: 0,
        max_timestamp: 2,
        earliest_local: 0,
        last_tiered: -1,
        now - 6000: 0,
        now - 999: 1,  # inside the batch, not its base
        now - 997: -1,
    }
    for timestamp, offset in expected.items():
        found = await offset_at(served, "t", timestamp)
        assert (found.error_code, found.offset) == (0, offset), timestamp
