"""`tierlog hold`: place, release and list holds, by the node's HTTP side.

Times are resolved to offsets as a consumer does, by the node's Kafka side. The id of a hold is made
here, so that it is known also where no answer comes: repeated with it, a command completes what is
missing. An answer is printed partition by partition, done or not, and tells by its exit code
whether all is done.
"""

import json
import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import typer

from tierlog.cli.asking import address_of, ask, no_node, parsed
from tierlog.cli.consume import chosen_partitions, listed
from tierlog.cli.failure import Refused, say, usage
from tierlog.cli.session import with_client
from tierlog.cli.span import BEGINNING, END
from tierlog.cli.tables import print_table
from tierlog.cli.times import parse_time
from tierlog.client import LATEST, Client
from tierlog.config import Address
from tierlog.env import SystemClock, SystemRng

ANSWER_S = 60.0
SPANS_A_REQUEST = 200
"""A request's head has room for some 400 of the longest; each is answered for itself."""
_OFFSET = re.compile(r"[0-9]{1,18}")


def run_place(
    bootstrap: str,
    http: str,
    topic: str,
    *,
    hold_id: str | None,
    reason: str,
    start: str,
    end: str | None,
    partitions: Sequence[int] | None,
    as_json: bool,
) -> None:
    address, chosen_id = address_of(http), hold_id or new_id()

    async def resolve(client: Client) -> list[str]:
        return await _spans(client, topic, partitions, start, end)

    spans = with_client(bootstrap, resolve)
    fixed = {"topic": topic, "id": chosen_id, "reason": reason}
    answers = (
        _ask(address, "POST", fixed | {"spans": ",".join(spans[at : at + SPANS_A_REQUEST])})
        for at in range(0, len(spans), SPANS_A_REQUEST)
    )
    again = f"run it again with --id {chosen_id}"
    _tell(answers, topic, chosen_id, verb="placed", again=again, as_json=as_json)


def run_release(http: str, topic: str, hold_id: str, *, as_json: bool) -> None:
    answer = _ask(address_of(http), "DELETE", {"topic": topic, "id": hold_id})
    _tell([answer], topic, hold_id, verb="released", again="run it again", as_json=as_json)


def run_list(http: str, topic: str | None, *, as_json: bool) -> None:
    answer = _ask(address_of(http), "GET", {} if topic is None else {"topic": topic})
    if as_json:
        typer.echo(json.dumps(answer))
        return
    rows = [
        {
            "topic": one["topic"],
            "partition": one["partition"],
            "id": one["id"],
            "offsets": offsets(one),
            "reason": one["reason"] + ("" if one["is_placed"] else " (not known to be placed)"),
        }
        for one in answer["holds"]
    ]
    if rows:
        print_table(rows)
    else:
        say("nothing is on hold" if topic is None else f"nothing of {topic} is on hold")
    if answer["left_out"]:
        say(f"and {answer['left_out']:,} more; name a topic to see its own")
    for one in answer["unknown"]:
        say(f"what is held of {one} is not known yet: the store has not answered")


def new_id() -> str:
    return f"hold-{SystemRng().randbytes(4).hex()}"


def offsets(row: dict[str, Any]) -> str:
    """`5-89`, or `5 on` where it has no end."""
    if row["start"] is None:
        return ""
    return f"{row['start']} on" if row["end"] is None else f"{row['start']}-{row['end'] - 1}"


async def _spans(
    client: Client, topic: str, partitions: Sequence[int] | None, start: str, end: str | None
) -> list[str]:
    """As the node reads them; an offset that was named is not moved to where records are, so that
    whoever names what is gone hears of it."""
    chosen = await chosen_partitions(client, topic, partitions)
    lows = await _places(client, topic, chosen, start, option="--from")
    highs = await _places(client, topic, chosen, end, option="--to")
    return [f"{each}:{lows[each]}-{highs[each]}" for each in chosen]


async def _places(
    client: Client, topic: str, chosen: list[int], text: str | None, *, option: str
) -> dict[int, int | str]:
    """Empty where the partition itself begins or ends."""
    if text is None or (text == BEGINNING and option == "--from"):
        return dict.fromkeys(chosen, "")
    if _OFFSET.fullmatch(text):
        return dict.fromkeys(chosen, int(text))
    if text.startswith("-"):
        raise usage(f"{option} is '{text}'; it must be an offset from 0 on, or a time")
    ends = await listed(client, topic, chosen, LATEST)
    if text == END:
        return {**ends}
    now_ms = SystemClock().now_ms()
    moment = parse_time(text, now_ms=now_ms)
    if moment > now_ms and option == "--to":
        raise usage(f"--to {text} is yet to come; without --to, what comes is held, too")
    return {**await listed(client, topic, chosen, moment, instead=ends)}


def _tell(
    answers: Iterable[dict[str, Any]],
    topic: str,
    hold_id: str,
    *,
    verb: str,
    again: str,
    as_json: bool,
) -> None:
    """Raises `Refused` unless all is done."""
    rows: list[dict[str, Any]] = []
    fault: Refused | None = None
    try:
        for answer in answers:
            rows += answer["partitions"]
    except Refused as error:
        if not rows:
            raise
        fault = error  # What was told before is told all the same.
    trouble = f"{fault}; {again}" if fault is not None else missing(rows, hold_id, verb, again)
    if as_json:
        body = {"topic": topic, "id": hold_id, "is_done": trouble is None, "partitions": rows}
        typer.echo(json.dumps(body))
    else:
        typer.echo(f"hold {hold_id} on {topic}")
        print_table([_shown(one, verb) for one in rows])
    if trouble is not None:
        raise Refused(trouble)


def missing(rows: list[dict[str, Any]], hold_id: str, verb: str, again: str) -> str | None:
    """What is not done, and what helps; None: all is."""
    failed = [one for one in rows if one["error"] is not None]
    if not failed:
        return None
    sentence = f"hold {hold_id} was not {verb} on {len(failed)} of {len(rows)} partitions"
    if any(one["is_retriable"] for one in failed):
        return f"{sentence}; once the store answers, {again}: what is done stays done"
    return sentence


def _shown(row: dict[str, Any], verb: str) -> dict[str, object]:
    result = verb if row["error"] is None else f"not {verb}: {row['error']}"
    return {"partition": row["partition"], "offsets": offsets(row), "result": result}


def _ask(address: Address, method: str, query: dict[str, str]) -> dict[str, Any]:
    """Also what tells of partitions that are not done."""
    target = f"/holds?{urlencode(query)}"
    status, text = ask(address, target, method=method, timeout_s=ANSWER_S)
    body = parsed(text)
    if body is None:
        raise no_node(address)
    if "routes" in body:
        raise Refused(f"the node at {address} is older than `tierlog hold`")
    if status >= HTTPStatus.BAD_REQUEST and "partitions" not in body:
        raise Refused(str(body.get("detail", body)))
    return body
