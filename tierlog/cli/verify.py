"""`tierlog verify`: whether everything that was published is in the bucket, and unchanged.

Asks the object store alone, and writes nothing into it. stdout has what was found, as a table or as
JSON; stderr how far it is: a line that is redrawn on a terminal, a line a partition anywhere else.
Exit code 0: nothing is damaged; 1: something is, or it could not be found out.
"""

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from tierlog.cli.bucket import check_folder
from tierlog.cli.failure import FAILED, say, usage
from tierlog.cli.progress import (
    REDRAW_S,
    SILENT_S,
    WIPE,
    show_bytes,
    show_count,
    show_seconds,
)
from tierlog.cli.tables import print_table
from tierlog.config import load_node_settings

if TYPE_CHECKING:
    from typing import TextIO

    from tierlog.cold.audit import AuditReport, Finding, PartitionAudit
    from tierlog.config import NodeSettings
    from tierlog.env import Clock

RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(|k|M|G)(?:B)?(?:/s)?", re.IGNORECASE)
FACTORS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    topics: tuple[str, ...] = ()
    store: str | None = None
    data: str | None = None
    cluster_id: str | None = None
    is_deep: bool = False
    state: str | None = None
    rate: str | None = None
    sets: tuple[str, ...] = ()
    as_json: bool = False


def run_verify(options: VerifyOptions) -> None:
    if options.state is not None and not options.is_deep:
        raise usage("--state goes with --deep: without it there is nothing to resume")
    settings = settings_of(options)
    check_folder(settings)
    if options.state is not None and os.path.isdir(options.state):
        raise usage(f"--state {options.state} is a directory; name a file in it")
    rate = None if options.rate is None else parse_rate(options.rate)
    from tierlog.server import verify  # Not before the settings are known to be sound.

    screen = Screen(sys.stderr, is_deep=options.is_deep)
    try:
        report = asyncio.run(
            verify(
                settings,
                cluster_id=options.cluster_id,
                topics=options.topics,
                is_deep=options.is_deep,
                bytes_per_second=rate,
                state_path=None if options.state is None else os.path.abspath(options.state),
                has_copies=options.data is not None,
                screen=screen,
            )
        )
    finally:
        screen.wipe()
    if options.as_json:
        typer.echo(json.dumps(as_value(report), indent=2))
    else:
        show(report)
    if not report.is_sound:
        raise typer.Exit(FAILED)


def settings_of(options: VerifyOptions) -> "NodeSettings":
    """Raises `InvalidConfig`."""
    given = {"data": os.path.abspath(options.data) if options.data else None}
    given["store"] = options.store
    return load_node_settings(
        options={name: text for name, text in given.items() if text is not None},
        sets=options.sets,
        environ=os.environ,
        file=None,
    )


def parse_rate(text: str) -> float:
    found = RATE.fullmatch(text.strip())
    rate = float(found[1]) * FACTORS[found[2].lower()] if found else 0.0
    if rate <= 0:
        raise usage(f"--rate is '{text}'; it must be bytes a second, as 50000000 or 50M")
    return rate


class Screen:
    """How far it is, for whoever waits."""

    def __init__(self, stream: "TextIO", *, is_deep: bool) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._is_deep = is_deep
        self._clock: Clock | None = None
        self._began = self._drawn = 0.0
        self._total = self._done = self._partitions = 0
        self._is_visible = False

    def begin(self, clock: "Clock") -> None:
        self._clock = clock
        self._began = clock.monotonic()

    def total(self, count: int) -> None:
        self._total = count

    def bytes(self, count: int) -> None:
        self._done += count
        self._draw()

    def partition(self, audit: "PartitionAudit") -> None:
        self._partitions += 1
        if self._is_terminal:
            self._draw()
        elif self._is_deep:
            say(f"{audit.topic}-{audit.partition}: {partition_line(audit)}")

    def _draw(self) -> None:
        assert self._clock is not None, "begun"
        now = self._clock.monotonic()
        if not self._is_terminal or now - self._began < SILENT_S or now - self._drawn < REDRAW_S:
            return
        self._drawn, self._is_visible = now, True
        self._stream.write(WIPE + self.line(now - self._began))
        self._stream.flush()

    def line(self, seconds: float) -> str:
        """`12.3 MB of 45.6 MB  27 %  10.1 MB/s  0:03 left  2 partitions`"""
        parts = []
        if self._is_deep:
            share = min(self._done / self._total, 1.0) if self._total else 0.0
            parts.append(f"{show_bytes(self._done)} of {show_bytes(self._total)}")
            parts.append(f"{share:.0%}".replace("%", " %"))
            parts.append(f"{show_bytes(self._done / seconds)}/s")
            if share:
                parts.append(f"{show_seconds(seconds * (1 - share) / share)} left")
        parts.append(f"{self._partitions:,} partitions")
        return "  ".join(parts)

    def wipe(self) -> None:
        if self._is_visible:
            self._is_visible = False
            self._stream.write(WIPE)
            self._stream.flush()


