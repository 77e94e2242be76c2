"""`tierlog serve`: settings from everywhere, one ready line, a drained end.

stdout carries the ready line and nothing else. SIGTERM and SIGINT cancel the server, which drains;
a second one ends the process at once, as after a crash.
"""

import asyncio
import logging
import os
import signal
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from tierlog.cli.failure import FAILED, say, usage
from tierlog.config import NodeSettings, default_store, load_node_settings


class Ready(Protocol):
    """What the server says when it serves: the bound addresses."""

    kafka: str
    http: str | None
    node_id: int
    store: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    data: str | None = None
    store: str | None = None
    listen: str | None = None
    http: str | None = None
    advertise: str | None = None
    node_id: int | None = None
    config: Path | None = None
    sets: tuple[str, ...] = ()
    new_cluster: bool = False


def run_server(options: ServeOptions) -> None:
    settings = settings_of(options)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; the server runs on plain asyncio as well."""
    if find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


def settings_of(options: ServeOptions) -> NodeSettings:
    """Raises `InvalidConfig`."""
    named = {
        "data": options.data,
        "store": options.store,
        "listen": options.listen,
        "http": options.http,
        "advertise": options.advertise,
        "node.id": None if options.node_id is None else str(options.node_id),
        "tierlog.new.cluster": "true" if options.new_cluster else None,
    }
    settings = load_node_settings(
        options={name: value for name, value in named.items() if value is not None},
        sets=options.sets,
        environ=os.environ,
        file=None if options.config is None else _read(options.config),
    )
    data = os.path.abspath(settings.data)
    return replace(settings, data=data, store=settings.store or default_store(data))


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise usage(f"{path}: {error.strerror}") from None
    except ValueError as error:  # Bad TOML, or bytes that are not UTF-8.
        raise usage(f"{path}: {error}") from None


async def _serve(settings: NodeSettings) -> None:
    server = import_module("tierlog.server")
    loop = asyncio.get_running_loop()
    task: asyncio.Task[None] = loop.create_task(server.serve(settings, on_ready=_print_ready))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, task)
    try:
        await task
    except asyncio.CancelledError:
        if not task.done():
            raise  # Somebody else cancels us, not a signal.


def _stop(task: asyncio.Task[None]) -> None:
    if task.cancelling():
        os._exit(FAILED)
    say("tierlog: stopping; once more to stop without waiting")
    task.cancel()


def _print_ready(ready: Ready) -> None:
    sys.stdout.write(ready_line(ready) + "\n")
    sys.stdout.flush()


def ready_line(ready: Ready) -> str:
    http = ready.http or "off"
    return f"tierlog ready kafka={ready.kafka} http={http} node={ready.node_id} store={ready.store}"
