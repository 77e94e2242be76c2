"""From the node's plain numbers to lines of text, at the moment of a scrape.

Nobody but a scrape pays for this: what is counted is counted in integers. A sample is one line, the
same in both formats of Prometheus, and written here: prometheus-client takes two to three times as
long, and a node with a thousand topics has nine thousand of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import Metric

from tierlog.broker.stats import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.http.family import Family
    from tierlog.http.readings import Reading

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


def head_of(family: Family) -> Metric:
    """The family without samples."""
    name = family.name.removesuffix("_total") if family.kind == "counter" else family.name
    return Metric(name, family.help, family.kind)


def text_of(family: Family, reading: Reading) -> str:
    values, number = reading
    labels = ",".join(
        f'{label}="{value.translate(_ESCAPES)}"'
        for label, value in zip(family.labels, values, strict=True)
    )
    if isinstance(number, Histogram):
        return "".join(histogram_lines(family.name, labels, number))
    return line(family.name, labels, number)


def line(name: str, labels: str, number: float) -> str:
    value = repr(float(number))
    return f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n"


def histogram_lines(name: str, labels: str, histogram: Histogram) -> Iterator[str]:
    """Buckets count everything up to their bound; the last one everything."""
    before = f"{labels}," if labels else ""
    bounds = [*map(repr, histogram.bounds), "+Inf"]
    count = 0
    for bound, here in zip(bounds, histogram.counts, strict=True):
        count += here
        yield line(f"{name}_bucket", f'{before}le="{bound}"', count)
    yield line(f"{name}_count", labels, count)
    yield line(f"{name}_sum", labels, histogram.total)