# What people read


def partition_line(audit: "PartitionAudit") -> str:
    files = show_count(audit.table_files, "file")
    tables = f"{files} of its table, " if audit.table_files else ""
    line = f"{show_count(audit.segments, 'segment')}, {tables}{show_bytes(audit.read_bytes)} read"
    if audit.skipped_bytes:
        line += f", {show_bytes(audit.skipped_bytes)} were read before"
    return line + (f", {counted(len(audit.findings))}" if audit.findings else "")


def show(report: "AuditReport") -> None:
    typer.echo(f"cluster {report.cluster_id}")
    if report.partitions:
        print_table([row_of(one) for one in report.partitions], right=("from", "to", "bytes"))
    for one in report.partitions:
        for note in one.notes:
            typer.echo(f"{one.topic}-{one.partition}: {note}")
    for note in report.notes:
        typer.echo(note)
    for number, finding in enumerate(report.findings, start=1):
        for line in finding_lines(number, finding):
            typer.echo(line)
    say(closing(report))


def row_of(one: "PartitionAudit") -> dict[str, Any]:
    is_known = one.head_version >= 0
    return {
        "topic": one.topic,
        "partition": one.partition,
        "from": one.log_start if is_known else "-",
        "to": one.next_offset if is_known else "-",
        "segments": one.segments,
        "bytes": show_bytes(one.bytes),
        "result": counted(len(one.findings)) if one.findings else "sound" if is_known else "empty",
    }


def finding_lines(number: int, finding: "Finding") -> list[str]:
    about = "" if finding.start is None else f", offsets {finding.start} to {finding.end}"
    return [
        "",
        f"{number}. {finding.kind.value} in {finding.place}{about}",
        f"   key       {finding.key}",
        f"   expected  {finding.expected}",
        f"   found     {finding.found}",
        f"   to do     {finding.advice}",
    ]


def counted(count: int) -> str:
    return "1 finding" if count == 1 else f"{count} findings"


def closing(report: "AuditReport") -> str:
    asked = sum(report.requests.values())
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.requests.items() if count)
    how = "every byte was read" if report.is_deep else "objects were not read: --deep does"
    what = "nothing is damaged" if report.is_sound else counted(len(report.findings))
    return f"{what}; {how}; {asked:,} requests ({kinds})"


def as_value(report: "AuditReport") -> dict[str, Any]:
    return {
        "cluster_id": report.cluster_id,
        "is_deep": report.is_deep,
        "is_sound": report.is_sound,
        "requests": report.requests,
        "notes": list(report.notes),
        "findings": [finding_value(one) for one in report.findings],
        "partitions": [
            {
                "topic": one.topic,
                "topic_id": one.topic_id,
                "partition": one.partition,
                "head_version": one.head_version,
                "log_start": one.log_start,
                "next_offset": one.next_offset,
                "segments": one.segments,
                "bytes": one.bytes,
                "read_bytes": one.read_bytes,
                "skipped_bytes": one.skipped_bytes,
                "table_files": one.table_files,
                "table_bytes": one.table_bytes,
                "findings": len(one.findings),
                "notes": list(one.notes),
            }
            for one in report.partitions
        ],
    }


def finding_value(one: "Finding") -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "topic": one.topic,
        "partition": one.partition,
        "start": one.start,
        "end": one.end,
        "key": one.key,
        "expected": one.expected,
        "found": one.found,
        "advice": one.advice,
    }
