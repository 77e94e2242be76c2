"""A listening port of the simulated network."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tierlog.sim.network import SimNetwork


class ListeningSocket:
    """Just enough of a socket to tell the port that was bound."""

    __slots__ = ("_address",)

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)

    def getsockname(self) -> tuple[str, int]:
        return self._address


class SimServer(asyncio.AbstractServer):
    """Accepts in the context of the process that asked for it. Closing leaves connections be."""

    def __init__(
        self,
        network: "SimNetwork",
        factory: Callable[[], asyncio.BaseProtocol],
        *,
        context: contextvars.Context,
        host: str,
        port: int,
    ) -> None:
        self.factory = factory
        self.context = context
        self.host = host
        self.port = port
        self._network = network
        self._serving = True
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def sockets(self) -> tuple[ListeningSocket, ...]:
        return (ListeningSocket(self.host, self.port),) if self._serving else ()

    def close(self) -> None:
        self._serving = False
        self._network.closed(self)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def is_serving(self) -> bool:
        return self._serving

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def start_serving(self) -> None:
        """Serves from the start."""

    async def serve_forever(self) -> None:
        try:
            await self.wait_closed()
        finally:
            self.close()

    async def wait_closed(self) -> None:
        if self._serving:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
