"""Receiving that waits in the kernel until all of it is there.

A socket with a timeout of Python's never waits in the kernel: it asks whether there is something,
takes that, and lets go of the interpreter for each. Here one call takes as much as it was asked
for, and only a silence, or the end of the connection, makes it return with less.
"""

import socket
from collections.abc import Callable
from struct import Struct
from typing import Any

_TIMEVAL = Struct("ll")


def is_plain(peer: Any) -> bool:
    """Whether it is a socket that the kernel alone reads: with TLS it is not."""
    return type(peer) is socket.socket


def receive_in_kernel(
    peer: Any, room: Callable[[], memoryview], taken: Callable[[int], None]
) -> None:
    """Fill what `room` offers, and tell `taken` by how much, until nothing is offered. 0 bytes are
    the end of the connection. Raises `TimeoutError` if not one byte comes for as long as the
    socket's timeout; after an error the socket is not to be used again."""
    silence_s = peer.gettimeout()
    peer.settimeout(None)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(silence_s))
    while view := room():
        try:
            taken(peer.recv_into(view, 0, socket.MSG_WAITALL))
        except BlockingIOError:
            raise TimeoutError(f"no byte for {silence_s} s") from None
    peer.settimeout(silence_s)


def _timeval(seconds: float | None) -> bytes:
    """None waits for ever."""
    whole = int(seconds or 0)
    return _TIMEVAL.pack(whole, int(((seconds or 0) - whole) * 1e6))
