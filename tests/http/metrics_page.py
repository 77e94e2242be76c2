"""`docs/metrics.md`, made from the table of families.

python -m tests.http.metrics_page      writes the page anew
"""

from pathlib import Path

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric

from tierlog.http.families import SECTIONS
from tierlog.http.family import Family

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"

INTRODUCTION = """\
# Metrics

`GET /metrics` on the HTTP address of a node (`--http`, by default 127.0.0.1:8080) answers in the
text format of Prometheus, and in OpenMetrics to whoever accepts `application/openmetrics-text`.

Counters begin at 0 when the node starts and only rise; a topic's counters go with the topic, the
node's totals stay. Numbers are kept per topic, not per partition: `GET /state` has the offsets,
segments and bytes of every partition as JSON. Histograms have the buckets of `LATENCY_BOUNDS_S` in
`tierlog/broker/stats.py`, 0.1 ms to 10 s.

This page is made from `tierlog/http/families.py` by `python -m tests.http.metrics_page`; a test
compares the two.
"""

PROCESS = """\
What prometheus-client tells of the process, on Linux.
"""


def page() -> str:
    parts = [INTRODUCTION]
    for title, families in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts.append(table([row(family) for family in families]))
    parts += ["## Process\n", PROCESS, table([process_row(family) for family in process()])]
    return "\n".join(parts)


def table(rows: list[str]) -> str:
    head = ["| name | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows]) + "\n"


def row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"


def process() -> list[Metric]:
    return list(ProcessCollector(registry=None).collect())


def process_row(family: Metric) -> str:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return f"| `{name}` | {family.type} |  | {family.documentation} |"


if __name__ == "__main__":
    PAGE.write_text(page())
