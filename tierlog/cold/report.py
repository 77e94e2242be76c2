"""What a restore brought back, and what it could not: a value for whoever prints it."""

from dataclasses import dataclass
from enum import Enum

from tierlog.cold.head import Incarnation
from tierlog.cold.regrouping import GroupReport
from tierlog.types import LeaderEpoch, Offset


class Outcome(Enum):
    RESTORED = "restored"
    """As its HEAD says."""
    REBUILT = "rebuilt"
    """HEAD was gone; a new one was made from the segments that are in the bucket."""
    EMPTY = "empty"
    """Nothing of it was ever published."""
    UNTIERED = "untiered"
    """Its records were never meant for the bucket: it begins anew, without them."""
    LOST = "lost"
    """Its HEAD is gone or cannot be read, and it cannot be told where its offsets end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    topic: str
    topic_id: str
    partition: int
    outcome: Outcome
    leader_epoch: LeaderEpoch
    log_start: Offset
    next_offset: Offset
    """What the old cluster acknowledged from here on is not in the bucket."""
    records: int = 0
    bytes: int = 0
    published_ms: int = -1
    """When the old cluster last published; where its HEAD is gone, or an earlier run of the restore
    has replaced it, when the last record was appended. -1: never. What was acknowledged later, or
    not sealed by then, is lost."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenIn:
    """A topic that came back by what its manifests say."""

    topic: str
    topic_id: str
    partitions: int
    configs: dict[str, str]
    """As far as they are known."""

    @property
    def sentence(self) -> str:
        known = ", ".join(f"{name}={value}" for name, value in sorted(self.configs.items()))
        count = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return (
            f"cluster/STATE did not know {self.topic} ({self.topic_id}), which has data: taken in "
            f"with {count}, {known or 'no setting of its own'}; other settings are the defaults, "
            "set again what it had"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    cluster_id: str
    after: Incarnation
    incarnation: Incarnation
    partitions: tuple[PartitionReport, ...]
    deleted: tuple[str, ...]
    """Names of topics whose deletion was under way: they do not come back."""
    groups: tuple[GroupReport, ...] = ()
    """Whose offsets came back, and how."""
    problems: tuple[str, ...] = ()
    """Of the cluster as such."""
    taken_in: tuple[TakenIn, ...] = ()
    """Topics that STATE did not know, and that have data; each is among `problems`, too."""

    @property
    def is_complete(self) -> bool:
        """Whether a node may start. Otherwise repair what is named and run the restore again."""
        return all(one.outcome is not Outcome.LOST for one in self.partitions)

    @property
    def is_sound(self) -> bool:
        """Complete, and nothing in the bucket is damaged or missing."""
        is_whole = not any(one.problems for one in self.partitions) and not self.problems
        return self.is_complete and is_whole
