"""Says what was measured, on which machine: a table, JSON, and the sections of RESULTS.md.

RESULTS.md holds one section per bench module between a pair of marker comments. Writing replaces
the section of the modules that ran and leaves every other byte of the file alone.
"""

import json
import math
import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gauge import Reading
from benchmarks.harness import Row, Size, Spread

ROW_COLUMNS = (
    "comparison",
    "variant",
    "ratio",
    "min-max",
    "cpu ratio",
    "speed",
    "hold",
    "aim",
    "verdict",
)
READING_COLUMNS = (
    "gauge",
    "figure",
    "variant",
    "value",
    "min-max ",
    "ratio",
    "min-max",
    "hold",
    "aim",
    "verdict",
)
WORDS = frozenset({"comparison", "gauge", "figure", "variant", "verdict"})
"""Columns that stand to the left; the rest are numbers."""

PREAMBLE = """# Results

Written by `make bench`; each section stands between its markers and is replaced by its next run.
A ratio is the median over interleaved rounds of (speed of the variant / speed of the baseline in
the same round), with the smallest and largest round beside it. `cpu ratio` compares work per CPU
second. Speeds are context: they change with the machine and the hour. `held` and `MISSED` compare
the wall ratio with what we promise to hold; `aim met` says it also reached the aim; `report` has no
bound.

A gauge gives several figures of the same run: `value` is the median over the rounds, `ratio` the
median of the per-round ratios to the baseline. Speeds are held from below, all else from above. A
gauge without a baseline is judged by its value.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Enough to judge a figure, nothing that names the machine."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    load: tuple[float, float, float]
    date: str

    @classmethod
    def here(cls) -> "Machine":
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return cls(
            cpu=_cpu_model(),
            cores=os.cpu_count() or 0,
            memory_gib=round(memory / (1 << 30), 1),
            kernel=f"{platform.system()} {kernel_version(platform.release())}",
            python=f"{platform.python_implementation()} {platform.python_version()}",
            load=os.getloadavg(),
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )

    def sentence(self) -> str:
        load = " ".join(f"{value:.1f}" for value in self.load)
        return (
            f"{self.date}; {self.cores} x {self.cpu}, {self.memory_gib:g} GiB, {self.kernel}, "
            f"{self.python}, load average {load}"
        )


def kernel_version(release: str) -> str:
    """The numbers alone: what follows them names the build, and often the host or its owner."""
    found = re.match(r"\d+\.\d+", release)
    return found.group() if found else "unknown"


def _cpu_model() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def size_sentence(size: Size, rows: Sequence[Row], readings: Sequence[Reading] = ()) -> str:
    counts = [row.rounds for row in rows] + [reading.rounds for reading in readings]
    rounds = max(counts, default=size.rounds)
    return (
        f"size {size.name}: {size.data_bytes / (1 << 20):g} MiB of data, {rounds} rounds, "
        f"measurements of at least {size.measure_s * 1e3:g} ms"
    )


def table(rows: Iterable[Row]) -> str:
    return _aligned(ROW_COLUMNS, [_row_cells(row) for row in rows])


def readings_table(readings: Iterable[Reading]) -> str:
    return _aligned(READING_COLUMNS, [_reading_cells(reading) for reading in readings])


def _aligned(columns: Sequence[str], lines: Iterable[list[str]]) -> str:
    """Plain text, aligned; numbers to the right."""
    cells = [list(columns), *lines]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    texts = [
        "  ".join(
            text.ljust(width) if column in WORDS else text.rjust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in cells
    ]
    texts.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(texts)


def _row_cells(row: Row) -> list[str]:
    return [
        row.comparison,
        row.variant,
        _number(row.ratio.median),
        _range(row.ratio),
        _number(row.cpu_ratio.median),
        _speed(row.units_per_s, row.unit),
        _bound(row.hold),
        _bound(row.aim),
        row.verdict.value,
    ]


def _reading_cells(reading: Reading) -> list[str]:
    ratio = reading.ratio
    return [
        reading.gauge,
        reading.figure,
        reading.variant,
        _number(reading.value.median),
        _range(reading.value),
        "-" if ratio is None else _number(ratio.median),
        "-" if ratio is None else _range(ratio),
        _bound(reading.hold),
        _bound(reading.aim),
        reading.verdict.value,
    ]


def _bound(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _range(spread: Spread) -> str:
    return f"{_number(spread.low)}-{_number(spread.high)}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"


def _speed(speed: Spread, unit: str) -> str:
    if unit == "bytes":
        return f"{speed.median / 1e6:,.0f} MB/s"
    return f"{speed.median:,.0f} {unit}/s"


def notes(rows: Iterable[Row], readings: Iterable[Reading] = ()) -> list[str]:
    """Each comparison's note once, in order."""
    noted = [(row.comparison, row.note) for row in rows]
    noted += [(reading.gauge, reading.note) for reading in readings]
    return list(dict.fromkeys(f"{name}: {note}" for name, note in noted if note))


def as_json(
    rows: Iterable[Row], size: Size, machine: Machine, readings: Iterable[Reading] = ()
) -> str:
    document = {
        "machine": asdict(machine),
        "size": {"name": size.name, "data_bytes": size.data_bytes, "measure_s": size.measure_s},
        "rows": [_plain(row) for row in rows],
        "readings": [_plain(reading) for reading in readings],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _plain(row: Row | Reading) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, Spread):
            return None if math.isnan(value.median) else asdict(value)
        return value

    found = {each.name: plain(getattr(row, each.name)) for each in fields(row)}
    found["verdict"] = row.verdict.value
    return found


def section(
    rows: Sequence[Row], size: Size, machine: Machine, readings: Sequence[Reading] = ()
) -> str:
    parts = [machine.sentence() + ".", size_sentence(size, rows, readings) + "."]
    if rows:
        parts += ["", "```", table(rows), "```"]
    if readings:
        parts += ["", "```", readings_table(readings), "```"]
    remarks = notes(rows, readings)
    if remarks:
        parts += ["", *(f"- {remark}" for remark in remarks)]
    return "\n".join(parts)


def write_section(path: Path, name: str, body: str) -> None:
    """Replace the section `name` of a results file, or add it at the end."""
    text = path.read_text() if path.exists() else PREAMBLE
    begin, end = f"<!-- bench:{name} begin -->", f"<!-- bench:{name} end -->"
    block = f"{begin}\n## {name}\n\n{body}\n{end}"
    before, found, rest = text.partition(begin)
    if not found:
        path.write_text(f"{text.rstrip()}\n\n{block}\n")
        return
    _, closed, after = rest.partition(end)
    if not closed:
        raise ValueError(f"{path}: section {name} begins but does not end")
    path.write_text(before + block + after)
