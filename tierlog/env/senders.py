"""The reply path as a port: how bytes leave a connection.

A `Sender` is the write side of one connection, and the only one: whoever attached it never writes
to the transport itself. What is given first leaves first, and giving never blocks the loop.

`PlainSenders` write through the transport; they serve the simulated world, TLS and every loop.
`tierlog.env.direct` has the fast ones.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from tierlog.types import Bytes

LINGER_S = 1.0
"""How long a closed connection waits for its peer to close too: some round trips."""

OnDrained = Callable[[], None]
OnLost = Callable[[Exception | None], None]


class Sender(Protocol):
    @property
    def queued_bytes(self) -> int:
        """Given and not yet in the kernel."""
        ...

    @property
    def mapped_bytes(self) -> int:
        """Those of the queued bytes that are slices of files and hold no memory."""
        ...

    def send(self, parts: list[Bytes], *, may_block: bool = False) -> None:
        """Send the parts, which must not change any more. `may_block`: touching them may wait for
        the disk. Ignored after `close` or `abort`."""
        ...

    def close(self) -> None:
        """End the connection once everything given is in the kernel: tell the peer that nothing
        more comes, and close when it answers in kind, or a moment later. Meanwhile the protocol
        must go on reading, or unread bytes turn the close into a reset."""
        ...

    def abort(self) -> None:
        """Forget what is queued and close now. Also to be called when the transport was lost."""
        ...


class Senders(Protocol):
    def attach(
        self, transport: asyncio.Transport, *, on_drained: OnDrained, on_lost: OnLost
    ) -> Sender:
        """Take over the write side. `on_drained` is called on the loop after queued bytes went
        down, at the latest when none are left; plain senders leave that to the protocol's
        `resume_writing`. `on_lost` tells why sending failed; the transport is lost after it."""
        ...

    def close(self) -> None:
        """End what runs behind the senders; all of them must be closed by then."""
        ...


class PlainSender:
    """The transport's own buffer."""

    __slots__ = ("_timer", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._timer: asyncio.TimerHandle | None = None
        # The protocol shall hear `resume_writing` when the buffer is empty, not at some watermark.
        transport.set_write_buffer_limits(high=0)

    @property
    def queued_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def mapped_bytes(self) -> int:
        return 0  # A transport's buffer is a copy.

    def send(self, parts: list[Bytes], *, may_block: bool = False) -> None:
        if self._timer is None and not self._transport.is_closing():
            self._transport.writelines(parts)

    def close(self) -> None:
        transport = self._transport
        if self._timer is not None or transport.is_closing():
            return
        if not transport.can_write_eof():  # TLS
            transport.close()
            return
        transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, transport.close)

    def abort(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()


class PlainSenders:
    """Replies through the transport, on the loop."""

    __slots__ = ()

    def attach(
        self, transport: asyncio.Transport, *, on_drained: OnDrained, on_lost: OnLost
    ) -> Sender:
        return PlainSender(transport)

    def close(self) -> None:
        """Nothing runs behind them."""
