"""Which of several lineages are of one history. Pure.

Every segment object carries the leader epochs of its partition up to its own end. A leader that
goes on behind what was published (a restore, a lost disk) writes the next offsets under an epoch of
its own, so a node that does not know it and uploads the same offsets tells other epochs for them.
The later leader's word counts: it began with all that was committed.

Two uploads of one leader epoch cannot be told apart here: that takes two copies of one data
directory, of which only one ever publishes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tierlog.hot.epochs import EpochStart, LeaderEpochs
from tierlog.types import LeaderEpoch, Offset


class Dissent(NamedTuple):
    """Where a lineage leaves the history, and whose offsets these are."""

    offset: Offset
    leader_epoch: LeaderEpoch


class _Stretch(NamedTuple):
    """What is known of `[start, end)`."""

    epochs: LeaderEpochs
    start: Offset
    end: Offset


class History:
    """A partition's epochs, put together from the lineages of its objects, latest leader first.

    Invariant: no two stretches touch, and all agree.
    """

    def __init__(self) -> None:
        self._stretches: list[_Stretch] = []

    def add(self, lineage: Sequence[EpochStart], end: Offset) -> Dissent | None:
        """Take the lineage in that leads to `end`; or say where it differs from those before."""
        if not lineage:
            return None
        added = _Stretch(LeaderEpochs(lineage), lineage[0].start, end)
        for known in self._stretches:
            if (dissent := _dissent(known, added)) is not None:
                return dissent
        apart = []
        for known in self._stretches:
            if known.start <= added.end and added.start <= known.end:
                added = _joined(known, added)
            else:
                apart.append(known)
        self._stretches = [*apart, added]
        return None


def _dissent(known: _Stretch, other: _Stretch) -> Dissent | None:
    start, end = max(known.start, other.start), min(known.end, other.end)
    if start >= end:
        return _disorder(known, other)
    marks = {one.start for one in (*known.epochs.entries, *other.epochs.entries)}
    for mark in sorted({start, *(one for one in marks if start < one < end)}):
        epoch = known.epochs.at(mark)
        if epoch is not None and epoch != other.epochs.at(mark):
            return Dissent(mark, epoch)
    return None


def _disorder(known: _Stretch, other: _Stretch) -> Dissent | None:
    """Of two that do not overlap: epochs never fall."""
    first, second = sorted((known, other), key=lambda one: one.start)
    if first.epochs.latest <= second.epochs.entries[0].leader_epoch:
        return None
    near = known.epochs.latest if known is first else known.epochs.entries[0].leader_epoch
    return Dissent(other.start, near)


def _joined(one: _Stretch, two: _Stretch) -> _Stretch:
    """Of two that overlap or touch, and agree."""
    first, second = sorted((one, two), key=lambda stretch: stretch.start)
    epochs = LeaderEpochs(first.epochs.entries)
    for entry in second.epochs.entries:
        if entry.start >= first.end:
            epochs.note(entry.leader_epoch, entry.start)
    return _Stretch(epochs, first.start, max(first.end, second.end))
