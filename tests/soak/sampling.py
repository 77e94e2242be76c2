"""What a soak looks at all the time, and whether it stays flat. `judge` is pure.

Samples of the warm-up do not count: until a record has lived its whole life there is less of
everything. What follows is cut into thirds. A quantity is flat if the median of the last third is
at most `GROWTH` times that of the first, and a little more. Medians, because an outage fills the
disk for a while, as it should.
"""

import contextlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.soak.shelves import Measure, Shelf, files_in

GROWTH = 1.3
THIRD_MIN = 5
"""Fewer samples in a third tell nothing."""
SLACK = {
    "memory_bytes": 24 << 20,
    "worker_bytes": 64 << 20,
    "disk_bytes": 1 << 20,
    "store_bytes": 1 << 20,
    "store_objects": 60,
}
"""Beyond the growth: what an allocator, an active segment or a lot of garbage is worth. A worker is
there from the first conversion of a life on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    at_s: float
    life: int
    """Of the node: how often it was started."""
    memory_bytes: int
    """Resident, without mapped files: those are counted with the disk."""
    worker_bytes: int
    """The same, of the processes that the node started, which make its tables."""
    disk_bytes: int
    """Of the data directory, without the cache, which has a budget."""
    cache_bytes: int
    store_bytes: int
    store_objects: int
    segments: int
    files: int
    """Of tables."""
    receipts: int


def take(
    *, at_s: float, life: int, pid: int, data: Path, shelf: Shelf, measure: Measure | None = None
) -> Sample:
    """Raises `OSError` or what the store's client does, where one of them is away."""
    found = measure or shelf.measure()
    sizes = list(files_in(data))
    cache = sum(size for path, size in sizes if path.startswith(f"{data}/cache/"))
    return Sample(
        at_s=at_s,
        life=life,
        memory_bytes=anonymous_bytes(pid),
        worker_bytes=worker_bytes(pid),
        disk_bytes=sum(size for _, size in sizes) - cache,
        cache_bytes=cache,
        store_bytes=found.bytes,
        store_objects=found.objects,
        segments=found.segments,
        files=found.files,
        receipts=found.receipts,
    )


def anonymous_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"process {pid} has ended")


def worker_bytes(pid: int) -> int:
    """Of its children, and theirs. One that ends meanwhile counts nothing."""
    total, parents = 0, [pid]
    while parents:
        for path in Path(f"/proc/{parents.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for child in map(int, path.read_text().split()):
                    parents.append(child)
                    total += anonymous_bytes(child)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Flatness:
    name: str
    medians: tuple[float, ...]
    """Of the thirds; empty: too few samples."""
    bound: float
    is_flat: bool

    def as_value(self) -> dict[str, Any]:
        return {"medians": list(self.medians), "bound": self.bound, "is_flat": self.is_flat}


def judge(samples: Sequence[Sample], *, warm_up_s: float) -> list[Flatness]:
    counted = [one for one in samples if one.at_s >= warm_up_s]
    return [flatness(name, [getattr(one, name) for one in counted]) for name in SLACK]


def flatness(name: str, values: Sequence[float]) -> Flatness:
    third = len(values) // 3
    if third < THIRD_MIN:
        return Flatness(name=name, medians=(), bound=0, is_flat=False)
    parts = values[:third], values[third : 2 * third], values[2 * third :]
    medians = tuple(float(statistics.median(part)) for part in parts)
    bound = GROWTH * medians[0] + SLACK[name]
    return Flatness(name=name, medians=medians, bound=bound, is_flat=medians[2] <= bound)
