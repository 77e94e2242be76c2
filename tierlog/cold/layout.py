"""Where things lie in the bucket: keys as pure functions of what they name.

    {prefix}/{cluster id}/format.json
    {prefix}/{cluster id}/cluster/STATE
    {prefix}/{cluster id}/cluster/OFFSETS
    {prefix}/{cluster id}/cluster/receipts/topic-{topic id}.json.gz
    {prefix}/{cluster id}/t/{topic id}/{partition}/HEAD
    {prefix}/{cluster id}/t/{topic id}/{partition}/seg/{base}-{last}-e{epoch}-n{node}-{attempt}.seg
    {prefix}/{cluster id}/t/{topic id}/{partition}/page/{first}-{attempt}.json.gz
    {prefix}/{cluster id}/t/{topic id}/{partition}/receipt/{first}-{last}-{digest}.json.gz

Entries and references name objects relative to their partition, so a bucket can be copied to
another prefix. `attempt` is a random number of 64 bits, new for every try: a key is never reused
(U2). Only `HEAD`, `TABLE` and the `cluster/` objects are ever replaced.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from tierlog.types import LeaderEpoch, Offset

FORMAT_JSON = "format.json"
STATE = "cluster/STATE"
OFFSETS = "cluster/OFFSETS"
TOPIC_RECEIPTS = "cluster/receipts/"
HEAD = "HEAD"
TABLE = "TABLE"
SEGMENTS = "seg/"
PAGES = "page/"
RECEIPTS = "receipt/"
TOPICS = "t/"
DATA = (".seg", ".parquet")
"""How keys of records end, as segments and as rows; all others are manifests of some kind."""

OFFSET_MAX = 2**63 - 1
KEY_CHARACTERS_MAX = 200
"""Of a key relative to its partition; the longest that we make has 90."""

_SEGMENT = re.compile(
    r"seg/([0-9]{20})-([0-9]{20})-e([0-9]{8,10})-n([0-9]{5,10})-([0-9a-f]{16})\.seg"
)
_PAGE = re.compile(r"page/([0-9]{20})-([0-9a-f]{16})\.json\.gz")


class SegmentName(NamedTuple):
    """What the key of a segment object says."""

    base: Offset
    last: Offset
    leader_epoch: LeaderEpoch
    node: int
    attempt: int


class PageName(NamedTuple):
    first: Offset
    attempt: int


def cluster_prefix(prefix: str, cluster_id: str) -> str:
    """Ends with a slash; what is below it belongs to one cluster."""
    above = prefix.strip("/")
    return f"{above}/{cluster_id}/" if above else f"{cluster_id}/"


def is_data(key: str) -> bool:
    return key.endswith(DATA)


def segment_key(
    *, base: Offset, last: Offset, leader_epoch: LeaderEpoch, node: int, attempt: int
) -> str:
    """Relative to the partition, as an entry has it."""
    return f"{SEGMENTS}{base:020d}-{last:020d}-e{leader_epoch:08d}-n{node:05d}-{attempt:016x}.seg"


def page_key(*, first: Offset, attempt: int) -> str:
    """Relative to the partition, as a reference has it."""
    return f"{PAGES}{first:020d}-{attempt:016x}.json.gz"


def topic_receipt_key(topic_id: str) -> str:
    """Relative to the cluster: an id is deleted once, and never used again."""
    return f"{TOPIC_RECEIPTS}topic-{topic_id}.json.gz"


def receipt_key(*, first: Offset, last: Offset, digest: str) -> str:
    """Relative to the partition. `digest` names what was deleted, so that whoever deletes the same
    again writes the same key."""
    return f"{RECEIPTS}{first:020d}-{last:020d}-{digest[:16]}.json.gz"


def parse_segment_key(key: str) -> SegmentName | None:
    """What a key relative to its partition says; None if it is not the key of a segment."""
    if not (match := _SEGMENT.fullmatch(key)):
        return None
    base, last, epoch, node = (int(digits) for digits in match.groups()[:4])
    if not base <= last <= OFFSET_MAX:
        return None
    return SegmentName(Offset(base), Offset(last), LeaderEpoch(epoch), node, int(match[5], 16))


def parse_page_key(key: str) -> PageName | None:
    if not (match := _PAGE.fullmatch(key)) or int(match[1]) > OFFSET_MAX:
        return None
    return PageName(Offset(int(match[1])), int(match[2], 16))


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The keys of one partition, from the store's own prefix on."""

    cluster_prefix: str
    topic_id: str
    partition: int

    @property
    def prefix(self) -> str:
        return f"{self.cluster_prefix}{TOPICS}{self.topic_id}/{self.partition}/"

    @property
    def head(self) -> str:
        return self.prefix + HEAD

    @property
    def table(self) -> str:
        return self.prefix + TABLE

    def segment(
        self, *, base: Offset, last: Offset, leader_epoch: LeaderEpoch, node: int, attempt: int
    ) -> str:
        return self.full(
            segment_key(base=base, last=last, leader_epoch=leader_epoch, node=node, attempt=attempt)
        )

    def page(self, *, first: Offset, attempt: int) -> str:
        return self.full(page_key(first=first, attempt=attempt))

    def full(self, key: str) -> str:
        """Of a key that an entry or a reference carries."""
        return self.prefix + key

    def relative(self, key: str) -> str | None:
        """The key as an entry would carry it; None if it is another partition's."""
        return key.removeprefix(self.prefix) if key.startswith(self.prefix) else None
