"""Families of metrics about consumer groups; see `families.py`.

One line a group, never one a partition, and at most `GROUPS_MAX` groups: those that lose records
next, then those that are furthest behind. `tierlog_groups_untold` says how many are left out. The
numbers are those of the last round (`groups.lagwatch`): a scrape looks at nothing.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from tierlog.groups.lag import Trend, worst_first
from tierlog.groups.lagwatch import lag_of
from tierlog.http.family import Family
from tierlog.http.readings import once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tierlog.groups.lag import GroupLag
    from tierlog.http.readings import Read, Reading
    from tierlog.http.view import NodeView

GROUPS_MAX: Final = 200
LABELS: Final = ("group",)


def _all(view: NodeView) -> dict[str, GroupLag]:
    watch = lag_of(view.node)
    return {} if watch is None else watch.latest.groups


def _told(view: NodeView) -> list[GroupLag]:
    found = _all(view).values()
    return worst_first(found)[:GROUPS_MAX] if len(found) > GROUPS_MAX else list(found)


def by_group(read: Callable[[GroupLag], float | None]) -> Read:
    """Where nothing is known there is no line."""

    def readings(view: NodeView) -> Iterator[Reading]:
        for lag in _told(view):
            value = read(lag)
            if value is not None:
                yield (lag.group,), value

    return readings


def _age(view: NodeView) -> float:
    watch = lag_of(view.node)
    return inf if watch is None else view.node.env.clock.monotonic() - watch.latest.at_s


def _or_never(value: float | None, *, is_known: bool = True) -> float | None:
    if value is None and not is_known:
        return None
    return inf if value is None else value


GROUPS: Final = (
    Family(
        "tierlog_groups_lagging",
        "gauge",
        "Groups that have something left to read.",
        once(lambda view: sum(bool(one.records) for one in _all(view).values())),
    ),
    Family(
        "tierlog_groups_untold",
        "gauge",
        "Groups that the families by group leave out: at most 200 are told, the worst.",
        once(lambda view: max(len(_all(view)) - GROUPS_MAX, 0)),
    ),
    Family(
        "tierlog_groups_lag_age_seconds",
        "gauge",
        "How old the numbers about lag are.",
        once(_age),
    ),
    Family(
        "tierlog_group_lag_records",
        "gauge",
        "Records between what the group committed and the end, over all its partitions.",
        by_group(lambda one: one.records),
        labels=LABELS,
    ),
    Family(
        "tierlog_group_lag_bytes",
        "gauge",
        "Bytes of these, as they are stored, on the disk and in the bucket.",
        by_group(lambda one: one.bytes),
        labels=LABELS,
    ),
    Family(
        "tierlog_group_lag_seconds",
        "gauge",
        "How long the first unread record has been waiting, in the partition where that is "
        "longest; at least that, while there are partitions where it is not known.",
        by_group(lambda one: one.seconds),
        labels=LABELS,
    ),
    Family(
        "tierlog_group_lag_unknown_partitions",
        "gauge",
        "Partitions with something to read where nobody knows yet how long that has been waiting.",
        by_group(lambda one: one.unknown_partitions),
        labels=LABELS,
    ),
    Family(
        "tierlog_group_consumed_per_second",
        "gauge",
        "Records a second that the group committed in the last minute; nothing before it was "
        "watched for as long and has committed nothing.",
        by_group(lambda one: None if one.trend is Trend.UNKNOWN else one.consumed_per_s),
        labels=LABELS,
    ),
    Family(
        "tierlog_group_catch_up_seconds",
        "gauge",
        "When the group has caught up at the rates of the last minute; +Inf: never, or not known.",
        by_group(lambda one: _or_never(one.catch_up_s)),
        labels=LABELS,
    ),
    Family(
        "tierlog_group_local_seconds_left",
        "gauge",
        "Until the first unread record leaves the disk, and comes from the bucket then, if the "
        "group does not come to it before; 0: it has left. +Inf: it stays, or there is none. "
        "Nothing while that is not known.",
        by_group(lambda one: _or_never(one.local_left_s, is_known=one.is_local_left_known)),
        labels=LABELS,
    ),
    Family(
        "tierlog_group_retention_seconds_left",
        "gauge",
        "Until the first unread record is gone for good, if the group does not come to it before; "
        "+Inf: it stays, or there is none. Nothing while that is not known.",
        by_group(lambda one: _or_never(one.retention_left_s, is_known=one.is_retention_left_known)),
        labels=LABELS,
    ),
    Family(
        "tierlog_group_lost_records",
        "gauge",
        "Offsets that expired before the group came to them: it will skip these.",
        by_group(lambda one: one.lost),
        labels=LABELS,
    ),
)
