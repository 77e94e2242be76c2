"""From bounds as the query says them to offsets, partition by partition. Pure.

As Spark's Kafka source does it: a time that no record reaches means the end for an end, and for a
start whatever the strategy says; offsets must name every partition that is read.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from tierlog.spark.bounds import EARLIEST, LATEST, Edge, Everywhere, Offsets, Time, Times
from tierlog.spark.errors import DataLost, NotReadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierlog.spark.bounds import Bound, PartitionName
    from tierlog.spark.options import ReadOptions
    from tierlog.spark.plan import ParquetSlice

logger = logging.getLogger(__name__)


class Ends(Protocol):
    """What is known of a partition."""

    @property
    def earliest(self) -> int: ...

    @property
    def latest(self) -> int: ...


def asked_times(bound: Bound, pinned: Mapping[PartitionName, Ends]) -> dict[PartitionName, int]:
    """Times that must be looked up before the bound can be resolved."""
    if isinstance(bound, Time):
        return dict.fromkeys(pinned, bound.ms)
    if isinstance(bound, Times):
        _check_names(bound.by, pinned)
        return dict(bound.by)
    return {}


def starts(
    options: ReadOptions,
    pinned: Mapping[PartitionName, Ends],
    times: Mapping[PartitionName, int | None],
) -> dict[PartitionName, int]:
    found: dict[PartitionName, int] = {}
    for name, at in _placed(options.start, pinned, times).items():
        one = pinned[name]
        if at is None and not options.late_start_is_latest:
            raise NotReadable(
                f"no record of {name} is as late as its starting time; "
                "startingOffsetsByTimestampStrategy=latest begins at the end instead"
            )
        chosen = one.latest if at is None else at
        if not one.earliest <= chosen <= one.latest:
            _lost(options, name, f"begins at {chosen}", one)
        found[name] = min(max(chosen, one.earliest), one.latest)
    return found


def ends(
    options: ReadOptions,
    pinned: Mapping[PartitionName, Ends],
    times: Mapping[PartitionName, int | None],
) -> dict[PartitionName, int]:
    found: dict[PartitionName, int] = {}
    for name, at in _placed(options.end, pinned, times).items():
        one = pinned[name]
        chosen = one.latest if at is None else at
        if chosen > one.latest:
            _lost(options, name, f"ends at {chosen}", one)
        found[name] = min(chosen, one.latest)
    return found


def check_dead(options: ReadOptions, one: ParquetSlice, records: int) -> None:
    """Of which the slice lacks so many."""
    if not records:
        return
    sentence = (
        f"{records} records of {one.name} in [{one.start}, {one.end}) could not be converted; the "
        "dead letters beside the file say why"
    )
    if options.fail_on_data_loss:
        raise DataLost(f"{sentence}; failOnDataLoss=false reads the others")
    logger.warning("%s", sentence)


def warn_of_ignored(options: ReadOptions) -> None:
    if options.ignored:
        names = ", ".join(options.ignored)
        logger.warning("options without a meaning here are ignored: %s", names)


def _placed(
    bound: Bound,
    pinned: Mapping[PartitionName, Ends],
    times: Mapping[PartitionName, int | None],
) -> dict[PartitionName, int | None]:
    if isinstance(bound, Offsets):
        _check_names(bound.by, pinned)
        return {name: _signed(at, pinned[name]) for name, at in bound.by.items()}
    if isinstance(bound, Time | Times):
        return dict(times)
    if isinstance(bound, Everywhere):
        return {
            name: min(max(bound.offset, one.earliest), one.latest) for name, one in pinned.items()
        }
    if bound is Edge.EARLIEST:
        return {name: one.earliest for name, one in pinned.items()}
    return {name: one.latest for name, one in pinned.items()}


def _signed(at: int, one: Ends) -> int:
    return {EARLIEST: one.earliest, LATEST: one.latest}.get(at, at)


def _check_names(by: Mapping[PartitionName, int], pinned: Mapping[PartitionName, Ends]) -> None:
    if by.keys() != pinned.keys():
        odd = min(by.keys() ^ pinned.keys())
        lacks = "is not read, or does not exist" if odd in by else "has no offset"
        raise NotReadable(
            f"offsets and times by partition must name every partition that is read: {odd} {lacks}"
        )


def _lost(options: ReadOptions, name: PartitionName, what: str, one: Ends) -> None:
    sentence = f"{name} has offsets {one.earliest} to {one.latest}, and the read {what}"
    if options.fail_on_data_loss:
        raise DataLost(f"{sentence}; failOnDataLoss=false reads what is there")
    logger.warning("%s; failOnDataLoss=false: what is there is read", sentence)
