"""`tierlog prewarm`: load a range of a topic into the node's cache, before those who will read it.

Offsets and times are resolved as a consumer does, by the node's Kafka side; the loading is asked
for over HTTP, and goes on there while this waits. Ctrl-C ends it; what was loaded stays. Of many
partitions some are asked for at a time: a request has room for so many.
"""

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
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
SPANS_CHARACTERS_MAX = 4_000
"""Of one request, whose head has at most 16 KiB."""
UNITS = {
    "": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
SUMMED = ("bytes", "here_bytes", "loaded_bytes", "left_bytes", "gets", "usd")
NOTHING: dict[str, Any] = {**dict.fromkeys(SUMMED, 0), "done": True, "error": None}
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
    now_ms = SystemClock().now_ms()
    check_order(start, end, now_ms=now_ms)
    is_ended = False

    async def resolve(client: Client) -> dict[int, tuple[int, int]]:
        return await _spans(client, topic, partitions, start, end, now_ms)

    spans = with_client(bootstrap, resolve)
    state = dict(NOTHING)
    for part in requests_of(spans):
        asked = {"topic": topic, "spans": part}
        if bytes_max is not None:
            asked["budget"] = str(bytes_max - state["loaded_bytes"])
        if dry_run:
            asked |= {"dry_run": "1", "taken": str(state["loaded_bytes"])}
        one = _ask(address, "POST", f"/prewarm?{urlencode(asked, safe=':,')}")
        if not dry_run:
            one, is_ended = _wait(address, one, before_bytes=state["loaded_bytes"])
        state = added(state, one)
        if is_ended or state["error"] is not None:
            break
    typer.echo(json.dumps(state) if as_json else summary(state, dry_run=dry_run))
    if state["error"] is not None:
        raise Refused(f"loading stopped: {state['error']}")


def requests_of(spans: dict[int, tuple[int, int]]) -> Iterator[str]:
    """All spans, in as many pieces as it takes."""
    piece = ""
    for each, (low, high) in spans.items():
        text = f"{each}:{low}-{high}"
        if len(piece) + len(text) >= SPANS_CHARACTERS_MAX:
            yield piece
            piece = ""
        piece += f",{text}" if piece else text
    yield piece


def added(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """The numbers of both; otherwise how the later one ended."""
    return {name: whole[name] + part[name] if name in SUMMED else part[name] for name in NOTHING}


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


def check_order(start: str, end: str, *, now_ms: int) -> None:
    """Two offsets, or two times, of which the first is not before the second, are a mistake."""
    places = _place(start, now_ms), _place(end, now_ms)
    if places[0][0] == places[1][0] and places[0][1] >= places[1][1]:
        raise usage(f"--from {start} is not before --to {end}")


def _place(text: str, now_ms: int) -> tuple[str, int]:
    """What can be compared with its like before any offset is known."""
    if not _OFFSET.fullmatch(text):
        return "time", parse_time(text, now_ms=now_ms)
    if text in (BEGINNING, END):
        return "name", int(text == END)
    return "from the end" if text.startswith("-") else "offset", int(text)


async def _spans(
    client: Client,
    topic: str,
    partitions: Sequence[int] | None,
    start: str,
    end: str,
    now_ms: int,
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
        moment = parse_time(text, now_ms=now_ms)
        return await listed(client, topic, chosen, moment, instead=ends)

    lows, highs = await places(start), await places(end)
    if all(lows[each] > highs[each] for each in chosen):
        raise Refused(f"--from {start} is behind --to {end} in every partition of {topic}")
    return {each: (lows[each], max(lows[each], min(highs[each], ends[each]))) for each in chosen}


def _wait(
    address: Address, state: dict[str, Any], *, before_bytes: int
) -> tuple[dict[str, Any], bool]:
    """How it ended, and whether by Ctrl-C."""
    progress = Progress(sys.stderr, SystemClock())
    try:
        while not state["done"]:
            time.sleep(LOOK_S)
            state = _ask(address, "GET", "/prewarm")
            progress.size_bytes = before_bytes + state["loaded_bytes"]
            progress.draw(None)
    except KeyboardInterrupt:
        return _ask(address, "DELETE", "/prewarm"), True
    finally:
        progress.wipe()
    return state, False


def _ask(address: Address, method: str, target: str) -> dict[str, Any]:
    status, text = ask(address, target, method=method, timeout_s=ANSWER_S)
    body = parsed(text)
    if body is None:
        raise no_node(address)
    if status >= HTTPStatus.BAD_REQUEST:
        raise Refused(str(body.get("detail", body)))
    return body
