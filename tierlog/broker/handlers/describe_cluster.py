"""DescribeCluster, v0-v2. v1 says which kind of endpoint is meant (KIP-919); v2 may list fenced
brokers, of which there are none.

This node is the cluster, its controller included. It listens for clients only: whoever looks for
the endpoints of controllers is told that this is not one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.broker import operations
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.DESCRIBE_CLUSTER
VERSIONS: Final = (0, 2)
BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return refused(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is the endpoint of a broker", request
        )
    if request.endpoint_type != BROKERS:
        return refused(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"endpoints of type {request.endpoint_type} are not known: 1 is brokers, "
            "2 is controllers",
            request,
        )
    node = call.node
    host, port = node.address_for(call.peer)
    asks_operations = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        endpoint_type=BROKERS,
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        brokers=[DescribeClusterBroker(broker_id=node.node_id, host=host, port=port)],
        cluster_authorized_operations=(
            operations.ON_CLUSTER if asks_operations else operations.NOT_ASKED
        ),
    )


def refused(
    code: ErrorCode, sentence: str, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=code,
        error_message=sentence,
        endpoint_type=request.endpoint_type,
        cluster_id="",
        brokers=[],
    )
