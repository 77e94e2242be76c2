"""The explanation of a partition as a JSON value: what a node answers, and `tierlog explain --json`
prints, with a node or without one. Fields are only ever added.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from tierlog.cold.explained import runs
from tierlog.cold.explaining import explain
from tierlog.cold.layout import parse_page_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.cold.explained import Explained
    from tierlog.cold.head import Head
    from tierlog.cold.segmentfacts import Facts, Rules, StoreHealth

ROWS_MAX = 1000
"""Of one answer: some 250 kB."""


def topic_value(
    *, name: str, topic_id: str, now_ms: int, rules: Rules, store: StoreHealth | None
) -> dict[str, object]:
    """`store` is None where no node was asked."""
    return {
        "topic": name,
        "topic_id": topic_id,
        "now_ms": now_ms,
        "source": "bucket" if store is None else "node",
        "rules": asdict(rules),
        "store": None if store is None else asdict(store),
    }


def partition_value(
    index: int,
    facts: Facts,
    head: Head | None,
    *,
    problems: Sequence[str] = (),
    after: int | None = None,
    rows_max: int = ROWS_MAX,
) -> dict[str, object]:
    """Runs of equal fate; or, with `after`, segment by segment from that offset on."""
    rows = rows_from(facts, after)
    shown = rows[: cut_at(rows, rows_max)]
    return {
        "partition": index,
        "log_start": facts.log_start,
        "local_start": facts.local_start,
        "uploaded_end": facts.uploaded_end,
        "high_watermark": facts.visible_end,
        "cold_bytes": 0 if head is None else head.bytes,
        "retained_bytes": facts.listed_bytes + facts.unpublished_bytes,
        "cold_segments": sum(row.segments for row in facts.cold),
        "local_bytes": sum(one.size for one in facts.local),
        "local_segments": len(facts.local),
        "published_ms": -1 if head is None else head.published_ms,
        "bytes_per_s": facts.bytes_per_s,
        "error": facts.error,
        "fence": facts.fence,
        "holds": [one._asdict() for one in facts.holds],
        "garbage_pages": _pages(facts),
        "problems": list(problems),
        "rows": [row_value(row) for row in shown],
        "next_after": shown[-1].next_offset if len(rows) > len(shown) else None,
    }


def rows_from(facts: Facts, after: int | None) -> list[Explained]:
    if after is None:
        return list(runs(explain(facts)))
    # In order of their ends, garbage among the others: then an offset tells where to go on.
    rows = (row for row in explain(facts) if row.next_offset > after)
    return sorted(rows, key=lambda row: (row.next_offset, row.base))


def cut_at(rows: Sequence[Explained], rows_max: int) -> int:
    """Rows that end together stay together: the next answer begins behind them."""
    end = min(rows_max, len(rows))
    while 0 < end < len(rows) and rows[end].next_offset == rows[end - 1].next_offset:
        end += 1
    return end


def row_value(row: Explained) -> dict[str, object]:
    return {**asdict(row), "reasons": [asdict(one) for one in row.reasons]}


def _pages(facts: Facts) -> dict[str, int]:
    """Pages that were replaced by fuller ones, and wait to be deleted."""
    pages = [
        one.not_before_ms
        for one in facts.garbage
        if parse_page_key(one.key) is not None and one.segments_from < 0
    ]
    return {"count": len(pages), "not_before_ms": min(pages, default=-1)}
