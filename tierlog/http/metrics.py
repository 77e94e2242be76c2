"""From the node's plain numbers to Prometheus samples, at the moment of a scrape.

Nobody but a scrape pays for this: what is counted is counted in integers.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import Metric

from tierlog.broker.stats import Histogram
from tierlog.http.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.http.families import Family, Reading
    from tierlog.http.view import NodeView

READINGS_A_SLICE: Final = 250
"""Two or three milliseconds until they are text."""


class NodeCollector:
    """All families at once, for a Prometheus registry."""

    def __init__(self, view: NodeView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            metric = empty(family)
            for reading in family.read(self._view):
                add(metric, family, reading)
            yield metric


def slices_of(view: NodeView) -> Iterator[Iterator[Metric]]:
    """Family after family, each in slices of a bounded size, at least one."""
    return (slices(family, view) for family in FAMILIES)


def slices(family: Family, view: NodeView) -> Iterator[Metric]:
    readings = iter(family.read(view))
    some = list(islice(readings, READINGS_A_SLICE))
    while True:
        metric = empty(family)
        for reading in some:
            add(metric, family, reading)
        yield metric
        some = list(islice(readings, READINGS_A_SLICE))
        if not some:
            return


def empty(family: Family) -> Metric:
    name = family.name.removesuffix("_total") if family.kind == "counter" else family.name
    return Metric(name, family.help, family.kind)


def add(metric: Metric, family: Family, reading: Reading) -> None:
    values, number = reading
    labels = dict(zip(family.labels, values, strict=True))
    if isinstance(number, Histogram):
        add_histogram(metric, labels, number)
    else:
        metric.add_sample(family.name, labels, float(number))


def le(bound: float) -> str:
    """As OpenMetrics writes numbers, so that both formats name a bucket alike."""
    return "+Inf" if bound == float("inf") else repr(bound)


def add_histogram(metric: Metric, labels: dict[str, str], histogram: Histogram) -> None:
    count = 0
    bounds = (*histogram.bounds, float("inf"))
    for bound, here in zip(bounds, histogram.counts, strict=True):
        count += here
        bucket = labels | {"le": le(bound)}
        metric.add_sample(f"{metric.name}_bucket", bucket, count)
    metric.add_sample(f"{metric.name}_count", labels, count)
    metric.add_sample(f"{metric.name}_sum", labels, histogram.total)
