"""Crash points of the table: convert, merge, publish.

    rounds 0, 1    a node uploads segments of two partitions, converts them, merges small files
    round 2        its second start
    restore        from the bucket alone
    round 3        the restored node goes on, and converts what the first one left

Every call of a conversion is a point: reading the sources, the local files, sending, replacing
TABLE. Whoever dies there is started again; a zombie wakes when its successor has converted. In the
end every TABLE that was ever seen listed only what was there, the last one tiles all that is cold,
its rows are the records of the log one by one, no file was written twice, and nothing was deleted.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from tests.crashpoints import stages
from tests.crashpoints.member import PLACES, Member, Place, Unsettled
from tests.crashpoints.story import SEED, Story, small_pages
from tests.crashpoints.tale import Tale
from tierlog.sim import SimWorld
from tierlog.table.choosing import merge_run
from tierlog.table.codec import decode_table, open_page
from tierlog.table.invariants import OF_ONE, OF_TWO
from tierlog.table.keeper import TableKeeper
from tierlog.table.settings import TableSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.crashpoints.points import Shot
    from tierlog.table.manifest import Table, TableFile

STAGE = "convert"
SETTINGS = TableSettings(
    interval_ms=200,
    follow_interval_ms=200,
    bytes_per_second=None,
    merge_files_min=2,
    merge_bytes_max=1 << 20,
)
SETTLE_SECONDS = 120.0


class TableMember(Member):
    async def open(self) -> None:
        await super().open()
        self.keeper = TableKeeper(
            self.env,
            self.store,
            self.tier.partitions,
            directory=self.tier.maker.copies.path,
            node_id=1,
            settings=SETTINGS,
        )
        self.tier.chores.append(self.keeper)

    async def play_round(self, is_owner: Callable[[], bool]) -> None:
        """And then it converts whatever there is, and merges it."""
        await super().play_round(is_owner)
        until = self.env.clock.monotonic() + SETTLE_SECONDS
        while is_owner() and self._is_behind():
            if self.env.clock.monotonic() > until:
                errors = [one.last_error for one in self.keeper.converters.values()]
                raise Unsettled(f"the table lags behind: {errors}")
            await asyncio.sleep(0.5)

    def _is_behind(self) -> bool:
        converters = self.keeper.converters.values()
        if len(converters) < len(PLACES):
            return True
        return any(
            one.has_work or one.table is None or merge_run(one.table.files, SETTINGS)
            for one in converters
        )


class TableStory(Story):
    async def tell(self) -> None:
        await self._live(until=2)
        await self._live(until=3)
        await self._restore("spare")
        if lost := self.ledger.cut():
            self.problems.append(f"the restore misses {lost} records that were cold")
        await self._live(until=4)
        await self._end_zombie()
        self.problems += self.ledger.problems()
        for place in PLACES:
            try:
                self.problems += self._table_problems(place)
            except Exception as fault:  # noqa: BLE001  whatever it is, it cannot be read
                self.problems.append(f"{place.keys.table}: {type(fault).__name__}: {fault}")

    def _table_problems(self, place: Place) -> Iterator[str]:
        key = place.keys.table
        tables = [decode_table(data, key=key) for data in self.bucket.versions(key)]
        yield from _history_problems(key, tables)
        yield from self._reference_problems(place)
        last, head = tables[-1], self.ledger.head(place)
        assert head is not None
        if (last.table_start, last.converted_end) != (head.log_start, head.next_offset):
            yield f"{key} has [{last.table_start}, {last.converted_end}), not all that is cold"
        found = dict(self._rows(place, last))
        for offset, value in self.ledger.content(place).items():
            if found.pop(offset, None) != value:
                yield f"{key}: the row of offset {offset} is not the record"
        if found:
            yield f"{key}: rows of {sorted(found)} are no records"
        if not any(len(one.sources) > 1 for one in self._files(place, last)):
            yield f"{key}: nothing is merged"

    def _files(self, place: Place, table: Table) -> Sequence[TableFile]:
        items = self.bucket.shelf.items
        pages = [open_page(ref, items[place.keys.full(ref.key)].data) for ref in table.pages]
        return [*(file for page in pages for file in page.files), *table.files]

    def _rows(self, place: Place, table: Table) -> Iterator[tuple[int, bytes]]:
        for file in self._files(place, table):
            data = self.bucket.shelf.items[place.keys.full(file.key)].data
            rows = pq.read_table(pa.BufferReader(data), use_threads=False)
            columns = (rows.column(name).to_pylist() for name in ("offset", "value"))
            yield from zip(*columns, strict=True)

    def _reference_problems(self, place: Place) -> Iterator[str]:
        """Whoever saw a TABLE found what it lists: it was there before."""
        there: set[str] = set()
        for landed in self.bucket.landed:
            if landed.key == place.keys.table:
                table = decode_table(landed.item.data, key=landed.key)
                listed = [one for file in table.files for one in file.keys]
                listed += [one.key for one in table.pages]
                for key in listed:
                    if place.keys.full(key) not in there:
                        yield f"version {table.version} of {landed.key} lists {key}: not there"
            there.add(landed.key)


def _history_problems(key: str, tables: Sequence[Table]) -> Iterator[str]:
    """Each by itself, and as the successor of the one before."""
    for number, table in enumerate(tables):
        for name, holds in OF_ONE.items():
            yield from (f"{key} {table.version}: {name}: {why}" for why in holds(table))
        if number:
            for name, follows in OF_TWO.items():
                for why in follows(table, tables[number - 1]):
                    yield f"{key} {table.version}: {name}: {why}"


@contextmanager
def tabling() -> Iterator[None]:
    with (
        small_pages(),
        patch("tests.crashpoints.story.Member", TableMember),
        patch.dict(
            stages.BY_MODULE,
            {"tierlog.table.converter": STAGE, "tierlog.table.keeper": STAGE},
        ),
        patch.object(stages, "OUTERMOST", (*stages.OUTERMOST, STAGE)),
    ):
        yield


def tell(shot: Shot | None, *, seed: int = SEED) -> TableStory:
    world = SimWorld(seed, seconds_max=3600)
    story = TableStory(world, shot)
    with tabling():
        try:
            world.run(story.tell())
        except Unsettled as fault:
            story.problems.append(f"never settled: {fault}")
        except Exception as fault:  # noqa: BLE001  whatever it is, it is a finding
            story.problems.append(f"{type(fault).__name__}: {fault}")
    return story


TALE = Tale("table", (STAGE,), tell)
