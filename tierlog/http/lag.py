"""`/lag`: how far behind the groups are, as JSON; `/lag?group=NAME` with every partition of one.

Groups come by name, some at a time: `next_after` goes on with `?after=NAME`. The numbers are of one
round of `groups.lagwatch`, at most some seconds old; `at_ms` says of when. docs/lag.md says what
they mean. Null is "not known", or "never": the `is_..._known` beside it says which.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from tierlog.groups.lag import GroupLag, PartitionLag, Trend
from tierlog.groups.lagwatch import lag_of
from tierlog.http.message import Request, Response
from tierlog.http.problem import Problem

if TYPE_CHECKING:
    from tierlog.groups.lagwatch import Round
    from tierlog.http.view import NodeView

GROUPS_MAX: Final = 1000
"""Of one answer: some 10 ms."""


class Lag:
    def __init__(self, view: NodeView) -> None:
        self._view = view

    async def handle(self, request: Request) -> Response:
        watch = lag_of(self._view.node)
        if watch is None:
            raise Problem(503, "the node is starting; ask again")
        found = await watch.fresh()
        name = request.query.get("group")
        body = many(found, request.query.get("after")) if name is None else one(found, name)
        # Whoever takes it beside what a broker says can see whether both speak of one cluster.
        body = {"cluster_id": self._view.node.cluster_id, **body}
        return Response(body=json.dumps(body).encode() + b"\n", content_type="application/json")


def one(found: Round, name: str) -> dict[str, Any]:
    lag = found.groups.get(name)
    if lag is None and found.loading:
        raise Problem(
            503,
            f"{found.loading} shards of the group state are still loading, and group "
            f"{name[:250]!r} may be in one of them; ask again",
            members={"group": name[:250]},
        )
    if lag is None:
        raise Problem(
            404,
            f"no group {name[:250]!r} has committed an offset in a topic that is there",
            members={"group": name[:250]},
        )
    rows = [partition_value(each) for each in lag.partitions]
    return {"at_ms": found.at_ms, **group_value(lag), "partitions": rows}


def many(found: Round, after: str | None) -> dict[str, Any]:
    names = sorted(name for name in found.groups if after is None or name > after)
    told = names[:GROUPS_MAX]
    return {
        "at_ms": found.at_ms,
        "group_count": len(found.groups),
        "shards_loading": found.loading,
        "groups": [group_value(found.groups[name]) for name in told],
        "next_after": told[-1] if len(names) > len(told) else None,
    }


def group_value(lag: GroupLag) -> dict[str, Any]:
    """Without its partitions."""
    value = {
        name: getattr(lag, name) for name in GroupLag.__dataclass_fields__ if name != "partitions"
    }
    return rounded(value)


def partition_value(lag: PartitionLag) -> dict[str, Any]:
    return rounded(asdict(lag))


def rounded(value: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(each) for name, each in value.items()}


def _plain(value: object) -> object:
    if isinstance(value, Trend):
        return value.value
    return round(value, 3) if isinstance(value, float) else value
