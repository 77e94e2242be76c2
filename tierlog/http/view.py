"""The node as the HTTP side sees it: one place to ask, nothing copied.

Whoever runs the node makes the view and keeps `phase` and the addresses true; the routes only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.http.health import Phase

if TYPE_CHECKING:
    from tierlog.broker.listener import Listener
    from tierlog.broker.node import Node
    from tierlog.broker.tiering import Tiering
    from tierlog.objectstore.counted import StoreStats
    from tierlog.objectstore.retrying import RetryQuota


class NodeView:
    def __init__(self, node: Node, *, version: str, listener: Listener | None = None) -> None:
        self.node = node
        self.version = version
        self.listener = listener
        """Set as soon as there is one; before that there are no connections."""
        self.phase = Phase.STARTING
        self.addresses: dict[str, str] = {}
        """Where the node listens, by the name of the protocol."""
        self.store = ""
        """URL of the object store."""
        self.store_stats: StoreStats | None = None
        """What was asked of it; None without one."""
        self.retry_quota: RetryQuota | None = None
        """Of repetitions; None without a store."""
        self._began_s = node.env.clock.monotonic()

    @property
    def uptime_s(self) -> float:
        return self.node.env.clock.monotonic() - self._began_s

    @property
    def tiering(self) -> Tiering | None:
        """None without a store, and before the node has got that far."""
        return self.node.tiering

    @property
    def store_trouble(self) -> str | None:
        """What is wrong with the cold tier, if anything. The node serves all the same."""
        tiering = self.node.tiering
        if tiering is None:
            return None
        if (why := tiering.tier.refusal) is not None:
            return f"nothing is uploaded any more: {why}"
        if (error := tiering.tier.last_error) is not None:
            return f"uploads wait: {error}"
        return None if tiering.tier.is_ready else "uploads wait: the store has not answered yet"

    @property
    def fault(self) -> str | None:
        """Why the node cannot go on, if it cannot."""
        broken = self.node.broken
        if broken.done():
            return str(broken.result())
        latched = self.node.directory.broken
        return None if latched is None else str(latched)
