"""What a node has asked of its store since it started, and for whom.

A reader is a consumer group, where the node knows for which one a client reads; else the client id.
"""

from http import HTTPStatus
from typing import Any

from cost_model.asked import Asked, Reader
from tierlog.cli.asking import address_of, ask, no_node, parsed
from tierlog.cli.failure import Refused

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
    return of_state(state)


def of_state(state: dict[str, Any]) -> Asked:
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
        readers=tuple(_readers(tier["clients"])),
        produced={one["name"]: one["produced_bytes"] for one in state["topics"]},
    )


def _readers(clients: list[dict[str, Any]]) -> list[Reader]:
    sums: dict[str, list[int]] = {}
    for each in clients:
        group = each.get("group")
        name = f"group {group}" if group else f"client {each['client']}"
        so_far = sums.setdefault(name, [0, 0, 0])
        for at, figure in enumerate(("gets", "get_bytes", "read_bytes")):
            so_far[at] += each[figure]
    return [
        Reader(name=name, gets=gets, get_bytes=get_bytes, read_bytes=read_bytes)
        for name, (gets, get_bytes, read_bytes) in sums.items()
    ]
