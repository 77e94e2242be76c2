"""One end of a simulated connection: an asyncio transport over two pipes.

Drives ordinary protocols, `BufferedProtocol` included, and keeps asyncio's promises: made first,
lost last and once, bytes in order, nothing while reading is paused, `pause_writing` above the high
watermark and `resume_writing` below the low one. Bytes arrive in drawn pieces.

All callbacks of one end run one after the other in the context of the process that owns it; the
loop's drawn order cannot swap them.
"""

import asyncio
import contextvars
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tierlog.sim.pipe import Pipe

HIGH_WATER = 64 * 1024  # asyncio's own default


class SimTransport(asyncio.Transport):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        *,
        context: contextvars.Context,
        sockname: tuple[str, int],
        peername: tuple[str, int],
    ) -> None:
        super().__init__({"sockname": sockname, "peername": peername})
        self.context = context
        self.host = sockname[0]
        self.peer_host = peername[0]
        self.outgoing: Pipe
        self.incoming: Pipe
        self._loop = loop
        self._rng = rng
        self._protocol: asyncio.BaseProtocol | None = None
        self._arrived = bytearray()
        self._eof_arrived = False
        self._eof_told = False
        self._eof_written = False
        self._reading = True
        self._read_scheduled = False
        self._closing = False
        self._gone = False
        self._protocol_paused = False
        self._high, self._low = HIGH_WATER, HIGH_WATER // 4

    # The asyncio side

    def open(self, factory: Callable[[], asyncio.BaseProtocol]) -> asyncio.BaseProtocol:
        """The connection stands: build its protocol, then let bytes in."""
        protocol = self._protocol = factory()
        protocol.connection_made(self)
        self._schedule_read()
        return protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._eof_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not len(data):
            return
        self.outgoing.write(data)
        if not self._protocol_paused and self.get_write_buffer_size() > self._high:
            self._protocol_paused = True
            self._call_protocol("pause_writing")

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._closing and not self._eof_written:
            self._eof_written = True
            self.outgoing.finish()

    def close(self) -> None:
        """Send what is buffered, then part."""
        if self._closing:
            return
        self._closing = True
        self._arrived.clear()
        self.outgoing.finish()
        if not self.outgoing.unsent:
            self._call_soon(self._lose, None)

    def abort(self) -> None:
        self._break(None)

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._schedule_read()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return len(self.outgoing.unsent)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._schedule_read()

    # The network side; runs outside every process

    @property
    def gone(self) -> bool:
        """Nobody is behind this end any more: the kernel answers bytes with a reset."""
        return self._gone

    @property
    def unread_bytes(self) -> int:
        return len(self._arrived)

    def arrive(self, data: bytes) -> None:
        if not self._closing:
            self._arrived += data
            self._schedule_read()

    def arrive_eof(self) -> None:
        self._eof_arrived = True
        self._schedule_read()

    def reset(self) -> None:
        """The peer, or the network, broke the connection."""
        if not self._gone:
            self._stop()
            self._call_soon(self._lose, ConnectionResetError("Connection reset by peer"))

    def sent_some(self) -> None:
        """Room in the write buffer: wake the writer, or part if that was all."""
        if self._closing and not self.outgoing.unsent:
            self._call_soon(self._lose, None)
        elif self._protocol_paused:
            self._call_soon(self._resume_writing)

    def vanish(self) -> None:
        """The process is dead: nobody hears anything."""
        self._stop()
        self._gone = True

    # Inside

    def _call_soon(self, call: Callable[..., object], *args: object) -> None:
        self._loop.call_soon(call, *args, context=self.context)

    def _resume_writing(self) -> None:
        # Looks again: more may have been written since this was scheduled.
        if self._protocol_paused and self.get_write_buffer_size() <= self._low:
            self._protocol_paused = False
            self._call_protocol("resume_writing")

    def _schedule_read(self) -> None:
        if not self._read_scheduled and self._protocol is not None:
            self._read_scheduled = True
            self._call_soon(self._read)

    def _read(self) -> None:
        self._read_scheduled = False
        if not self._reading or self._closing:
            return
        try:
            if self._arrived:
                self._deliver()
            elif self._eof_arrived and not self._eof_told:
                self._tell_eof()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  asyncio breaks the connection and reports
            self._report(error)
            self._break(error)
            return
        if self._arrived or (self._eof_arrived and not self._eof_told):
            self._schedule_read()

    def _deliver(self) -> None:
        protocol = self._protocol
        size = len(self._arrived)
        if size > 1 and self._rng.random() < 0.3:
            size = self._rng.randrange(1, size)
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(protocol.get_buffer(size))
            if not len(buffer):
                raise RuntimeError("get_buffer() returned an empty buffer")
            size = min(size, len(buffer))
            buffer[:size] = self._take(size)
            protocol.buffer_updated(size)
        else:
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(self._take(size))
        self.incoming.pump()  # The window opened.

    def _take(self, size: int) -> bytes:
        data = bytes(self._arrived[:size])
        del self._arrived[:size]
        return data

    def _tell_eof(self) -> None:
        self._eof_told = True
        protocol = self._protocol
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        if not protocol.eof_received():
            self.close()

    def _break(self, error: BaseException | None) -> None:
        if self._gone:
            return
        self._stop()
        self.outgoing.send_reset()
        self._call_soon(self._lose, error)

    def _stop(self) -> None:
        self._closing = True
        self._arrived.clear()
        self.outgoing.unsent.clear()

    def _lose(self, error: Exception | None) -> None:
        if self._gone:
            return
        self._gone = True
        self._call_protocol("connection_lost", error)

    def _call_protocol(self, method: str, *args: object) -> None:
        if self._protocol is None or (self._gone and method != "connection_lost"):
            return
        try:
            getattr(self._protocol, method)(*args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  asyncio reports and goes on
            self._report(error)

    def _report(self, error: BaseException) -> None:
        self._loop.call_exception_handler(
            {
                "message": "protocol raised",
                "exception": error,
                "transport": self,
                "protocol": self._protocol,
            }
        )
