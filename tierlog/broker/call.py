"""One request on its way through the node, and what a handler may know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tierlog.broker.node import Node
    from tierlog.broker.request import Peer


class Call:
    """Who asks, for what, under which id. Made once a request: slots, and a plain constructor."""

    __slots__ = (
        "api_key",
        "client_id",
        "correlation_id",
        "node",
        "peer",
        "unfolding_since_s",
        "version",
    )

    def __init__(
        self,
        node: Node,
        peer: Peer,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.node = node
        self.peer = peer
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.unfolding_since_s: float | None = None
        """When a produce began to take batches apart."""
