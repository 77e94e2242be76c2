"""The handlers that fit on a page: ApiVersions, FindCoordinator, InitProducerId, epochs."""

import asyncio
import struct

import pytest

from tests.broker.support import Served, serving
from tierlog.broker.handlers import MODULES
from tierlog.broker.request import CloseConnection
from tierlog.types import LeaderEpoch
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.header import decode_response
from tierlog.wire.messages.api_versions import ApiVersionsRequest
from tierlog.wire.messages.init_producer_id import InitProducerIdRequest
from tierlog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_tells_what_is_registered(served: Served, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    response = await served.call(request, version)
    told = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
    served_here = {int(module.API): module.VERSIONS for module in MODULES}
    served_here[ApiKey.PRODUCE] = (0, served_here[ApiKey.PRODUCE][1])
    assert told == served_here


@pytest.mark.parametrize("name", ["", "a b", "-a", "a-", "x" * 300, "ä"])
async def test_software_names_are_checked(served: Served, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    response = await served.call(request, 3)
    assert response.error_code == ErrorCode.INVALID_REQUEST


async def test_the_software_of_a_client_is_remembered(served: Served) -> None:
    request = ApiVersionsRequest(client_software_name="librd-kafka", client_software_version="2.1")
    await served.call(request, 4)
    assert served.peer.client_software == "librd-kafka 2.1"


def test_api_versions_beyond_ours_is_answered_in_version_0() -> None:
    async def run() -> None:
        async with serving() as served:
            frame = struct.pack(">hhih", 18, 77, 5, -1) + b"whatever"
            answer = served.handle(memoryview(bytearray(frame)))
            assert isinstance(answer, list)
            told, response = decode_response(ApiKey.API_VERSIONS, 0, b"".join(answer)[4:])
            assert told == 5
            assert response.error_code == ErrorCode.UNSUPPORTED_VERSION  # type: ignore[attr-defined]
            rows = response.api_keys  # type: ignore[attr-defined]
            assert [(row.api_key, row.max_version) for row in rows] == [(18, 4)]

    asyncio.run(run())


@pytest.mark.parametrize("key", [-1, 4, 11, 68, 999])
async def test_what_is_not_served_ends_the_connection(served: Served, key: int) -> None:
    frame = struct.pack(">hhih", key, 0, 5, -1)
    with pytest.raises(CloseConnection, match="not served"):
        served.handle(memoryview(bytearray(frame)))


@pytest.mark.parametrize("version", range(6))
async def test_producer_ids_are_given_out_once(served: Served, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    ids = [(await served.call(request, version)).producer_id for _ in range(3)]
    assert len(set(ids)) == 3
    assert all(one >> 40 == 1 for one in ids), "the incarnation is in the upper bits"


async def test_producer_ids_are_not_repeated_by_the_next_life() -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    ids: list[int] = []
    disk = None
    for _ in range(3):
        async with serving(disk=disk) as served:
            ids += [(await served.call(request, 5)).producer_id for _ in range(2)]
        disk = served.disk
    assert len(set(ids)) == 6


async def test_two_who_ask_at_once_get_different_ids(served: Served) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    answers = await asyncio.gather(*(served.call(request, 5) for _ in range(20)))
    assert len({one.producer_id for one in answers}) == 20


async def test_transactional_ids_wait_for_transactions(served: Served) -> None:
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
    response = await served.call(request, 5)
    assert response.error_code != 0
    assert not ErrorCode(response.error_code).retriable  # type: ignore[call-arg]
    assert response.producer_id == -1


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_the_end_of_a_leader_epoch_is_where_the_next_began(
    served: Served, version: int
) -> None:
    topic = await served.create("t")
    partition = topic.partition(0)
    await served.fill("t", 3)
    partition.leader_epoch = LeaderEpoch(5)
    await served.fill("t", 2)

    async def end_of(epoch: int, current: int = -1) -> tuple[int, int, int]:
        wanted = OffsetForLeaderPartition(
            partition=0, current_leader_epoch=current, leader_epoch=epoch
        )
        request = OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])]
        )
        (found,) = (await served.call(request, version)).topics[0].partitions
        return found.error_code, found.leader_epoch, found.end_offset

    assert await end_of(0) == (0, 0, 3)
    assert await end_of(3) == (0, 0, 3)
    assert await end_of(5) == (0, 5, 5)
    assert await end_of(6) == (0, -1, -1)
    assert await end_of(5, current=4) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert await end_of(5, current=6) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
