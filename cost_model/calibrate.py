"""How far the model is off: what it forecasts for a run, beside what was counted there.

A run writes so many bytes, in segments of a size, and reads them back once. The forecast is that of
`plan` for a month that is as short as the run, in which just these bytes are written and replayed:
the same formulas are judged that make bills. To them comes what a month has little of and a run has
once for each partition, its beginning and its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cost_model.derive import Derived, derive
from cost_model.flow import publication_requests
from cost_model.plan import usages_of
from cost_model.prices import PriceBook, default_book
from cost_model.scenario import Billing, Parquet, Reads, Scenario, Tiering, Workload
from cost_model.units import HOUR, YEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a benchmark did."""

    bytes: float
    """Of batches, as stored."""
    partitions: int
    segment: float
    seconds: float
    """That the writing took: how many segments were published together depends on it."""
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
    scenario = Scenario(
        name="calibration",
        workload=Workload(
            write=run.bytes / run.seconds,
            partitions=run.partitions,
            retention=run.seconds,
            groups=0.0,
        ),
        # Whole segments: a run does not last long enough for them to roll by time.
        tiering=Tiering(
            segment=run.segment,
            roll=100 * YEAR,
            local_retention=run.seconds,
            sweeps_per_day=0.0,
            merge=0.0,  # A run ends before there is anything to merge.
            scrub_every=0.0,
            scrub_ask_every=0.0,
        ),
        reads=Reads(replay=run.bytes * run.replays, cache=0.0),
        parquet=Parquet(enabled=False),
        billing=Billing(month_hours=run.seconds / HOUR),
    )
    derived = derive(scenario, book or default_book())
    (usage,) = usages_of(derived)
    return {
        "PUTs": usage.puts + run.partitions * _ends(derived),
        "bytes written": usage.uploaded_bytes,
        "objects": usage.objects,
        "GETs": usage.gets,
        "bytes read": usage.retrieved_bytes,
    }


def _ends(derived: Derived) -> float:
    """PUTs beside those of a steady flow: a partition's manifest is claimed by its leader, and the
    last segment, which nothing follows, is sealed by time and published alone."""
    alone = derived.scenario.tiering.publish_puts
    return alone + alone - publication_requests(derived)


def compared(run: Run, counted: Mapping[str, float]) -> list[Figure]:
    """Those figures that were counted."""
    said = forecast(run)
    return [
        Figure(name=name, forecast=said[name], counted=value) for name, value in counted.items()
    ]
