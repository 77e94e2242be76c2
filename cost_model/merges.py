"""Small objects become larger ones: what a node merges in the log and in the table, and for what.

Both follow the node's own rules (tierlog's `cold/merging.py` and `table/choosing.py`, tried out on
segments of one size) without their steps: sizes rise and fall smoothly, as those of real segments,
which are never all of one size, do on average. Eight at a time: an object that `n` uploads went
into has `(n - 1) / 7` merges behind it, of eight GETs each.
"""

from cost_model.arith import at_least, at_most, where

RUN = 8
"""Neighbours that are merged at once."""
SPAN_SHARE = 24
"""A run spans an eighth of the retention at most, and a third of that on average."""
SOURCES = 256
"""Segments that a Parquet file may come from."""


def merged_segment(size: float, *, target: float, reach: float) -> float:
    """What a segment of `size` ends up in. `reach`: bytes of a partition in all of its retention.

    Half of the target on average; from an eighth of it on fewer fit, a quarter is left alone.
    """
    fit = at_most(target / 2, target * target / 16 / size)
    return at_least(size, at_most(fit, reach / SPAN_SHARE))


def merged_file(size: float, *, full: float) -> float:
    """What a Parquet file of `size` ends up in: eight of its kind, or a quarter of the full size if
    that is more. From an eighth on eight are too many for a file, so that it is left alone."""
    few = at_least(RUN * size, full / 4)
    fit = at_most(few, full * (full / RUN / size) ** 2)
    return at_least(size, at_most(fit, SOURCES * size))


def merges_each(first: float, last: float) -> float:
    """Merges behind an object of `last` bytes, made of some of `first` bytes."""
    return where(last > first, (last / first - 1) / (RUN - 1), 0.0)
