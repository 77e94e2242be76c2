"""What is told to a worker process, and what it answers. Values, and the doors to the work.

The broker has this module and not what lies behind the doors: pyarrow and Numba are imported by the
process that needs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tierlog.cold import canonical
from tierlog.table.manifest import READ_COMMITTED, SCHEMA_VERSION, TableFile
from tierlog.types import Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.cold.entry import Sample
    from tierlog.env import Disk
    from tierlog.table.manifest import DeadLetters, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Which offsets are wanted of a source, and what it is."""

    topic: str
    partition: int
    start: int
    end: int
    """Rows outside `[start, end)` are left out."""
    base: int
    """The source's first offset, and the one behind its last."""
    next_offset: int
    samples: Sequence[Sample] = ()
    """Places where a batch begins, for where the batches before do not say."""
    size: int = 0
    """Bytes of batches that the source should have; 0: nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a file says of itself."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    sources: tuple[Source, ...]

    def metadata(self, **counts: int) -> dict[str, str]:
        listed = canonical.to_bytes([list(one) for one in self.sources])
        values: dict[str, object] = {
            "schema": SCHEMA_VERSION,
            "filter": READ_COMMITTED,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partition": self.partition,
            "start": self.start,
            "end": self.end,
            "sources": listed.decode("ascii"),
        } | counts
        return {f"tierlog.{name}": str(value) for name, value in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPart:
    """Batches of one segment, in a local file."""

    path: str
    size: int
    source: str
    """Its key."""
    wanted: Range
    missing: str = ""
    """Why there is nothing to read, where there is not."""
    records: int = 0
    """Of what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertPlan:
    parts: tuple[RawPart, ...]
    out: str
    dead_out: str
    """Where the dead letters go, if there are any."""
    about: About


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    paths: tuple[str, ...]
    out: str
    about: About
    control_records: int
    dead_records: int


class DeadFile(NamedTuple):
    """Dead letters that lie on the local disk."""

    size: int
    sha256: str
    crc32c: int
    batches: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A file that lies on the local disk."""

    size: int
    sha256: str
    crc32c: int
    rows: int
    row_groups: int
    plain_bytes: int
    min_timestamp: int
    max_timestamp: int
    control_records: int
    dead: DeadFile | None = None

    def as_listed(self, key: str, about: About, dead: tuple[DeadLetters, ...]) -> TableFile:
        """As TABLE will have it, once it was sent under its key."""
        return TableFile(
            key=key,
            size=self.size,
            sha256=self.sha256,
            crc32c=self.crc32c,
            start=Offset(about.start),
            end=Offset(about.end),
            rows=self.rows,
            row_groups=self.row_groups,
            plain_bytes=self.plain_bytes,
            min_timestamp=TimestampMs(self.min_timestamp),
            max_timestamp=TimestampMs(self.max_timestamp),
            control_records=self.control_records,
            dead=dead,
            sources=about.sources,
        )


# The doors


def convert_local(plan: ConvertPlan) -> Made:
    """In a worker process."""
    from tierlog.table import jobs

    return jobs.convert_local(plan)


def merge_local(plan: MergePlan) -> Made:
    from tierlog.table import jobs

    return jobs.merge_local(plan)


def convert(disk: Disk, plan: ConvertPlan) -> Made:
    """In this one."""
    from tierlog.table import jobs

    return jobs.convert(disk, plan)


def merge(disk: Disk, plan: MergePlan) -> Made:
    from tierlog.table import jobs

    return jobs.merge(disk, plan)
