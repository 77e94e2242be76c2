"""One node in a process of its own: what the benchmarks start as the server under test.

    python -m benchmarks.node --data DIR [--set name=value ...] [--profile FILE]

Runs `tierlog.server.serve` on uvloop with the node's default settings, listening on a free port of
127.0.0.1 and without HTTP. Prints `ready PORT`, serves until SIGTERM. With `--profile` the loop's
thread runs under cProfile, and the figures are written when the node has stopped.
"""

import argparse
import asyncio
import cProfile
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from tierlog.config import load_node_settings
from tierlog.server import serve


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.node", description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--profile", type=Path, metavar="FILE")
    args = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    profile = cProfile.Profile() if args.profile else None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if profile:
            profile.enable()
        try:
            runner.run(_serve(args.data, args.set))
        finally:
            if profile:
                profile.disable()
                profile.dump_stats(args.profile)
    return 0


async def _serve(data: str, sets: list[str]) -> None:
    options = {"data": data, "listen": "127.0.0.1:0", "http": "off"}
    settings = load_node_settings(options=options, sets=sets, environ={}, file=None)
    await serve(replace(settings, store=settings.store or f"file://{data}-store"), on_ready=_say)


def _say(ready: Any) -> None:
    print(f"ready {ready.kafka[1]}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
