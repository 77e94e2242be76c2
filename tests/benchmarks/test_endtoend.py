"""Percentiles of what was received."""

from benchmarks.endtoend import percentiles


def test_percentiles_are_in_milliseconds_and_need_no_order() -> None:
    took_ns = [number * 1_000_000 for number in range(100, 0, -1)]
    assert percentiles(took_ns) == {"p50_ms": 51.0, "p99_ms": 100.0}
