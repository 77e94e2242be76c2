"""What a node counts: plain numbers, cheap to add to, read when somebody asks.

The hot path adds to integers; the metrics room turns them into Prometheus families at scrape time.
Counters only rise, gauges are asked of the components themselves.
"""

from bisect import bisect_left
from typing import Final

LATENCY_BOUNDS_S: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
)
"""From a page-cache append to a long poll."""


class Histogram:
    """Counts by upper bound; the last bucket is everything above."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


class ApiStats:
    """Requests of one API."""

    __slots__ = ("errors", "requests", "seconds")

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        """Requests that ended the connection, or were not understood."""
        self.seconds = Histogram()


class TopicStats:
    """Traffic of one topic. Kept while the topic lives."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "fetches",
        "produce_errors",
        "produces",
        "records_in",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0
        self.produces = 0
        self.produce_errors = 0
        self.fetches = 0

    def add(self, other: "TopicStats") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class NodeStats:
    """Everything that belongs to no topic."""

    __slots__ = ("apis", "loop_lag", "produce_refusals", "syncs", "throttled_ms", "throttles")

    def __init__(self) -> None:
        self.apis: dict[int, ApiStats] = {}
        self.loop_lag = Histogram()
        self.syncs = Histogram()
        self.throttles = 0
        self.throttled_ms = 0
        self.produce_refusals: dict[type[Exception], int] = {}
        """Batches that were not taken, by what was wrong with them."""

    def refuse(self, error: Exception) -> None:
        kind = type(error)
        self.produce_refusals[kind] = self.produce_refusals.get(kind, 0) + 1

    def api(self, api_key: int) -> ApiStats:
        found = self.apis.get(api_key)
        if found is None:
            found = self.apis[api_key] = ApiStats()
        return found
