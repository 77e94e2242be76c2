"""Interleaved comparisons: which share of what the machine can do do we reach?

`python -m benchmarks` runs every `bench_*.py` beside this file. A module defines
`comparisons(size: Size)` as a list or a generator of `Comparison`s (callables, measured by
`harness`) and `Gauge`s (whole servers, measured by `gauge`); `report` prints them and keeps
`RESULTS.md`. Ratios from interleaved rounds are the result, absolute speeds are context. The
C load generator and reference server live in `native/`.
"""
