"""`tierlog explain`: where the segments of a topic are, why they are not elsewhere, and until when.

Asks a node's HTTP side, or, with `--store`, the bucket alone, which does not know the disks.
Neighbours of one fate are one line; `--all` prints every segment, as they come.
"""

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import typer

from tierlog.cli.asking import address_of, ask, no_node, parsed
from tierlog.cli.failure import Refused
from tierlog.cli.options import DEFAULT_HTTP
from tierlog.cli.progress import show_bytes, show_count
from tierlog.cli.reasons import WHERE, moment, show_length, shown
from tierlog.config import Address

LINES_MAX = 40
"""Of one partition, half of them the oldest and half the newest."""
HOLDS_NAMED = 3
"""In the line of a partition; `tierlog hold list` has them all."""
WIDTH_MAX = 160
TEXT_MIN = 30
"""Characters for the reasons; where there are fewer, they stand below."""
UNIT = re.compile(r"(?<=[0-9]) (?=[kMGT]?B\b|s\b|min\b|h\b|days\b)")
TIED = "\u00a0"
"""A blank where no line ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    topic: str
    partition: int | None = None
    every: bool = False
    as_json: bool = False
    http: str | None = None
    bootstrap: str | None = None


def run_explain(options: ExplainOptions) -> None:
    printer = Printer(options)
    for answer in _answers(_address(options), options):
        printer.show(answer)


class Printer:
    """Answers, as they come: each has some partitions, or some segments of one."""

    def __init__(self, options: ExplainOptions) -> None:
        self._options = options
        self._width = _width()
        self._seen: int | None = None
        """The partition that was shown last."""

    def show(self, answer: dict[str, Any]) -> None:
        if self._options.as_json:
            typer.echo(json.dumps(answer))
            return
        lines = self._wrapped(about(answer)) if self._seen is None else []
        for partition in answer["partitions"]:
            if partition["partition"] != self._seen:
                lines += ["", *self._wrapped([heading(answer, partition)])]
            self._seen = partition["partition"]
            lines += told(answer, partition, width=self._width, every=self._options.every)
        for line in lines:
            typer.echo(line)

    def _wrapped(self, lines: list[str]) -> list[str]:
        return [one for line in lines for one in wrapped(line, self._width, indent="  ")]


def _width() -> int:
    """A pipe has no width: nothing is broken there."""
    if not sys.stdout.isatty():
        return 10_000
    return min(shutil.get_terminal_size().columns, WIDTH_MAX)


# Asking


def _address(options: ExplainOptions) -> Address:
    """Where HTTP is spoken: as given, or at the usual port of the broker's host."""
    if options.http is not None or options.bootstrap is None:
        return address_of(options.http or DEFAULT_HTTP)
    host = options.bootstrap.split(",")[0].rpartition(":")[0]
    return address_of(f"{host}:{DEFAULT_HTTP.rpartition(':')[2]}")


def _answers(address: Address, options: ExplainOptions) -> Iterator[dict[str, Any]]:
    """As many as it takes; each is bounded."""
    path = f"/explain/{quote(options.topic, safe='')}"
    if options.every:
        yield from _segments(address, path, options.partition)
    elif options.partition is not None:
        yield asked(address, f"{path}/{options.partition}")
    else:
        first: int | None = 0
        while first is not None:
            answer = asked(address, f"{path}?from={first}")
            yield answer
            first = answer["next_partition"]


def _segments(address: Address, path: str, wanted: int | None) -> Iterator[dict[str, Any]]:
    """One by one, of one partition or all of them."""
    index, end = (0, 1) if wanted is None else (wanted, wanted + 1)
    while index < end:
        after: int | None = 0
        while after is not None:
            answer = asked(address, f"{path}/{index}?after={after}")
            yield answer
            after = answer["partitions"][0]["next_after"]
        index += 1
        end = answer["partition_count"] if wanted is None else end


def asked(address: Address, path: str) -> dict[str, Any]:
    status, text = ask(address, path)
    answer = parsed(text)
    if answer is None:
        raise no_node(address)
    if status != HTTPStatus.OK:
        if "detail" not in answer:
            raise no_node(address)
        if "routes" in answer:
            raise Refused(f"the node at {address} is older than `tierlog explain`")
        hint = "; `tierlog topic list` shows which there are" if "topic" in answer else ""
        raise Refused(f"{answer['detail']}{hint}")
    return answer


# What people read


def about(answer: dict[str, Any]) -> list[str]:
    """What holds for all partitions."""
    lines = [f"{answer['topic']}: {rules_line(answer['rules'])}"]
    store, now_ms = answer["store"], answer["now_ms"]
    if store is None:
        lines.append("from the bucket alone: what nodes have on their disks is not known")
    elif store["refusal"] is not None:
        lines.append(f"nothing is uploaded any more: {store['refusal']}")
    elif store["away_since_ms"] is not None:
        since_ms = store["away_since_ms"]
        since = "has not answered yet" if since_ms < 0 else f"away since {moment(since_ms, now_ms)}"
        retry = f", tried again in {show_length(store['retry_ms'])}"
        error = f": {store['error']}" if store["error"] else ""
        if store.get("is_state_lost"):
            since = f"without cluster/STATE since {moment(since_ms, now_ms)}"
        lines.append(f"the store is {since}{retry}{error}".replace("is has", "has"))
    return lines


