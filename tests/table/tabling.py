"""A node in the simulated world that keeps a table, and what the bucket then holds."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cold.tiering import KEYS, NODE, TierNode, play
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.table.codec import decode_table, open_page
from tierlog.table.converter import PartitionConverter
from tierlog.table.invariants import check
from tierlog.table.keeper import TableKeeper
from tierlog.table.manifest import Table, TableFile
from tierlog.table.schema import SCHEMA
from tierlog.table.settings import TableSettings

T = TypeVar("T")

SETTINGS = TableSettings(
    interval_ms=100, follow_interval_ms=100, bytes_per_second=None, merge_bytes_max=0
)


async def until(condition: Callable[[], bool], *, pause_s: float = 0.1) -> None:
    """In virtual time, and not for ever."""
    for _ in range(5_000):
        if condition():
            return
        await asyncio.sleep(pause_s)
    raise AssertionError("it never came to that")


class TableNode(TierNode):
    """One life of a node that converts what it publishes."""

    table_settings = SETTINGS

    async def open(self) -> "TableNode":
        await super().open()
        self.keeper = TableKeeper(
            self.env,
            self.store,
            self.tier.partitions,
            directory=self.tier.maker.copies.path,
            node_id=7,
            settings=self.table_settings,
        )
        self.tier.chores.append(self.keeper)
        return self

    @property
    def converter(self) -> PartitionConverter:
        (found,) = self.keeper.converters.values()
        return found

    async def converted(self) -> Table:
        """Once the table has caught up with what is published, and with the log."""
        await until(self._has_caught_up)
        assert self.converter.table is not None
        return self.converter.table

    async def published(self, end: int) -> None:
        await until(lambda: self.prefix.uploaded_end >= end)

    def _has_caught_up(self) -> bool:
        if not self.keeper.converters or self.converter.table is None:
            return False
        sealed = self.log.segments.active.base_offset
        return self.prefix.uploaded_end >= sealed and not self.converter.has_work


def play_tables(scenario: Callable[[TableNode], Coroutine[Any, Any, T]], seed: int = 1) -> T:
    async def run(world: SimWorld, bucket: SimBucket) -> T:
        async def live() -> T:
            return await scenario(TableNode(world.env(NODE), bucket))

        return await world.start(NODE, live(), what="live")

    return play(run, seed)


def with_settings(node: TableNode, **values: Any) -> TableNode:
    node.table_settings = replace(node.table_settings, **values)
    return node


def table_in(bucket: SimBucket) -> Table:
    """TABLE as it stands in the bucket."""
    table = decode_table(bucket.shelf.items[KEYS.table].data, key=KEYS.table)
    check(table, previous=None)
    return table


def files_in(bucket: SimBucket) -> list[TableFile]:
    table = table_in(bucket)
    items = bucket.shelf.items
    found = [
        file for ref in table.pages for file in open_page(ref, items[KEYS.full(ref.key)].data).files
    ]
    return [*found, *table.files]


def read(bucket: SimBucket, key: str) -> pa.Table:
    return pq.read_table(pa.BufferReader(bucket.shelf.items[KEYS.full(key)].data))


def rows_in(bucket: SimBucket) -> pa.Table:
    tables = [read(bucket, one.key).select(SCHEMA.names) for one in files_in(bucket)]
    return pa.concat_tables(tables).cast(SCHEMA)
