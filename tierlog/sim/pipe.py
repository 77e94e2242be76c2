"""One direction of a simulated connection: bytes on their way from one end to the other.

The sender's bytes wait in `unsent` until the window has room, travel as segments of drawn sizes,
and arrive in order after the delay of the link. While the link is down nothing arrives and nothing
is lost: TCP would send it again, so it arrives after the link heals.
"""

import asyncio
import zlib
from collections import deque
from random import Random
from typing import TYPE_CHECKING

from tierlog.sim.life import OUTSIDE
from tierlog.sim.link import Link

if TYPE_CHECKING:
    from tierlog.sim.transport import SimTransport

WINDOW_BYTES = 64 * 1024
SEGMENT_BYTES_MAX = 16 * 1024


class Pipe:
    __slots__ = (
        "_finished",
        "_last_due",
        "_link",
        "_loop",
        "_on_wire_bytes",
        "_receiver",
        "_reset_waits",
        "_rng",
        "_sender",
        "_timer",
        "_wire",
        "unsent",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        link: Link,
        *,
        sender: "SimTransport",
        receiver: "SimTransport",
    ) -> None:
        self.unsent = bytearray()
        self._loop = loop
        self._rng = rng
        self._link = link
        self._sender = sender
        self._receiver = receiver
        self._wire: deque[tuple[float, bytes]] = deque()
        """Segments with the time they are due; an empty one is the end of the stream."""
        self._on_wire_bytes = 0
        self._last_due = 0.0
        self._finished = False
        self._reset_waits = False
        self._timer: asyncio.TimerHandle | None = None
        link.add(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.unsent += data
        self.pump()

    def finish(self) -> None:
        """No more bytes: the end of the stream follows what is unsent."""
        if not self._finished:
            self._finished = True
            self.pump()

    def pump(self) -> None:
        """Put on the wire what the window allows."""
        had = len(self.unsent)
        if not had and not self._finished:
            return
        while self.unsent and (room := self._room()) > 0:
            size = min(len(self.unsent), room, SEGMENT_BYTES_MAX)
            if size > 1 and self._rng.random() < 0.3:
                size = self._rng.randrange(1, size)
            self._send(bytes(self.unsent[:size]))
            del self.unsent[:size]
        if self._finished and not self.unsent and not self._end_sent():
            self._send(b"")
        if had and had != len(self.unsent):
            self._sender.sent_some()

    def _room(self) -> int:
        return WINDOW_BYTES - self._on_wire_bytes - self._receiver.unread_bytes

    def _end_sent(self) -> bool:
        return self._last_due == float("inf")

    def _send(self, segment: bytes) -> None:
        due = max(self._last_due, self._loop.time() + self._link.draw_delay())
        self._wire.append((due, segment))
        self._on_wire_bytes += len(segment)
        self._last_due = due if segment else float("inf")
        self._arm()

    def _arm(self) -> None:
        if self._wire and self._timer is None and self._link.up:
            due = max(self._wire[0][0], self._loop.time())
            self._timer = self._loop.call_at(due, self._arrive, context=OUTSIDE)

    def _arrive(self) -> None:
        self._timer = None
        if not self._wire or not self._link.up:
            return
        _, segment = self._wire.popleft()
        self._on_wire_bytes -= len(segment)
        self._link.tell(f"{len(segment)} {zlib.crc32(segment):x}" if segment else "end")
        self._hand_over(segment)
        self._arm()

    def _hand_over(self, segment: bytes) -> None:
        if self._receiver.gone:
            # The kernel knows no such connection any more and says so.
            if segment:
                self._receiver.outgoing.send_reset()
        elif segment:
            self._receiver.arrive(segment)
        else:
            self._receiver.arrive_eof()
        self.pump()

    def send_reset(self) -> None:
        """Overtakes the bytes; waits, like them, while the link is down."""
        self._reset_waits = True
        if self._link.up:
            delay = self._link.draw_delay()
            self._loop.call_later(delay, self._arrive_reset, context=OUTSIDE)

    def _arrive_reset(self) -> None:
        if self._reset_waits and self._link.up:
            self._reset_waits = False
            self._wire.clear()
            self._on_wire_bytes = 0
            self._link.tell("reset")
            self._receiver.reset()

    def link_healed(self) -> None:
        if self._reset_waits:
            self.send_reset()
        self._arm()

    def dead(self) -> bool:
        """Nothing can happen here any more."""
        return self._sender.gone and self._receiver.gone
