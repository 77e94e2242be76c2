"""The tables of a soak, read from the bucket alone: every row is what was sent.

A record has the number that is its offset, and nobody writes control records. So a file of
`[start, end)` has exactly the rows from `start` to `end`, and the ledger knows the bytes of each. A
TABLE is checked as it is read: what it lists tiles it. That files have the hashes which TABLE says
is what `tierlog verify --deep` looks at.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from tests.soak.ledger import Ledger, value_of
from tests.soak.shelves import Shelf
from tierlog.cold.bucketview import BucketView, Place
from tierlog.spark.stores import Opened, StorePlace, with_store
from tierlog.spark.verifying import places_of
from tierlog.table.manifest import TableFile
from tierlog.table.reading import open_table

ENDPOINT = "s3.endpoint="


@dataclass(slots=True)
class Seen:
    tables: int = 0
    files: int = 0
    merged: int = 0
    """Files that were made of several segments."""
    rows: int = 0


def look(shelf: Shelf, ledgers: Mapping[str, Sequence[Ledger]]) -> Seen:
    """What is wrong is put down in the ledgers, by topic and partition."""
    endpoint = "".join(one.removeprefix(ENDPOINT) for one in shelf.sets if one.startswith(ENDPOINT))
    with mock.patch.dict(os.environ, shelf.environment):
        place = StorePlace(url=shelf.url, endpoint=endpoint)
        return with_store(place, partial(_look, ledgers))


async def _look(ledgers: Mapping[str, Sequence[Ledger]], bucket: Opened) -> Seen:
    seen = Seen()
    for place in await places_of(BucketView(bucket.store), list(ledgers)):
        assert place.topic is not None
        assert place.partition is not None
        await _look_at(bucket, place, ledgers[place.topic][place.partition], seen)
    return seen


async def _look_at(bucket: Opened, place: Place, ledger: Ledger, seen: Seen) -> None:
    head = await BucketView(bucket.store).head(place)
    reader = await open_table(bucket.store, place.keys)
    if reader is None or reader.table.converted_end != head.next_offset:
        end = None if reader is None else reader.table.converted_end
        ledger.problems.append(f"{ledger.name}: the table ends at {end}, not {head.next_offset}")
        return
    seen.tables += 1
    files = await reader.files(head.log_start, head.next_offset)
    if reader.table.skips and reader.table.skips[-1].end > head.log_start:
        ledger.problems.append(f"{ledger.name}: the table skips what the log has")
    for file in files:
        got = await bucket.store.get(place.keys.full(file.key))
        rows = pq.read_table(pa.BufferReader(got.data), columns=["offset", "value"])
        compare(file, rows, ledger)
        seen.files += 1
        seen.merged += len(file.sources) > 1
        seen.rows += rows.num_rows


def compare(file: TableFile, rows: pa.Table, ledger: Ledger) -> None:
    due = range(file.start, file.end)
    offsets = rows.column("offset").to_pylist()
    if file.dead or file.rows != len(due) or offsets != list(due):
        ledger.problems.append(
            f"{ledger.name}: {file.key} has {len(offsets)} rows from {offsets[:1]} on, TABLE says "
            f"{file.rows}, and {file.dead_records} dead ones"
        )
    for offset, value in zip(offsets, rows.column("value").to_pylist(), strict=True):
        if value != value_of(ledger.name, offset, ledger.value_bytes):
            ledger.problems.append(f"{ledger.name}: other bytes at offset {offset} of {file.key}")
            return
