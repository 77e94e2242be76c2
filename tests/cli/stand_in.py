"""Runs the command line with a small stand-in where `tierlog.server` would be.

It keeps the server's side of the agreement with `tierlog serve` and nothing more: it locks the data
directory, binds its addresses, says when it is ready, and drains when it is cancelled. So the
command line is tested by itself: what it prints, how it ends, what it passes on.
"""

import asyncio
import fcntl
import os
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

from tierlog.cli import main
from tierlog.config import Address, NodeSettings
from tierlog.errors import TierlogError


class InUse(TierlogError):
    """Another node has the directory."""


async def serve(settings: NodeSettings, *, on_ready: Callable[[SimpleNamespace], None]) -> None:
    os.makedirs(settings.data, exist_ok=True)
    with open(os.path.join(settings.data, "lock"), "w") as lock:  # noqa: ASYNC230 - tiny
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InUse(f"{settings.data} is in use by another node") from None
        await _serve_locked(settings, on_ready)


async def _serve_locked(
    settings: NodeSettings, on_ready: Callable[[SimpleNamespace], None]
) -> None:
    kafka = await _bound(settings.listen_address)
    http = None if settings.http_address is None else await _bound(settings.http_address)
    on_ready(
        SimpleNamespace(kafka=kafka, http=http, node_id=settings.node_id, store=settings.store)
    )
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        sys.stderr.write("drained\n")


async def _bound(address: Address) -> str:
    server = await asyncio.start_server(lambda *_: None, address.host, address.port)
    return str(Address(address.host, server.sockets[0].getsockname()[1]))


if __name__ == "__main__":
    module = ModuleType("tierlog.server")
    module.__dict__["serve"] = serve
    sys.modules["tierlog.server"] = module
    main()
