"""`tierlog serve`: settings from everywhere, one ready line, a drained end.

stdout carries the ready line and nothing else. Signals are the server's business.
"""

import asyncio
import logging
import os
import signal
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from tierlog.cli.failure import Refused, usage
from tierlog.config import (
    NodeSettings,
    check_apart,
    default_store,
    load_node_settings,
    store_folder,
)

if TYPE_CHECKING:
    from tierlog.server import Ready

CHATTY = ("botocore", "boto3", "urllib3")
"""Libraries that tell at INFO where they found credentials, once for each client."""


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
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings))
    # Everything is closed: a SIGTERM more must not turn that into a failure.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


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
    store = settings.store or default_store(data)
    if (folder := store_folder(store)) is not None:
        check_apart(os.path.realpath(folder), os.path.realpath(data))
    return replace(settings, data=data, store=store)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise usage(f"{path}: {error.strerror}") from None
    except ValueError as error:  # Bad TOML, or bytes that are not UTF-8.
        raise usage(f"{path}: {error}") from None


async def _serve(settings: NodeSettings) -> None:
    from tierlog.server import NodeFailed, serve  # Not before the settings are known to be sound.

    try:
        await serve(settings, on_ready=_print_ready)
    except NodeFailed as error:
        raise Refused(str(error)) from error


def _print_ready(ready: "Ready") -> None:
    sys.stdout.write(ready.line() + "\n")
    sys.stdout.flush()
