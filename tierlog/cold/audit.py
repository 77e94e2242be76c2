"""What an audit of the bucket found, as values: for the command line, the scrubber and their tests.

A finding says what is damaged and where (topic, partition, offsets, key), what was expected there
and what is found, and what to do about it. `docs/verify.md` has a paragraph on each kind. A store
that does not answer is no finding: nobody knows then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tierlog.hot.log import FIRST_OFFSET

if TYPE_CHECKING:
    from tierlog.cold.audit_partition import AuditSettings
    from tierlog.cold.layout import PartitionKeys
    from tierlog.types import Offset


class Kind(Enum):
    """Its value is what scripts compare with: it never changes."""

    FORMAT_WRONG = "format-wrong"
    STATE_WRONG = "state-wrong"
    STATE_OLDER = "state-older"
    HEAD_MISSING = "head-missing"
    HEAD_WRONG = "head-wrong"
    HEAD_OLDER = "head-older"
    PAGE_MISSING = "page-missing"
    PAGE_WRONG = "page-wrong"
    CHAIN_BROKEN = "chain-broken"
    OFFSETS_MISSING = "offsets-missing"
    TOTALS_WRONG = "totals-wrong"
    OBJECT_MISSING = "object-missing"
    OBJECT_HIDDEN = "object-hidden"
    OBJECT_WRONG = "object-wrong"
    OBJECT_UNSOUND = "object-unsound"
    GARBAGE_LISTED = "garbage-listed"
    TABLE_WRONG = "table-wrong"
    FILE_MISSING = "file-missing"
    FILE_WRONG = "file-wrong"


_FROM_ELSEWHERE = (
    "if a node still has the records on its disk it puts the object back by itself; else bring it "
    "back from a version, a replica or a backup of the bucket, under the same key"
)

_TABLE_FOLLOWS = (
    "nothing is lost while the segments are there: the node that keeps the table finds the file "
    "missing within a week of its start, and makes it anew"
)

ADVICE = {
    Kind.FORMAT_WRONG: 'write format.json anew: {"cluster_id":"<id>","format":1}',
    Kind.STATE_WRONG: "start the node: it puts cluster/STATE back from its local copy; or put the "
    "newest sound version back; without either 'tierlog restore' makes it anew from the manifests, "
    "without the settings of topics",
    Kind.STATE_OLDER: "start the node: it puts cluster/STATE back from its local copy; or put the "
    "newest version back; without either 'tierlog restore' takes in what has data, without the "
    "settings that stand in STATE alone",
    Kind.HEAD_MISSING: "start the node that wrote it: it puts HEAD back from its local copy; "
    "without one, 'tierlog restore' makes it anew from the segments",
    Kind.HEAD_WRONG: "start the node that wrote it: it puts back a HEAD that cannot be read; one "
    "that can, and breaks its rules, move aside first, or put the newest sound version back. "
    "Without the node 'tierlog restore' makes it anew from the segments",
    Kind.HEAD_OLDER: "start the node that wrote it: it puts HEAD back from its local copy; or put "
    "the newest version of HEAD back. Delete nothing until then",
    Kind.PAGE_MISSING: "bring the page back from a version, a replica or a backup of the bucket; "
    "without one, move HEAD aside and 'tierlog restore' makes it anew from the segments",
    Kind.PAGE_WRONG: "bring the page back from a version, a replica or a backup of the bucket; "
    "without one, move HEAD aside and 'tierlog restore' makes it anew from the segments",
    Kind.CHAIN_BROKEN: "the manifest was changed by somebody who is not tierlog: compare it with "
    "another copy of the bucket before you rely on it",
    Kind.OFFSETS_MISSING: "an entry was removed from the manifest: compare it with another copy of "
    "the bucket",
    Kind.TOTALS_WRONG: "the manifest was changed by somebody who is not tierlog: compare it with "
    "another copy of the bucket",
    Kind.OBJECT_MISSING: _FROM_ELSEWHERE,
    Kind.OBJECT_HIDDEN: "delete what lies over it: the version that the manifest names is there, "
    "and is what readers get",
    Kind.OBJECT_WRONG: _FROM_ELSEWHERE,
    Kind.OBJECT_UNSOUND: "the object is what was published, and was not sound then: report it, and "
    "keep every other copy of these records",
    Kind.GARBAGE_LISTED: "stop the node before it deletes the object, and report it",
    Kind.TABLE_WRONG: "nothing is lost while the segments are there: delete TABLE while no node "
    "runs, and the next one that starts makes the table anew",
    Kind.FILE_MISSING: _TABLE_FOLLOWS,
    Kind.FILE_WRONG: f"delete the file; {_TABLE_FOLLOWS}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    kind: Kind
    key: str
    """In the store, from its own prefix on."""
    expected: str
    found: str
    topic: str | None = None
    """None: of the cluster as a whole."""
    partition: int | None = None
    start: Offset | None = None
    end: Offset | None = None
    """Offsets `[start, end)` that it is about; None where that cannot be told."""

    @property
    def advice(self) -> str:
        return ADVICE[self.kind]

    @property
    def place(self) -> str:
        """As people call it."""
        return "cluster" if self.topic is None else f"{self.topic}-{self.partition}"

    @property
    def sentence(self) -> str:
        about = "" if self.start is None else f", offsets [{self.start}, {self.end})"
        return (
            f"{self.place}{about}: {self.kind.value}, {self.key}: {self.found}; "
            f"expected {self.expected}"
        )


class Subject(NamedTuple):
    """Whose findings they are."""

    topic: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAudit:
    """What was looked at of one partition."""

    topic: str
    topic_id: str
    partition: int
    head_version: int = -1
    """-1: it has no HEAD that can be read."""
    log_start: Offset = FIRST_OFFSET
    next_offset: Offset = FIRST_OFFSET
    segments: int = 0
    """From the log start on, as far as the manifest can be read."""
    bytes: int = 0
    read_bytes: int = 0
    """Of objects that were read to their end by this run."""
    skipped_bytes: int = 0
    """Of objects that an earlier run had found sound."""
    table_files: int = 0
    table_bytes: int = 0
    """Of the Parquet files beside the segments, as TABLE says."""
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """Worth knowing, and no damage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAudit:
    """What was looked at of the table of one partition."""

    files: int = 0
    bytes: int = 0
    read_bytes: int = 0
    findings: tuple[Finding, ...] = ()


class TableCheck(Protocol):
    """Of the room that knows tables, for audits to call."""

    async def bytes(self, keys: PartitionKeys) -> int:
        """How many a deep audit reads."""
        ...

    async def run(
        self, keys: PartitionKeys, subject: Subject, settings: AuditSettings
    ) -> TableAudit: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    cluster_id: str
    is_deep: bool
    partitions: tuple[PartitionAudit, ...] = ()
    of_cluster: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    requests: dict[str, int] = field(default_factory=dict)
    """To the store, by kind."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.of_cluster + tuple(one for each in self.partitions for one in each.findings)

    @property
    def is_sound(self) -> bool:
        return not self.findings
