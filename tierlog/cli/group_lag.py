"""`tierlog group lag`: how far behind groups are, as the node's HTTP side tells it.

On a terminal `--watch` draws over itself; anywhere else, and with `--json`, each look is printed
below the last.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import typer

from tierlog.cli.asking import address_of, ask, no_node, parsed
from tierlog.cli.failure import Refused, say
from tierlog.cli.progress import show_bytes
from tierlog.cli.reasons import show_length
from tierlog.cli.tables import table_lines
from tierlog.cli.times import show_second
from tierlog.config import Address

CLEAR = "\x1b[H\x1b[J"
RIGHT = ("records", "bytes", "behind", "reads", "caught_up_in", "off_disk_in", "expires_in")
NOT_KNOWN = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagOptions:
    group: str | None
    http: str
    watch: bool
    every_s: float
    until_caught_up: bool
    as_json: bool


def run_lag(options: LagOptions) -> None:
    address = address_of(options.http)
    for answer in looks(address, options):
        if options.as_json:
            typer.echo(json.dumps(answer))
        else:
            draw(lines_of(answer, options), options)
        sys.stdout.flush()


def looks(address: Address, options: LagOptions) -> Iterator[dict[str, Any]]:
    """One, or as many as the person wants to see."""
    while True:
        answer = look(address, options.group)
        yield answer
        is_done = options.until_caught_up and records_of(answer) == 0
        is_done = is_done and not answer.get("shards_loading")
        if not options.watch or is_done:
            return
        time.sleep(options.every_s)


def look(address: Address, group: str | None) -> dict[str, Any]:
    if group is not None:
        return asked(address, {"group": group})
    answer = asked(address, {})
    groups, after = answer["groups"], answer["next_after"]
    while after is not None:
        more = asked(address, {"after": after})
        groups += more["groups"]
        after = more["next_after"]
    return {**answer, "groups": groups, "next_after": None}


def asked(address: Address, query: dict[str, str]) -> dict[str, Any]:
    status, text = ask(address, f"/lag?{urlencode(query)}")
    body = parsed(text)
    if body is None:
        raise no_node(address)
    if status == HTTPStatus.NOT_FOUND and "group" not in body:
        raise Refused(f"the node at {address} does not tell lag: it is older than this command")
    if status >= HTTPStatus.BAD_REQUEST:
        raise Refused(str(body.get("detail", body)))
    return body


def records_of(answer: dict[str, Any]) -> int:
    if "groups" in answer:
        return sum(one["records"] for one in answer["groups"])
    return int(answer["records"])


# Showing


def draw(lines: list[str], options: LagOptions) -> None:
    if options.watch and sys.stdout.isatty():
        typer.echo(CLEAR, nl=False)
    elif options.watch:
        lines = [*lines, ""]
    for line in lines:
        typer.echo(line)


def lines_of(answer: dict[str, Any], options: LagOptions) -> list[str]:
    if options.group is not None:
        return [*headline(answer), "", *table_lines(partition_rows(answer), right=RIGHT)]
    groups = sorted(answer["groups"], key=lambda one: (-(one["seconds"] or 0), one["group"]))
    if loading := answer.get("shards_loading"):
        say(f"{loading} shards of the group state are still loading: their groups are not shown")
    if not groups:
        if not loading:
            say("no group has committed anything yet")
        return []
    when = [show_second(answer["at_ms"])] if options.watch else []
    return [*when, *table_lines([group_row(one) for one in groups], right=RIGHT)]


def headline(lag: dict[str, Any]) -> list[str]:
    """The group in two or three sentences."""
    first = f"{lag['group']} at {show_second(lag['at_ms'])}: "
    if not lag["records"]:
        lines = [first + "caught up"]
    else:
        behind = behind_words(lag)
        lines = [
            f"{first}{lag['records']:,} records, {show_bytes(lag['bytes'])}, {behind} behind; "
            f"{trend_words(lag)}"
        ]
    if lag["retention_left_s"] is not None:
        left = show_length(lag["retention_left_s"] * 1000)
        lines.append(f"its first unread record is gone in {left} if the group does not come to it")
    if lag["lost"]:
        lines.append(f"{lag['lost']:,} offsets expired before it came to them: it will skip these")
    return lines


def trend_words(lag: dict[str, Any]) -> str:
    words = str(lag["trend"])
    if lag["trend"] == "unknown":
        return "how fast it reads is known after a minute, or when it commits"
    if lag["consumed_per_s"] is not None:
        words += f", reads {lag['consumed_per_s']:,.0f}/s of {lag['produced_per_s']:,.0f}/s written"
    if lag["catch_up_s"] is not None:
        words += f", caught up in {show_length(lag['catch_up_s'] * 1000)}"
    return words


def group_row(lag: dict[str, Any]) -> dict[str, object]:
    return {"group": lag["group"], **common(lag)}


def partition_rows(lag: dict[str, Any]) -> list[dict[str, object]]:
    return [
        {
            "topic": one["topic"],
            "partition": one["partition"],
            "committed": one["committed"],
            "end": one["end"],
            "next_from": next_from(one),
            **common(one),
        }
        for one in lag["partitions"]
    ]


def next_from(one: dict[str, Any]) -> str:
    if not one["records"]:
        return "-"
    return "bucket" if one["is_cold"] else "disk"


def common(lag: dict[str, Any]) -> dict[str, object]:
    is_behind = bool(lag["records"])
    return {
        "records": f"{lag['records']:,}",
        "bytes": show_bytes(lag["bytes"]),
        "behind": behind_words(lag) if is_behind else "-",
        "trend": lag["trend"],
        "reads": rate(lag),
        "caught_up_in": time_words(lag, "catch_up", "never") if is_behind else "-",
        "off_disk_in": disk_words(lag) if is_behind else "-",
        "expires_in": time_words(lag, "retention_left", "stays") if is_behind else "-",
    }


def behind_words(lag: dict[str, Any]) -> str:
    """Of a group: at least so much, where some of its partitions do not say."""
    found = length(lag["seconds"])
    is_part = bool(lag.get("unknown_partitions")) and lag["seconds"] is not None
    return f">={found}" if is_part else found


def length(seconds: float | None, otherwise: str = NOT_KNOWN) -> str:
    return otherwise if seconds is None else show_length(seconds * 1000)


def rate(lag: dict[str, Any]) -> str:
    """That nothing is read takes a minute to know."""
    per_s = lag["consumed_per_s"]
    is_known = per_s is not None and lag["trend"] != "unknown"
    return f"{per_s:,.0f}/s" if is_known else NOT_KNOWN


def time_words(lag: dict[str, Any], name: str, never: str) -> str:
    """Of a group: the time that is known, where some of its partitions do not say."""
    is_known = lag.get(f"is_{name}_known", True)
    return length(lag[f"{name}_s"], never if is_known else NOT_KNOWN)


def disk_words(lag: dict[str, Any]) -> str:
    return "is off" if lag["local_left_s"] == 0 else time_words(lag, "local_left", "stays")
