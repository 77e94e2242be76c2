"""Reads of history: which class they touch, and what that adds to its usage.

Replays read evenly from the youngest `replay_window` of the history, or from all of it; tailing
reads that missed the local disk touch the first class. What the chunk cache serves is free.
"""

from collections.abc import Callable
from dataclasses import replace

from cost_model.arith import at_least, at_most, ceil, every, ratio
from cost_model.derive import Derived
from cost_model.flow import Flow, stage_end
from cost_model.units import brief_size
from cost_model.usage import ClassUsage


def missed_tail(derived: Derived) -> float:
    """Bytes a month that tailing groups read from the store."""
    scenario = derived.scenario
    return derived.month_bytes * scenario.workload.groups * scenario.reads.tail_miss


def replayed(derived: Derived) -> float:
    """Bytes a month of the flow that replays read: Parquet is as much smaller as its ratio."""
    reads, ratio_of = derived.scenario.reads, derived.scenario.parquet.size_ratio
    return reads.replay * (ratio_of if reads.replay_from == "parquet" else 1.0)


def cold_bytes(derived: Derived) -> float:
    """Bytes a month that leave the store."""
    return (replayed(derived) + missed_tail(derived)) * (1 - derived.hit)


def shares(flow: Flow, derived: Derived) -> list[float]:
    """Which part of a replay each class serves."""
    window = derived.scenario.reads.replay_window
    reach = flow.retention if window is None else at_most(window, flow.retention)
    parts = []
    for at, stage in enumerate(flow.stages):
        start, end = at_most(stage.after, reach), at_most(stage_end(flow, at), reach)
        parts.append(ratio(at_least(end - start, 0.0), reach))
    return spread_small(flow, parts)


def spread_small(flow: Flow, parts: list[float]) -> list[float]:
    """Objects too small to move are read where they were put."""
    later = sum(parts[1:], 0.0)
    stuck = 1.0 - flow.movable
    return [parts[0] + stuck * later, *(part * flow.movable for part in parts[1:])]


def gets_each(flow: Flow, derived: Derived) -> float:
    """To read one object: its chunks, the last of which is shorter, and its index."""
    return _gets(flow.object_bytes, derived)


def _gets(size: float, derived: Derived) -> float:
    reads = derived.scenario.reads
    return ceil(size / reads.chunk) + reads.index_gets


def _words(size: float, merging: float, derived: Derived) -> Callable[[], str]:
    chunk = derived.scenario.reads.chunk
    return lambda: (
        f"{brief_size(size)} in chunks of {brief_size(chunk)}, with indexes, after "
        f"{derived.hit:.0%} cache hits"
        + (f"; {merging:,.0f} for merges" if every(merging > 0) else "")
    )


def with_reads(
    flow: Flow, usages: list[ClassUsage], derived: Derived, parts: list[float]
) -> list[ClassUsage]:
    """The usages with replays and missed tails on top, if they touch this flow."""
    reads = derived.scenario.reads
    from_here = (flow.what == "Parquet") == (reads.replay_from == "parquet")
    replay = replayed(derived) if from_here else 0.0
    tail = missed_tail(derived) if flow.what == "segments" else 0.0
    out = []
    for at, (usage, share) in enumerate(zip(usages, parts, strict=True)):
        old, new = (each * (1 - derived.hit) for each in (replay * share, tail if at == 0 else 0.0))
        size = old + new
        # Who has fallen behind the local disk reads what was uploaded last: nothing merged yet.
        fresh = ratio(new, flow.first_bytes) * _gets(flow.first_bytes, derived)
        out.append(
            replace(
                usage,
                gets=usage.gets + ratio(old, flow.object_bytes) * gets_each(flow, derived) + fresh,
                retrieved_bytes=usage.retrieved_bytes + size,
                retrieval_requests=ratio(size, flow.object_bytes),
                words={**usage.words, "get": _words(size, usage.gets, derived)},
            )
        )
    return out
