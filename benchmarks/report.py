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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, Size, Spread

COLUMNS = ("comparison", "variant", "ratio", "min-max", "cpu ratio", "speed", "hold", "verdict")
NUMERIC = frozenset({"ratio", "min-max", "cpu ratio", "speed", "hold"})

PREAMBLE = """# Results

Written by `make bench`; each section stands between its markers and is replaced by its next run.
A ratio is the median over interleaved rounds of (speed of the variant / speed of the baseline in
the same round), with the smallest and largest round beside it. `cpu ratio` compares work per CPU
second. Speeds are context: they change with the machine and the hour. `held` and `MISSED` compare
the wall ratio with what we promise to hold; `aim met` says it also reached the aim; `report` has no
bound.
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


def size_sentence(size: Size, rows: Sequence[Row]) -> str:
    rounds = rows[0].rounds if rows else size.rounds
    return (
        f"size {size.name}: {size.data_bytes / (1 << 20):g} MiB of data, {rounds} rounds, "
        f"measurements of at least {size.measure_s * 1e3:g} ms"
    )


def table(rows: Iterable[Row]) -> str:
    """Plain text, aligned; numbers to the right."""
    cells = [list(COLUMNS), *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    lines = [
        "  ".join(_pad(text, i, widths[i]) for i, text in enumerate(line)).rstrip()
        for line in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _pad(text: str, column: int, width: int) -> str:
    return text.rjust(width) if COLUMNS[column] in NUMERIC else text.ljust(width)


def _cells(row: Row) -> list[str]:
    return [
        row.comparison,
        row.variant,
        _number(row.ratio.median),
        f"{_number(row.ratio.low)}-{_number(row.ratio.high)}",
        _number(row.cpu_ratio.median),
        _speed(row.units_per_s, row.unit),
        "-" if row.hold is None else f"{row.hold:g}",
        row.verdict.value,
    ]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _speed(speed: Spread, unit: str) -> str:
    if unit == "bytes":
        return f"{speed.median / 1e6:,.0f} MB/s"
    return f"{speed.median:,.0f} {unit}/s"


def notes(rows: Iterable[Row]) -> list[str]:
    """Each comparison's note once, in order."""
    return list(dict.fromkeys(f"{row.comparison}: {row.note}" for row in rows if row.note))


def as_json(rows: Iterable[Row], size: Size, machine: Machine) -> str:
    document = {
        "machine": asdict(machine),
        "size": {"name": size.name, "data_bytes": size.data_bytes, "measure_s": size.measure_s},
        "rows": [_plain(row) for row in rows],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _plain(row: Row) -> dict[str, Any]:
    def spread(value: Spread) -> dict[str, float] | None:
        return None if math.isnan(value.median) else asdict(value)

    plain = asdict(row)
    plain["verdict"] = row.verdict.value
    for name in ("ratio", "cpu_ratio", "units_per_s"):
        plain[name] = spread(getattr(row, name))
    return plain


def section(rows: Sequence[Row], size: Size, machine: Machine) -> str:
    parts = [
        machine.sentence() + ".",
        size_sentence(size, rows) + ".",
        "",
        "```",
        table(rows),
        "```",
    ]
    remarks = notes(rows)
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
