"""Accepts connections, and looks after all of them together.

Knows how many there are and from where, closes those that are idle, stalled or never said
anything, and lets them finish when the node stops. One sweep a second serves them all: there is no
timer per connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from tierlog.broker.budget import Budget
from tierlog.broker.buffers import Buffers
from tierlog.broker.connection import Connection
from tierlog.broker.limits import ConnectionLimits
from tierlog.broker.request import CloseConnection, Peer, Service
from tierlog.broker.traffic import Traffic
from tierlog.wire.errors import BadFrame, WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.env import Env, Sender

log = logging.getLogger(__name__)

SWEEP_S: Final = 1.0
BACKLOG: Final = 1024
COMPLAIN_EVERY_S: Final = 60.0
"""For each address: a scanner, or a client that tries for ever, shall not fill the log."""
COMPLAINTS_MAX: Final = 1000
COMPLAINT_CHARS_MAX: Final = 500
"""A sentence may quote what the peer sent."""


class Listener:
    """See the module."""

    def __init__(
        self,
        service: Service,
        env: Env,
        limits: ConnectionLimits | None = None,
        traffic: Traffic | None = None,
        *,
        close_idle_files: Callable[[], bool] = lambda: False,
        finish_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """`close_idle_files` makes room when no more can be opened, and says whether it could;
        `finish_waiting` has requests answered that would wait for something to happen."""
        self.service = service
        self.limits = limits or ConnectionLimits()
        self.traffic = traffic or Traffic()
        self._senders = env.senders
        self._close_idle_files = close_idle_files
        self._finish_waiting = finish_waiting
        self.buffers = Buffers()
        self.budget = Budget(self.limits.node_bytes_max)
        self.now_s = env.clock.monotonic
        self._tasks = env.tasks
        self._server: asyncio.AbstractServer | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._connections: dict[Connection, str] = {}
        self._by_host: Counter[str] = Counter()
        self._last_id = 0
        self._complained_s: dict[str, float] = {}
        self._all_gone = asyncio.Event()

    # Start and stop

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address that was bound."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, backlog=BACKLOG, reuse_address=True
        )
        self._sweeper = self._tasks.spawn(self._sweep_forever(), name="sweep connections")
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def drain(self, timeout_s: float) -> None:
        """Take no more requests, answer those under way, close. What is not done in time is cut
        off."""
        self._stop_accepting()
        for connection in list(self._connections):
            if connection.is_waiting or connection.queued_bytes:
                connection.end()
            else:
                connection.abort()
        self._finish_waiting()
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait_until_all_gone()
        except TimeoutError:
            log.warning("%d connections did not finish in time", self.connections)
        self.close()
        await self._wait_until_all_gone()

    def close(self) -> None:
        """Stop at once."""
        self._stop_accepting()
        for connection in list(self._connections):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _wait_until_all_gone(self) -> None:
        while self._connections:
            self._all_gone.clear()
            await self._all_gone.wait()

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def in_flight_bytes(self) -> int:
        """Requests not answered and replies not sent, over all connections."""
        return self.budget.used

    @property
    def queued_bytes(self) -> int:
        """Replies that the kernel has not taken yet. Looks at every connection."""
        return sum(connection.queued_bytes for connection in self._connections)

    @property
    def pending_requests(self) -> int:
        """Taken and not answered. Looks at every connection."""
        return sum(connection.pending_count for connection in self._connections)

    # What connections ask

    def admit(self, connection: Connection, transport: asyncio.Transport) -> Peer | None:
        """Count the connection in, or refuse it."""
        address = transport.get_extra_info("peername")
        local = transport.get_extra_info("sockname")
        if not address or not local:
            return None  # Gone before it was seen.
        peer = self._peer(address, local)
        if not self._has_place_for(peer):
            return None
        self.traffic.accepted += 1
        self.traffic.open_count += 1
        self._by_host[peer.host] += 1
        self._connections[connection] = peer.host
        return peer

    def attach(self, transport: asyncio.Transport, **told: Callable[..., None]) -> Sender:
        """A sender for the connection. Raises `OSError`: each takes an open file."""
        try:
            return self._senders.attach(transport, **told)
        except OSError:
            if not self._close_idle_files():
                raise
        return self._senders.attach(transport, **told)

    def turn_away(self, connection: Connection, error: OSError) -> None:
        """It was admitted, and cannot be served."""
        self.traffic.refused_no_files += 1
        self.complain(connection.peer, f"{error}; `ulimit -n` says how many files there may be")
        self.forget(connection)

    def forget(self, connection: Connection) -> None:
        host = self._connections.pop(connection)
        self.traffic.open_count -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        if not self._connections:
            self._all_gone.set()

    def note_refusal(self, peer: Peer, error: Exception) -> None:
        """Count and tell why a connection ends: for what its peer sent, or what we made of it."""
        if isinstance(error, BadFrame):
            self.traffic.closed_bad_frame += 1
            self.complain(peer, f"{error}{_advice(str(error))}")
        elif isinstance(error, WireError | CloseConnection):
            self.traffic.closed_by_service += 1
            self.traffic.parse_errors += isinstance(error, WireError)
            self.complain(peer, str(error))
        else:
            self.traffic.failed_requests += 1
            log.error("a request of %s failed; its connection ends", peer, exc_info=error)

    def complain(self, peer: Peer, sentence: str) -> None:
        """A line in the log, not too many for each address."""
        now = self.now_s()
        last = self._complained_s.get(peer.host)
        if last is not None and now - last < COMPLAIN_EVERY_S:
            return
        if len(self._complained_s) >= COMPLAINTS_MAX:
            self._complained_s.clear()
        self._complained_s[peer.host] = now
        # One line, whatever is quoted in it: nobody writes lines of their own into our log.
        plain = "".join(c if c.isprintable() else "?" for c in sentence[:COMPLAINT_CHARS_MAX])
        log.warning("closing the connection of %s: %s", peer, plain)

    def _peer(self, address: tuple[str, int], local: tuple[str, int]) -> Peer:
        self._last_id += 1
        return Peer(
            host=address[0],
            port=address[1],
            local_host=local[0],
            local_port=local[1],
            connection_id=self._last_id,
        )

    def _has_place_for(self, peer: Peer) -> bool:
        if len(self._connections) >= self.limits.connections_max:
            self.traffic.refused_node_full += 1
            count = len(self._connections)
            self.complain(peer, f"{count} are open, as many as max.connections or files allow")
            return False
        if self._by_host[peer.host] >= self.limits.connections_per_ip_max:
            self.traffic.refused_ip_full += 1
            self.complain(peer, "its address has as many open as max.connections.per.ip")
            return False
        return True

    # The sweep

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                self.sweep()
            except Exception:
                # Without the sweep the budget would jam; one bad look must not end it.
                log.exception("looking after the connections failed")

    def sweep(self) -> None:
        """Look at every connection once."""
        now = self.now_s()
        self.budget.tick()
        for connection in list(self._connections):
            self._look_at(connection, now)

    def _look_at(self, connection: Connection, now: float) -> None:
        queued = connection.queued_bytes
        if connection.is_touched or queued != connection.queued_before:
            connection.is_touched, connection.queued_before = False, queued
            connection.quiet_since_s = now
        else:
            connection.rest()
        limits, traffic = self.limits, self.traffic
        unread_s = limits.frame_s if self.budget.is_tight else limits.idle_s
        quiet_s = now - connection.quiet_since_s
        is_late = now - connection.opened_s >= limits.handshake_s
        if is_late and not connection.has_greeted and not connection.is_waiting:
            traffic.closed_handshake += 1
            self._cut(connection, f"no request within {limits.handshake_s:g} s")
        elif connection.is_stuck and quiet_s >= limits.frame_s:
            traffic.closed_stalled += 1
            self._cut(connection, f"stopped in the middle for {quiet_s:.0f} s")
        elif queued and quiet_s >= unread_s:
            traffic.closed_stalled += 1
            self._cut(connection, f"did not read its replies for {quiet_s:.0f} s")
        elif quiet_s >= limits.idle_s and not connection.is_waiting:
            traffic.closed_idle += 1
            connection.abort()

    def _cut(self, connection: Connection, sentence: str) -> None:
        self.complain(connection.peer, sentence)
        connection.abort()


def _advice(sentence: str) -> str:
    if "TLS" in sentence:
        return ": this port is plaintext; set security.protocol=PLAINTEXT in the client"
    if "HTTP" in sentence:
        return ": this is the Kafka port; the HTTP port is another one"
    return ""