def rules_line(rules: dict[str, Any]) -> str:
    """The settings that say how long things are kept."""
    if not rules["expires"]:
        kept = "compacted"
    else:
        kept = f"kept {_limits(rules['retention_ms'], rules['retention_bytes'])}"
    if not rules["is_tiered"]:
        return f"{kept}, on the disk only (remote.storage.enable=false)"
    local = _limits(rules["local_retention_ms"], rules["local_retention_bytes"])
    line = f"{kept}; on the disk {local} after its upload"
    grace = f"; objects deleted {show_length(rules['grace_ms'])} after they expired"
    return line + grace if rules["copies"] else f"{line}; remote.log.copy.disable{grace}"


def _limits(ms: int, size: int) -> str:
    limits = [show_length(ms)] if ms >= 0 else []
    if size >= 0:
        limits.append(f"up to {show_bytes(size)}")
    return " and ".join(limits) or "for ever"


def told(
    answer: dict[str, Any], partition: dict[str, Any], *, width: int, every: bool
) -> list[str]:
    """The segments, then what else there is to say."""
    rows, lines = partition["rows"], []
    half = LINES_MAX // 2
    if every or len(rows) <= LINES_MAX:
        lines += row_lines(answer, rows, width=width)
    else:
        lines += row_lines(answer, rows[:half], width=width)
        lines.append(f"  ... {len(rows) - 2 * half:,} lines more: --all shows every segment")
        lines += row_lines(answer, rows[-half:], width=width)
    pages = partition["garbage_pages"]
    if pages["count"]:
        when = moment(pages["not_before_ms"], answer["now_ms"])
        lines.append(
            f"  {show_count(pages['count'], 'page')} of the manifest were replaced: deleted from "
            f"{when} on"
        )
    wrongs = [partition["fence"], partition["error"], *partition["problems"]]
    return lines + [f"  ! {wrong}" for wrong in wrongs if wrong]


def heading(answer: dict[str, Any], partition: dict[str, Any]) -> str:
    rules = answer["rules"]
    parts = [f"partition {partition['partition']}: {_offsets_of(partition)}"]
    if partition["cold_segments"]:
        published = moment(partition["published_ms"], answer["now_ms"])
        parts.append(f"{show_bytes(partition['cold_bytes'])} in the bucket, published {published}")
    if partition["local_bytes"]:
        parts.append(f"{show_bytes(partition['local_bytes'])} on the disk")
    limit = rules["retention_bytes"]
    if limit >= 0 and rules["expires"]:
        parts.append(f"retention.bytes: {show_bytes(_used(partition))} of {show_bytes(limit)} used")
    if partition["bytes_per_s"]:
        parts.append(f"{show_bytes(partition['bytes_per_s'])}/s coming in")
    if held := [one["id"] for one in partition["holds"]]:
        more = f" and {len(held) - HOLDS_NAMED} more" if len(held) > HOLDS_NAMED else ""
        parts.append(f"on hold: {', '.join(held[:HOLDS_NAMED])}{more}")
    return " · ".join(parts)


def _offsets_of(partition: dict[str, Any]) -> str:
    start, end = partition["log_start"], partition["high_watermark"]
    return f"offsets {start:,}-{end - 1:,}" if end > start else f"empty at offset {end:,}"


def _used(partition: dict[str, Any]) -> int:
    used: int = partition["retained_bytes"]
    return used


def row_lines(answer: dict[str, Any], rows: list[dict[str, Any]], *, width: int) -> list[str]:
    """Columns, the last of them broken to the width of the terminal."""
    cells = [_cells(row) for row in rows]
    widths = [max((len(each[column]) for each in cells), default=0) for column in range(4)]
    lines = []
    for row, each in zip(rows, cells, strict=True):
        left = [
            each[0].rjust(widths[0]),
            each[1].rjust(widths[1]),
            each[2].rjust(widths[2]),
            each[3].ljust(widths[3]),
        ]
        start = "  " + "  ".join(left) + "  "
        text = shown(row["reasons"], store=answer["store"], now_ms=answer["now_ms"])
        lines += _broken(start, text, width)
    return lines


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    base, end = row["base"], row["next_offset"]
    offsets = f"{base:,}-{end - 1:,}" if end > base else f"{base:,}"
    size = "" if row["bytes"] is None else show_bytes(row["bytes"])
    return offsets, _parts(row), size, WHERE.get(row["state"], row["state"])


def _parts(row: dict[str, Any]) -> str:
    found = [show_count(row["segments"], "segment")] if row["segments"] else []
    if row["pages"]:
        found.append(show_count(row["pages"], "page"))
    return ", ".join(found)


def _broken(start: str, text: str, width: int) -> list[str]:
    if len(start) + len(text) <= width:
        return [(start + text).rstrip()]
    if width - len(start) < TEXT_MIN:
        return [start.rstrip(), *(f"      {line}" for line in wrapped(text, width - 6))]
    first, *rest = wrapped(text, width - len(start))
    return [start + first, *(" " * len(start) + line for line in rest)]


def wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """Lines of at most so many characters; a number stays with its unit."""
    tied = UNIT.sub(TIED, text)
    lines = textwrap.wrap(tied, width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(TIED, " ") for line in lines]
