"""How far the model is off: what it forecasts for a run, beside what was counted there.

A run writes so many bytes, in segments of a size, and reads them back once. The forecast is that of
`plan` for a month in which just these bytes are written and replayed, so that the same formulas are
judged that make bills.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cost_model.derive import derive
from cost_model.plan import usages_of
from cost_model.prices import PriceBook, default_book
from cost_model.scenario import Parquet, Reads, Scenario, Tiering, Workload
from cost_model.units import HOUR, YEAR

MONTH_HOURS = 730.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a benchmark did."""

    bytes: float
    """Of batches, as stored."""
    partitions: int
    segment: float
    replays: float = 1.0
    """How often everything was read from the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    forecast: float
    counted: float

    @property
    def error(self) -> float:
        """As a share of what was counted: above 0 where the model says too much."""
        return (self.forecast - self.counted) / self.counted if self.counted else 0.0


def forecast(run: Run, *, book: PriceBook | None = None) -> dict[str, float]:
    """PUTs, GETs, bytes and objects of a run."""
    month_s = MONTH_HOURS * HOUR
    scenario = Scenario(
        name="calibration",
        workload=Workload(
            write=run.bytes / month_s, partitions=run.partitions, retention=month_s, groups=0.0
        ),
        # Whole segments: a run does not last long enough for them to roll by time.
        tiering=Tiering(segment=run.segment, roll=100 * YEAR, sweeps_per_day=0.0),
        reads=Reads(replay=run.bytes * run.replays, cache=0.0),
        parquet=Parquet(enabled=False),
    )
    (usage,) = usages_of(derive(scenario, book or default_book()))
    return {
        "PUTs": usage.puts,
        "bytes written": usage.uploaded_bytes,
        "objects": usage.objects,
        "GETs": usage.gets,
        "bytes read": usage.retrieved_bytes,
    }


def compared(run: Run, counted: Mapping[str, float]) -> list[Figure]:
    """Those figures that were counted."""
    said = forecast(run)
    return [
        Figure(name=name, forecast=said[name], counted=value) for name, value in counted.items()
    ]
