"""The simulated network: hosts by name, links between them, and what can go wrong there.

Gives the loop its `create_server` and `create_connection`. A server listens on the host of the
process that asked for it, whatever address it names; `localhost` leads back to the caller's own
host, any other name to the host of that name. A connection to a port where nobody listens is
refused; across a link that is down it hangs, and times out as TCP does.

A partition holds bytes back, both ways or one way, until `heal`; a reset breaks connections.
"""

import asyncio
import contextvars
import errno
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from tierlog.sim.life import current_host
from tierlog.sim.link import Link
from tierlog.sim.pipe import Pipe
from tierlog.sim.server import SimServer
from tierlog.sim.trace import Trace
from tierlog.sim.transport import SimTransport

CONNECT_SECONDS_MAX = 127.0
"""Linux gives up after six SYN retries: 1 + 2 + 4 + ... + 64 seconds."""

FIRST_EPHEMERAL_PORT = 32768

HERE = ("", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::")

ProtocolFactory: TypeAlias = Callable[[], asyncio.BaseProtocol]


class SimNetwork:
    """Everything between the hosts."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random, trace: Trace) -> None:
        self._loop = loop
        self._rng = rng
        self._trace = trace
        self._links: dict[tuple[str, str], Link] = {}
        self._servers: dict[tuple[str, int], SimServer] = {}
        self._ends: list[SimTransport] = []
        self._next_port = FIRST_EPHEMERAL_PORT

    # What can go wrong

    def link(self, source: str, target: str) -> Link:
        """The way from `source` to `target`; its `delay` may be set."""
        if (source, target) not in self._links:
            self._links[source, target] = Link(
                self._loop, self._rng, self._trace, source=source, target=target
            )
        return self._links[source, target]

    def set_delay(self, one: str, other: str, *, low: float, high: float) -> None:
        """Seconds that a packet takes, drawn anew for each, both ways."""
        self.link(one, other).delay = self.link(other, one).delay = (low, high)

    def partition(self, one: str, other: str) -> None:
        """Nothing passes between the two: connections hang, new ones do not come about."""
        self.link(one, other).block()
        self.link(other, one).block()

    def lose_one_way(self, source: str, target: str) -> None:
        """Nothing passes from `source` to `target`; the other direction works."""
        self.link(source, target).block()

    def heal(self, *hosts: str) -> None:
        """Every link, or every link between these hosts, works again; held bytes arrive."""
        for (source, target), link in self._links.items():
            if not hosts or {source, target} <= set(hosts):
                link.heal()

    def reset(self, one: str, other: str) -> int:
        """Break every connection between the two for both ends; tells how many."""
        ends = [end for end in self._live_ends() if {end.host, end.peer_host} == {one, other}]
        for end in ends:
            self._trace.fold(f"reset {end.host} {end.peer_host}")
            end.reset()
        return len(ends) // 2

    def end_host(self, host: str, *, silently: bool) -> None:
        """The process on the host is dead. Its kernel closes the connections for it, unless the
        machine died with it: then the peers hear nothing until they send something."""
        for server in [each for each in self._servers.values() if each.host == host]:
            server.close()
        for end in [each for each in self._live_ends() if each.host == host]:
            unread = end.unread_bytes
            end.vanish()
            if not silently and (unread or self._rng.random() < 0.5):
                end.outgoing.send_reset()
            elif not silently:
                end.outgoing.finish()

    # What the loop asks for

    async def connect(
        self, factory: ProtocolFactory, *, source: str | None, host: str, port: int
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        source = source or current_host()
        target = source if host in HERE else host
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await self.link(source, target).pass_one()
                await self.link(target, source).pass_one()
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, f"connect to {target}:{port} timed out") from None
        server = self._servers.get((target, port))
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {target}:{port}")
        self._trace.fold(f"{source}>{target}:{port} connected")
        return self._join(factory, server, source=(source, self._take_port()))

    def _join(
        self, factory: ProtocolFactory, server: SimServer, *, source: tuple[str, int]
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        target = (server.host, server.port)
        client = self._end(contextvars.copy_context(), sockname=source, peername=target)
        accepted = self._end(server.context, sockname=target, peername=source)
        client.outgoing = accepted.incoming = self._pipe(client, accepted)
        accepted.outgoing = client.incoming = self._pipe(accepted, client)
        self._loop.call_soon(accepted.open, server.factory, context=server.context)
        return client, client.open(factory)

    def _end(
        self,
        context: contextvars.Context,
        *,
        sockname: tuple[str, int],
        peername: tuple[str, int],
    ) -> SimTransport:
        end = SimTransport(
            self._loop, self._rng, context=context, sockname=sockname, peername=peername
        )
        self._ends.append(end)
        return end

    def _pipe(self, sender: SimTransport, receiver: SimTransport) -> Pipe:
        link = self.link(sender.host, receiver.host)
        return Pipe(self._loop, self._rng, link, sender=sender, receiver=receiver)

    def _live_ends(self) -> list[SimTransport]:
        self._ends = [end for end in self._ends if not end.gone]
        return self._ends

    def listen(self, factory: ProtocolFactory, *, port: int) -> SimServer:
        host = current_host()
        port = port or self._take_port()
        if (host, port) in self._servers:
            raise OSError(errno.EADDRINUSE, f"port {port} of {host} is in use")
        server = SimServer(self, factory, context=contextvars.copy_context(), host=host, port=port)
        self._servers[host, port] = server
        return server

    def closed(self, server: SimServer) -> None:
        if self._servers.get((server.host, server.port)) is server:
            del self._servers[server.host, server.port]

    def _take_port(self) -> int:
        self._next_port += 1
        return self._next_port
