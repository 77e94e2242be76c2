"""Which part of a topic to read: from where, up to where, and when that is decided. Pure.

Without -f a read ends where each partition ended when it began, so that it always ends. A record
inside the span of offsets whose timestamp lies outside the times asked for is left out. Timestamps
need not rise, so `--until` ends nothing: it only leaves out.
"""

import re
from dataclasses import dataclass

from tierlog.cli.failure import usage
from tierlog.cli.times import parse_time

BEGINNING, END = "beginning", "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanSettings:
    """As the person wrote it, checked to make sense."""

    offset: str
    since: str | None
    until: str | None
    follow: bool

    @classmethod
    def checked(
        cls,
        *,
        from_beginning: bool,
        offset: str | None,
        since: str | None,
        until: str | None,
        follow: bool,
    ) -> "SpanSettings":
        if sum((from_beginning, offset is not None, since is not None)) > 1:
            raise usage("use one of --from-beginning, --offset and --since")
        if follow and until is not None:
            raise usage("-f waits for ever and --until ends: use one of them")
        if offset is not None and not re.fullmatch(rf"-?[0-9]{{1,18}}|{BEGINNING}|{END}", offset):
            raise usage(f"--offset {offset} is none of: N, beginning, end, -N")
        return cls(
            offset=offset or (END if follow and not from_beginning else BEGINNING),
            since=since,
            until=until,
            follow=follow,
        )

    def times(self, now_ms: int) -> tuple[int | None, int | None]:
        """Raises `NotATime`."""
        since, until = (
            None if text is None else parse_time(text, now_ms=now_ms)
            for text in (self.since, self.until)
        )
        if since is not None and until is not None and since >= until:
            raise usage(f"--since {self.since} is not before --until {self.until}")
        return since, until


@dataclass(slots=True)
class Span:
    """What is to be read of one partition: [at, end); without an end when following."""

    at: int
    end: int | None
    wanted: int = 0
    """Nothing below this offset, though reading begins before it where the log is not there yet."""
    start: int = 0

    def __post_init__(self) -> None:
        self.start = self.at

    @property
    def is_done(self) -> bool:
        return self.end is not None and self.at >= self.end


def first_offset(asked: str, *, log_start: int, log_end: int) -> int:
    """Where to begin in a partition that holds [log_start, log_end)."""
    if asked == BEGINNING:
        return log_start
    if asked == END:
        return log_end
    if asked.startswith("-"):
        return max(log_end + int(asked), log_start)
    return max(int(asked), log_start)


def share_done(spans: list[Span]) -> float | None:
    """How much of the offsets is read; None where there is no end."""
    if any(span.end is None for span in spans):
        return None
    whole = sum(max((span.end or 0) - span.start, 0) for span in spans)
    done = sum(min(span.at, span.end or 0) - span.start for span in spans if not _empty(span))
    return done / whole if whole else 1.0


def _empty(span: Span) -> bool:
    return (span.end or 0) <= span.start
