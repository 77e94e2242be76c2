"""Where the table of a partition lies: keys relative to the partition, as `cold.layout` has them.

    TABLE
    pq/{start}-{last}-e{epoch}-n{node}-{attempt}.parquet          rows
    pq/{start}-{last}-e{epoch}-n{node}-{attempt}.dead.parquet     what could not be converted
    pq/page-{start}-{attempt}.json.gz                             files that TABLE has no room for

`start` and `last` are those of the covered offsets, not of the rows. `attempt` is random, new for
every try: a key is never reused.
"""

import re
from typing import NamedTuple

from tierlog.cold.layout import OFFSET_MAX
from tierlog.types import LeaderEpoch, Offset

FILES = "pq/"
ROWS_SUFFIX = ".parquet"
DEAD_SUFFIX = ".dead.parquet"

_FILE = re.compile(
    r"pq/([0-9]{20})-([0-9]{20})-e([0-9]{8,10})-n([0-9]{5,10})-([0-9a-f]{16})(\.dead)?\.parquet"
)
_PAGE = re.compile(r"pq/page-([0-9]{20})-([0-9a-f]{16})\.json\.gz")


class FileName(NamedTuple):
    """What the key of a file says."""

    start: Offset
    end: Offset
    leader_epoch: LeaderEpoch
    node: int
    attempt: int
    is_dead: bool


class PageName(NamedTuple):
    start: Offset
    attempt: int


def file_key(
    *,
    start: Offset,
    end: Offset,
    leader_epoch: LeaderEpoch,
    node: int,
    attempt: int,
    is_dead: bool = False,
) -> str:
    """Of the covered offsets `[start, end)`."""
    suffix = DEAD_SUFFIX if is_dead else ROWS_SUFFIX
    stem = f"{FILES}{start:020d}-{end - 1:020d}-e{leader_epoch:08d}-n{node:05d}-{attempt:016x}"
    return stem + suffix


def page_key(*, start: Offset, attempt: int) -> str:
    return f"{FILES}page-{start:020d}-{attempt:016x}.json.gz"


def parse_file_key(key: str) -> FileName | None:
    if not (match := _FILE.fullmatch(key)):
        return None
    start, last, epoch, node = (int(digits) for digits in match.groups()[:4])
    if not start <= last < OFFSET_MAX:
        return None
    return FileName(
        Offset(start),
        Offset(last + 1),
        LeaderEpoch(epoch),
        node,
        int(match[5], 16),
        match[6] is not None,
    )


def parse_page_key(key: str) -> PageName | None:
    if not (match := _PAGE.fullmatch(key)) or int(match[1]) > OFFSET_MAX:
        return None
    return PageName(Offset(int(match[1])), int(match[2], 16))
