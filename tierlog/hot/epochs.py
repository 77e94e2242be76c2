"""Leader epochs of a partition: which leader wrote from which offset on.

KIP-101: a follower truncates to the end of its last common leader epoch, so every replica must be
able to say where an epoch ended. A value kept in the checkpoint and rebuilt from the batches that
lie behind it: each batch carries its leader epoch.

Invariant: entries rise strictly in both columns.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from tierlog.types import LeaderEpoch, Offset


class EpochStart(NamedTuple):
    leader_epoch: LeaderEpoch
    start: Offset


class LeaderEpochs:
    __slots__ = ("_entries", "latest")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries = list(entries)
        self.latest = self._latest()

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def note(self, leader_epoch: LeaderEpoch, start: Offset) -> None:
        """A batch at `start` was written by this leader."""
        if leader_epoch <= self.latest:
            return
        # An epoch that wrote nothing leaves no trace: the next one takes over its start.
        while self._entries and self._entries[-1].start >= start:
            self._entries.pop()
        self._entries.append(EpochStart(leader_epoch, start))
        self.latest = leader_epoch

    def end_of(self, leader_epoch: LeaderEpoch, *, log_end: Offset) -> EpochStart | None:
        """The largest epoch at or before the one asked for, and the offset where it ended.

        An epoch older than all that are known ended, for all we know, where the first of them
        began: its records were trimmed away, and whoever consumed up to there lost nothing. None
        when nothing is known: OffsetForLeaderEpoch then answers -1.
        """
        if not self._entries:
            return None
        number = bisect_right(self._entries, leader_epoch, key=lambda entry: entry.leader_epoch)
        if number == 0:
            return EpochStart(leader_epoch, self._entries[0].start)
        end = self._entries[number].start if number < len(self._entries) else log_end
        return EpochStart(self._entries[number - 1].leader_epoch, end)

    def at(self, offset: Offset) -> LeaderEpoch | None:
        """The epoch that wrote the record at `offset`."""
        number = bisect_right(self._entries, offset, key=lambda entry: entry.start)
        return self._entries[number - 1].leader_epoch if number else None

    def truncate(self, end: Offset) -> None:
        """Forget epochs that began at `end` or later: their records are gone."""
        self._entries = [entry for entry in self._entries if entry.start < end]
        self.latest = self._latest()

    def trim(self, start: Offset) -> None:
        """Forget what lies wholly before `start`; the epoch that wrote it stays, moved there."""
        leader_epoch = self.at(start)
        if leader_epoch is None:
            return
        later = [entry for entry in self._entries if entry.start > start]
        self._entries = [EpochStart(leader_epoch, start), *later]

    def _latest(self) -> LeaderEpoch:
        return self._entries[-1].leader_epoch if self._entries else LeaderEpoch(-1)
