"""Which offsets of groups a restore brings back: those of partitions that came back, clamped. Pure.

A group may have read what was never published: records that are gone now, whose offsets will be
given out again to others. Left as it is, its offset would skip those. So it is set back to where
the partition goes on, and the report says by how many records. An offset below the partition's
start is left alone: what was there had expired, and the group was behind before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tierlog.cold.clusteroffsets import GroupOffset, Spot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tierlog.cold.clusteroffsets import Groups
    from tierlog.cold.report import PartitionReport
    from tierlog.types import Offset


class SetBack(NamedTuple):
    """An offset that pointed behind what was restored."""

    topic: str
    partition: int
    committed: Offset
    now: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    group: str
    offsets: int
    """That came back."""
    set_back: tuple[SetBack, ...] = ()
    gone: int = 0
    """Of topics that did not come back."""


class Regrouped(NamedTuple):
    groups: dict[str, dict[Spot, GroupOffset]]
    reports: tuple[GroupReport, ...]


def regroup(groups: Groups, partitions: Iterable[PartitionReport]) -> Regrouped:
    known = {Spot(one.topic_id, one.partition): one for one in partitions}
    kept, reports = {}, []
    for name, rows in sorted(groups.items()):
        kept[name] = {
            spot: _clamped(one, known[spot]) for spot, one in rows.items() if spot in known
        }
        reports.append(_report(name, rows, known))
    return Regrouped({name: rows for name, rows in kept.items() if rows}, tuple(reports))


def _clamped(one: GroupOffset, partition: PartitionReport) -> GroupOffset:
    if one.offset <= partition.next_offset:
        return one
    # Its leader epoch is that of records that are gone.
    return one._replace(offset=partition.next_offset, leader_epoch=-1)


def _report(
    name: str, rows: Mapping[Spot, GroupOffset], known: Mapping[Spot, PartitionReport]
) -> GroupReport:
    back = [(spot, one) for spot, one in sorted(rows.items()) if spot in known]
    return GroupReport(
        group=name, offsets=len(back), set_back=_set_back(back, known), gone=len(rows) - len(back)
    )


def _set_back(
    back: Sequence[tuple[Spot, GroupOffset]], known: Mapping[Spot, PartitionReport]
) -> tuple[SetBack, ...]:
    return tuple(
        SetBack(known[spot].topic, spot.partition, one.offset, known[spot].next_offset)
        for spot, one in back
        if one.offset > known[spot].next_offset
    )
