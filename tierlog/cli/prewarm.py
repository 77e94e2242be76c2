"""`tierlog prewarm`: load a range of a topic into the node's cache, before those who will read it.

Offsets and times are resolved as a consumer does, by the node's Kafka side; the loading is asked
for over HTTP, and goes on there while this waits. Ctrl-C ends it; what was loaded stays.
"""

import json
import re
import sys
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import typer

from tierlog.cli.asking import address_of, ask, no_node, parsed
from tierlog.cli.consume import chosen_partitions, listed
from tierlog.cli.failure import Refused, usage
from tierlog.cli.progress import Progress, show_bytes
from tierlog.cli.session import with_client
from tierlog.cli.span import BEGINNING, END, first_offset
from tierlog.cli.times import parse_time
from tierlog.client import EARLIEST, LATEST, Client
from tierlog.config import Address
from tierlog.env import SystemClock

ANSWER_S = 60.0
LOOK_S = 0.2
UNITS = {
    "": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_OFFSET = re.compile(rf"-?[0-9]{{1,18}}|{BEGINNING}|{END}")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kmg]i?b)?", re.IGNORECASE)


def run_prewarm(
    bootstrap: str,
    place: str,
    topic: str,
    *,
    start: str,
    end: str,
    partitions: Sequence[int] | None,
    budget: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    address = address_of(place)
    bytes_max = None if budget is None else parse_size(budget)

    async def resolve(client: Client) -> dict[int, tuple[int, int]]:
        return await _spans(client, topic, partitions, start, end)

    spans = with_client(bootstrap, resolve)
    asked = {
        "topic": topic,
        "spans": ",".join(f"{each}:{low}-{high}" for each, (low, high) in spans.items()),
        **({} if bytes_max is None else {"budget": str(bytes_max)}),
        **({"dry_run": "1"} if dry_run else {}),
    }
    state = _ask(address, "POST", f"/prewarm?{urlencode(asked)}")
    if not dry_run:
        state = _wait(address, state)
    typer.echo(json.dumps(state) if as_json else summary(state, dry_run=dry_run))
    if state["error"] is not None:
        raise Refused(f"loading stopped: {state['error']}")


def parse_size(text: str) -> int:
    """`500MB`, `2 GiB`, `1000000`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise usage(f"--budget '{text}' is no size; write it as 500MB, 2GiB or a number of bytes")
    return int(float(found[1]) * UNITS[(found[2] or "").lower()])


def summary(state: dict[str, Any], *, dry_run: bool) -> str:
    verb = "would load" if dry_run else "loaded"
    lines = [
        f"{verb} {show_bytes(state['loaded_bytes'])} with {state['gets']:,} GETs, "
        f"${state['usd']:.6f}; {show_bytes(state['here_bytes'])} of "
        f"{show_bytes(state['bytes'])} were cached before"
    ]
    if state["left_bytes"]:
        lines.append(
            f"{show_bytes(state['left_bytes'])} did not fit: raise --budget or tierlog.cache.bytes"
        )
    return "\n".join(lines)


async def _spans(
    client: Client, topic: str, partitions: Sequence[int] | None, start: str, end: str
) -> dict[int, tuple[int, int]]:
    chosen = await chosen_partitions(client, topic, partitions)
    starts = await listed(client, topic, chosen, EARLIEST)
    ends = await listed(client, topic, chosen, LATEST)

    async def places(text: str) -> dict[int, int]:
        if _OFFSET.fullmatch(text):
            return {
                each: first_offset(text, log_start=starts[each], log_end=ends[each])
                for each in chosen
            }
        moment = parse_time(text, now_ms=SystemClock().now_ms())
        return await listed(client, topic, chosen, moment, instead=ends)

    lows, highs = await places(start), await places(end)
    return {each: (lows[each], max(lows[each], min(highs[each], ends[each]))) for each in chosen}


def _wait(address: Address, state: dict[str, Any]) -> dict[str, Any]:
    progress = Progress(sys.stderr, SystemClock())
    try:
        while not state["done"]:
            time.sleep(LOOK_S)
            state = _ask(address, "GET", "/prewarm")
            progress.size_bytes = state["loaded_bytes"]
            progress.draw(None)
    except KeyboardInterrupt:
        return _ask(address, "DELETE", "/prewarm")
    finally:
        progress.wipe()
    return state


def _ask(address: Address, method: str, target: str) -> dict[str, Any]:
    status, text = ask(address, target, method=method, timeout_s=ANSWER_S)
    body = parsed(text)
    if body is None:
        raise no_node(address)
    if status >= HTTPStatus.BAD_REQUEST:
        raise Refused(str(body.get("detail", body)))
    return body
