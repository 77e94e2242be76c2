"""One node in a process of its own: what the benchmarks start as the server under test.

    python -m benchmarks.node --data DIR [--set name=value ...] [--profile FILE]
                              [--store URL] [--get-delay-ms N]

Runs `tierlog.server.serve` on uvloop with the node's default settings, listening on a free port of
127.0.0.1 and without HTTP. Prints `ready PORT`, serves until SIGTERM. With `--profile` the loop's
thread runs under cProfile, by its CPU time, and the figures are written when the node has stopped.

With `--store` the requests to it are counted, and at SIGUSR1 printed as a line of JSON and begun
anew; `--get-delay-ms` makes each GET so much slower.
"""

import argparse
import asyncio
import cProfile
import json
import logging
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.storewatch import Watched
from tierlog import server
from tierlog.config import NodeSettings, load_node_settings
from tierlog.env import Env
from tierlog.objectstore.counted import StoreStats
from tierlog.objectstore.port import ObjectStore
from tierlog.server import serve


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.node", description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--profile", type=Path, metavar="FILE")
    parser.add_argument("--store", default="", metavar="URL")
    parser.add_argument("--get-delay-ms", type=float, default=0.0, metavar="N")
    args = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    profile = cProfile.Profile(time.thread_time) if args.profile else None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if profile:
            profile.enable()
        try:
            runner.run(_serve(args))
        finally:
            if profile:
                profile.disable()
                profile.dump_stats(args.profile)
    return 0


async def _serve(args: argparse.Namespace) -> None:
    options = {"data": args.data, "listen": "127.0.0.1:0", "http": "off"}
    settings = load_node_settings(options=options, sets=args.set, environ={}, file=None)
    if args.store:
        watch_store(args.get_delay_ms / 1000)
    store = args.store or settings.store or f"file://{args.data}-store"
    await serve(replace(settings, store=store), on_ready=_say)


def watch_store(get_delay_s: float) -> None:
    """Every store that this process opens from now on, which is one."""
    opened = server.node_store

    def watched(env: Env, settings: NodeSettings) -> tuple[ObjectStore, StoreStats]:
        inner, stats = opened(env, settings)
        store = Watched(inner, get_delay_s=get_delay_s)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(
            signal.SIGUSR1, lambda: print(json.dumps(store.taken()), flush=True)
        )
        return store, stats

    server.node_store = watched


def _say(ready: Any) -> None:
    print(f"ready {ready.kafka[1]}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
