"""What a node has asked of its store since it started, and for whom.

Readers are known by the client id of their requests. Where a consumer group has a member with that
id at present, the group is the reader; else the client is.
"""

from http import HTTPStatus
from typing import Any

from cost_model.asked import Asked, Reader
from tierlog.cli.asking import address_of, ask, no_node, parsed
from tierlog.cli.failure import Refused
from tierlog.cli.session import with_client
from tierlog.client import BrokerError, Client, ClientError
from tierlog.client.router import call
from tierlog.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tierlog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

WRITES = ("put", "part", "copy")
READS = ("get", "head")


def asked_of(place: str, *, cluster_id: str) -> Asked:
    """Raises `Refused` where no node answers, or one of another cluster."""
    address = address_of(place)
    status, text = ask(address, "/state")
    state = parsed(text)
    if status != HTTPStatus.OK or state is None or "tier" not in state:
        raise no_node(address)
    if state["cluster_id"] != cluster_id:
        raise Refused(
            f"the node at {address} is of cluster {state['cluster_id']}, the bucket of {cluster_id}"
        )
    if state["tier"] is None:
        raise Refused(f"the node at {address} has no store")
    return of_state(state, groups_at(state["addresses"].get("kafka")))


def of_state(state: dict[str, Any], groups: dict[str, str]) -> Asked:
    kinds, tier = state["tier"]["requests"], state["tier"]

    def total(names: tuple[str, ...], figure: str) -> int:
        return sum(int(kinds.get(name, {}).get(figure, 0)) for name in names)

    return Asked(
        since_s=state["uptime_s"],
        puts=total(WRITES, "requests"),
        put_bytes=total(WRITES, "bytes"),
        gets=total(READS, "requests"),
        get_bytes=total(READS, "bytes"),
        lists=total(("list",), "requests"),
        deletes=total(("delete",), "requests"),
        readers=tuple(_readers(tier["clients"], groups)),
        produced={one["name"]: one["produced_bytes"] for one in state["topics"]},
    )


def _readers(clients: list[dict[str, Any]], groups: dict[str, str]) -> list[Reader]:
    sums: dict[str, list[int]] = {}
    for each in clients:
        client = each["client"]
        name = f"group {groups[client]}" if client in groups else f"client {client}"
        so_far = sums.setdefault(name, [0, 0, 0])
        for at, figure in enumerate(("gets", "get_bytes", "read_bytes")):
            so_far[at] += each[figure]
    return [
        Reader(name=name, gets=gets, get_bytes=get_bytes, read_bytes=read_bytes)
        for name, (gets, get_bytes, read_bytes) in sums.items()
    ]


def groups_at(kafka: str | None) -> dict[str, str]:
    """By client id. A client id that several groups use stands for none of them."""
    if kafka is None:
        return {}
    try:
        return with_client(kafka, _groups)
    except (Refused, ClientError, BrokerError):
        return {}  # The addresses may be of another network; clients are named as they are.


async def _groups(client: Client) -> dict[str, str]:
    connection = await client.router.any_connection()
    listed = await call(connection, ListGroupsRequest(), ListGroupsResponse)
    request = DescribeGroupsRequest(groups=[one.group_id for one in listed.groups])
    described = await call(connection, request, DescribeGroupsResponse)
    found: dict[str, set[str]] = {}
    for group in described.groups:
        for member in group.members:
            found.setdefault(member.client_id, set()).add(group.group_id)
    return {client_id: min(names) for client_id, names in found.items() if len(names) == 1}
