"""Files and tables for the tests: plain ones, and as many as it takes."""

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.cold.makers import TOPIC_ID
from tierlog.cold.head import Incarnation, Writer
from tierlog.cold.layout import segment_key
from tierlog.table.keys import file_key
from tierlog.table.manifest import (
    DeadLetters,
    Source,
    Table,
    TableFile,
    first_table,
)
from tierlog.types import LeaderEpoch, Offset, TimestampMs

START_MS = 1_700_000_000_000
WRITER = Writer(LeaderEpoch(3), "process-1")
INCARNATION = Incarnation(1, "life-1")


def a_source(start: int, end: int, *, seed: int = 0) -> Source:
    rng = random.Random(start * 7919 + seed)
    key = segment_key(
        base=Offset(start),
        last=Offset(end - 1),
        leader_epoch=LeaderEpoch(3),
        node=1,
        attempt=rng.getrandbits(64),
    )
    return Source(key, rng.randbytes(32).hex())


def a_file(start: int, end: int, *, dead: int = 0, seed: int = 0) -> TableFile:
    rng = random.Random(start * 104729 + seed)
    names = {
        is_dead: file_key(
            start=Offset(start),
            end=Offset(end),
            leader_epoch=LeaderEpoch(3),
            node=1,
            attempt=rng.getrandbits(64),
            is_dead=is_dead,
        )
        for is_dead in (False, True)
    }
    return TableFile(
        key=names[False],
        size=1000 + rng.randrange(1000),
        sha256=rng.randbytes(32).hex(),
        crc32c=rng.getrandbits(32),
        start=Offset(start),
        end=Offset(end),
        rows=end - start - dead,
        row_groups=1,
        plain_bytes=100 * (end - start),
        min_timestamp=TimestampMs(START_MS + start),
        max_timestamp=TimestampMs(START_MS + end - 1),
        control_records=0,
        dead=(DeadLetters(names[True], 300, rng.randbytes(32).hex(), 1, dead),) if dead else (),
        sources=(a_source(start, end, seed=seed),),
    )


def a_table(files: Sequence[TableFile] = (), *, start: int = 0) -> Table:
    table = first_table(
        topic="orders",
        topic_id=TOPIC_ID,
        partition=7,
        start=Offset(files[0].start if files else start),
        writer=WRITER,
        incarnation=INCARNATION,
        schema=1,
    )
    return replace(
        table,
        version=1,
        nonce="nonce-1",
        files=tuple(files),
        converted_end=files[-1].end if files else table.table_start,
        rows=sum(one.rows for one in files),
        bytes=sum(one.size for one in files),
        dead_records=sum(one.dead_records for one in files),
        published_ms=START_MS,
    )
