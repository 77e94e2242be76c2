"""What passes between a connection and the service behind it.

A connection hands over one frame at a time and takes back an answer: parts now, parts later, or
nothing. It keeps the answers in the order of the requests, whatever finishes first.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tierlog.errors import TierlogError
from tierlog.types import Bytes

if TYPE_CHECKING:
    from tierlog.broker.fetchroute import FetchRoute
    from tierlog.broker.route import Route
    from tierlog.wire.fetchopening import FetchOpenings
    from tierlog.wire.opening import ProduceOpenings


@dataclass(slots=True, kw_only=True, eq=False)
class Peer:
    """Who is at the other end, and the address by which it reached this node."""

    host: str
    port: int
    local_host: str
    local_port: int
    connection_id: int
    client_software: str = ""
    """Name and version, once an ApiVersions request told them."""
    principal: str = "User:ANONYMOUS"
    openings: ProduceOpenings[Route] | None = None
    """What its Produce requests begin with, once there were some."""
    fetches: FetchOpenings[FetchRoute] | None = None
    """Its Fetch requests for one partition, once there were some."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (connection {self.connection_id})"


Parts: TypeAlias = list[Bytes]
"""A whole framed response, size prefix first, in pieces that need not be joined."""

Answer: TypeAlias = Parts | asyncio.Future[Parts | None] | None
"""None: the request has no response (acks=0). A future is cancelled when its peer goes away."""


class MayBlock(list[Bytes]):
    """Parts whose pages may have to come from the disk: they are never sent on the loop."""

    __slots__ = ()


class CloseConnection(TierlogError):
    """Nothing sensible can be answered, nor read after this: the connection ends here."""


class Service(Protocol):
    def handle(self, frame: memoryview, peer: Peer) -> Answer:
        """Answer one request. `frame` is what follows the size prefix, writable, and valid only
        during this call: the buffer behind it is used again. Raises `CloseConnection`."""
        ...
