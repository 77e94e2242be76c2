"""What a node serves by HTTP. Other rooms add their routes to the same router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.http.explain import PREFIX, Explain
from tierlog.http.exposition import Exposition
from tierlog.http.health import Health
from tierlog.http.holds import HoldsRoute
from tierlog.http.lag import Lag
from tierlog.http.prewarm import PrewarmRoute
from tierlog.http.router import Router
from tierlog.http.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client.registry import Collector

    from tierlog.http.view import NodeView


def node_router(view: NodeView, *, collectors: Sequence[Collector] = ()) -> Router:
    """`collectors` are exposed beside the node's own families: those of the process, say."""
    router = Router()
    health = Health(view)
    router.add("GET", "/healthz", health.healthz)
    router.add("GET", "/readyz", health.readyz)
    router.add("GET", "/state", State(view).handle)
    router.add("GET", PREFIX, Explain(view).handle)
    router.add("GET", "/lag", Lag(view).handle)
    router.add("GET", "/metrics", Exposition(view, collectors).handle)
    prewarm = PrewarmRoute(view)
    router.add("GET", "/prewarm", prewarm.show)
    router.add("POST", "/prewarm", prewarm.begin)
    router.add("DELETE", "/prewarm", prewarm.end)
    holds = HoldsRoute(view)
    router.add("GET", "/holds", holds.show)
    router.add("POST", "/holds", holds.place)
    router.add("DELETE", "/holds", holds.release)
    return router
