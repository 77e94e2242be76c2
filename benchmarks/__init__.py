"""Interleaved comparisons: which share of what the machine can do do we reach?

`python -m benchmarks` runs every `bench_*.py` beside this file. A module defines
`comparisons(size: Size) -> list[Comparison]`; `harness` measures them, `report` prints them and
keeps `RESULTS.md`. Ratios from interleaved rounds are the result, absolute speeds are context. The
C load generator and reference server live in `native/`.
"""
