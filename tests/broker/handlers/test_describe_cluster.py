"""DescribeCluster on the wire."""

import pytest

from tests.broker.support import Served, serving
from tierlog.config import NodeSettings
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.describe_cluster import DescribeClusterRequest

VERSIONS = range(3)
NOT_ASKED = -2147483648


def request(*, operations: bool = False, endpoint_type: int = 1) -> DescribeClusterRequest:
    return DescribeClusterRequest(
        include_cluster_authorized_operations=operations, endpoint_type=endpoint_type
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_tells_the_one_node_at_the_address_that_the_client_used(
    served: Served, version: int
) -> None:
    found = await served.call(request(), version)
    assert (found.error_code, found.error_message, found.endpoint_type) == (0, None, 1)
    assert found.cluster_id == served.node.cluster_id != ""
    assert found.controller_id == 1
    assert [(one.broker_id, one.host, one.port, one.rack) for one in found.brokers] == [
        (1, "10.0.0.1", 9092, None)
    ]
    assert not found.brokers[0].is_fenced


async def test_an_advertised_address_is_told_instead() -> None:
    async with serving(NodeSettings(node_id=3, advertise="192.0.2.7:9999")) as served:
        (broker,) = (await served.call(request(), 2)).brokers
        assert (broker.broker_id, broker.host, broker.port) == (3, "192.0.2.7", 9999)


async def test_the_cluster_keeps_its_id_over_a_restart() -> None:
    async with serving() as served:
        first = (await served.call(request(), 2)).cluster_id
    async with serving(disk=served.disk) as served:
        assert (await served.call(request(), 2)).cluster_id == first


@pytest.mark.parametrize("version", VERSIONS)
async def test_pitfall_25_authorized_operations_are_told_only_when_asked_for(
    served: Served, version: int
) -> None:
    silent = await served.call(request(), version)
    assert silent.cluster_authorized_operations == NOT_ASKED
    told = (await served.call(request(operations=True), version)).cluster_authorized_operations
    # Create, alter, describe, cluster action, both configs, idempotent write.
    assert told == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_endpoints_of_another_kind_are_refused_with_a_sentence(
    served: Served, version: int, endpoint_type: int, code: ErrorCode
) -> None:
    found = await served.call(request(endpoint_type=endpoint_type), version)
    assert (found.error_code, found.brokers) == (code, [])
    assert found.error_message
