"""How far a long read or write has come: one line on a terminal, nothing anywhere else.

The line appears after half a second, so that short commands stay silent, and is wiped before
anything else is written to the terminal.
"""

from dataclasses import dataclass
from typing import TextIO

from tierlog.env import Clock

SILENT_S = 0.5
REDRAW_S = 0.1

WIPE = "\r\x1b[K"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What has been done after some time; `share` of the whole, or None where that is unknown."""

    records: int
    size_bytes: int
    share: float | None
    seconds: float


def line_of(done: Done, label: str = "") -> str:
    """`12.3 MB  45 %  1.2 MB/s  0:12 left  10,000 records`; of what counts no bytes, the label
    instead of these."""
    parts = [label or show_bytes(done.size_bytes)]
    if done.share is not None:
        parts.append(f"{min(done.share, 1.0):.0%}".replace("%", " %"))
    if done.seconds > 0 and not label:
        parts.append(f"{show_bytes(done.size_bytes / done.seconds)}/s")
    if done.share and done.seconds > 0:
        left_s = done.seconds * max(1.0 - done.share, 0.0) / done.share
        parts.append(f"{show_seconds(left_s)} left")
    parts.append(_count(done.records))
    return "  ".join(parts)


def summary_of(done: Done) -> str:
    rate = f", {show_bytes(done.size_bytes / done.seconds)}/s" if done.seconds >= SILENT_S else ""
    size = show_bytes(done.size_bytes)
    return f"{_count(done.records)} ({size}) in {done.seconds:.1f} s{rate}"


def _count(records: int) -> str:
    return "1 record" if records == 1 else f"{records:,} records"


def show_bytes(count: float) -> str:
    """Decimal units, as disks and bills have them."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.1f} {unit}"


def show_count(number: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"1 {word}" if number == 1 else f"{number:,} {word}s"


def show_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Counts, and draws while `stream` is a terminal."""

    def __init__(
        self, stream: TextIO, clock: Clock, *, draws: bool = True, label: str = ""
    ) -> None:
        self.records = 0
        self.size_bytes = 0
        self._stream = stream
        self._clock = clock
        self._label = label
        self._draws = draws and stream.isatty()
        self._began = clock.monotonic()
        self._drawn = 0.0
        self._visible = False

    def done(self, share: float | None = None) -> Done:
        seconds = self._clock.monotonic() - self._began
        return Done(records=self.records, size_bytes=self.size_bytes, share=share, seconds=seconds)

    def draw(self, share: float | None) -> None:
        """Draw if it is time to."""
        now = self._clock.monotonic()
        if self._draws and now - self._began >= SILENT_S and now - self._drawn >= REDRAW_S:
            self._drawn = now
            self._visible = True
            self._stream.write(WIPE + line_of(self.done(share), self._label))
            self._stream.flush()

    def wipe(self) -> None:
        """Make room for something else."""
        if self._visible:
            self._visible = False
            self._stream.write(WIPE)
            self._stream.flush()
