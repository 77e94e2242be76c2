"""What a read will ask of the store, and what that costs, before anything is read.

Pure. Requests are estimated from sizes: what Spark or a task asks for depends on its columns, so
bytes are those of all columns, at most. Prices are given by whoever asks; the ones here are S3
Standard's list prices of us-east-1, from inside the region, where transfer is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from tierlog.spark.plan import HotSlice, ParquetSlice, RawSlice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tierlog.spark.plan import Slice

PIECE_BYTES = 8 << 20
"""Of a raw segment, in one GET."""
PARQUET_GETS = 3
"""Of a file beside its row groups: its size, the end of its footer, the footer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPrices:
    usd_per_1000_gets: float = 0.0004
    usd_per_gb: float = 0.0
    """Of 10^9 bytes that leave the store: nothing inside a region, 0.09 to the internet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCost:
    parquet_files: int = 0
    boundary_files: int = 0
    """Among them: read in part, and filtered."""
    parquet_bytes: int = 0
    raw_segments: int = 0
    raw_bytes: int = 0
    hot_offsets: int = 0
    """Asked of a broker."""
    offsets: int = 0
    """Of the span: rows, but for gaps and control records."""
    gets: int = 0
    usd: float = 0.0

    @property
    def bytes(self) -> int:
        return self.parquet_bytes + self.raw_bytes


def cost_of(
    slices: Iterable[Slice], *, manifest_gets: int = 0, prices: ReadPrices | None = None
) -> ReadCost:
    """`manifest_gets`: what was asked for already, to plan."""
    found = list(slices)
    parquet = [one for one in found if isinstance(one, ParquetSlice)]
    raw = [one for one in found if isinstance(one, RawSlice)]
    hot = [one for one in found if isinstance(one, HotSlice)]
    parquet_bytes = sum(map(_parquet_bytes, parquet))
    raw_bytes = sum(one.position_end - one.position for one in raw)
    gets = (
        manifest_gets
        + sum(PARQUET_GETS + _row_groups(one) for one in parquet)
        + sum(max(1, ceil((one.position_end - one.position) / PIECE_BYTES)) for one in raw)
    )
    chosen = prices or ReadPrices()
    usd = (
        gets / 1000 * chosen.usd_per_1000_gets
        + (parquet_bytes + raw_bytes) / 1e9 * chosen.usd_per_gb
    )
    return ReadCost(
        parquet_files=len({one.file.key for one in parquet}),
        boundary_files=len({one.file.key for one in parquet if not one.is_whole}),
        parquet_bytes=parquet_bytes,
        raw_segments=len({one.segment.key for one in raw}),
        raw_bytes=raw_bytes,
        hot_offsets=sum(one.end - one.start for one in hot),
        offsets=sum(one.end - one.start for one in found),
        gets=gets,
        usd=usd,
    )


def _share(one: ParquetSlice) -> float:
    return (one.end - one.start) / (one.file.end - one.file.start)


def _row_groups(one: ParquetSlice) -> int:
    """Those that are read: a boundary file's others are passed over by their offsets."""
    return min(one.file.row_groups, ceil(one.file.row_groups * _share(one)) + (not one.is_whole))


def _parquet_bytes(one: ParquetSlice) -> int:
    return ceil(one.file.size * _row_groups(one) / one.file.row_groups)


def as_text(cost: ReadCost, *, topics: Iterable[str], partitions: int) -> str:
    """For people, in the order in which the read goes through the log."""
    lines = [
        f"tierlog: {', '.join(sorted(topics))}, {partitions} partitions, {cost.offsets:,} offsets",
        f"  Parquet  {cost.parquet_files:,} files, {show_bytes(cost.parquet_bytes)}"
        + (f" ({cost.boundary_files:,} read in part)" if cost.boundary_files else ""),
        f"  raw      {cost.raw_segments:,} segments, {show_bytes(cost.raw_bytes)}",
        f"  hot      {cost.hot_offsets:,} offsets from the broker",
        f"  at most  {show_bytes(cost.bytes)} in about {cost.gets:,} GETs, ${cost.usd:.6f}",
    ]
    return "\n".join(lines)


def show_bytes(count: float) -> str:
    """Decimal units, as bills have them."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
