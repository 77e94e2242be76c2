"""A node's tables, from the published segment to the file that TABLE lists."""

import asyncio
from dataclasses import replace

import pytest

from tests.cold.tiering import KEYS, bucket_of, eager
from tests.hot.support import append
from tests.records.batches import altered
from tests.table.tabling import (
    TableNode,
    files_in,
    play_tables,
    read,
    rows_in,
    table_in,
    until,
    with_settings,
)
from tierlog.cold.changes import MoveLogStart
from tierlog.cold.tiersettings import TopicTiering
from tierlog.env import WorkerLost
from tierlog.records.attributes import Codec
from tierlog.records.batch import iter_batches
from tierlog.records.record import Record, encode_batch
from tierlog.table.invariants import check
from tierlog.types import Offset, TimestampMs


def values_of(node: TableNode) -> list[bytes]:
    values: list[bytes] = rows_in(bucket_of(node)).column("value").to_pylist()
    return values


def test_a_published_segment_becomes_a_file_that_the_table_lists() -> None:
    async def scenario(node: TableNode) -> None:
        await node.open()
        await node.produce_sealed(b"one", b"two")
        table = await node.converted()
        assert (table.table_start, table.converted_end, table.rows) == (0, 2, 2)
        assert values_of(node) == [b"one", b"two"]
        (file,) = table.files
        (entry,) = node.prefix.head.entries  # type: ignore[union-attr]  # published
        assert file.sources == ((entry.key, entry.sha256),)
        assert table_in(bucket_of(node)) == table

    play_tables(scenario)


def test_a_file_says_what_it_is() -> None:
    async def scenario(node: TableNode) -> None:
        await node.open()
        await node.produce_sealed(b"one", b"two")
        table = await node.converted()
        metadata = read(bucket_of(node), table.files[0].key).schema.metadata
        found = {key.decode(): value.decode() for key, value in metadata.items()}
        assert found["tierlog.schema"] == "1"
        assert (found["tierlog.start"], found["tierlog.end"]) == ("0", "2")
        assert table.files[0].sources[0].sha256 in found["tierlog.sources"]
        assert found["tierlog.rows"] == "2"

    play_tables(scenario)


def test_segments_follow_each_other_in_the_table() -> None:
    async def scenario(node: TableNode) -> None:
        await node.open()
        for number in range(5):
            await node.produce_sealed(b"%d" % number)
            await node.converted()
        files = files_in(bucket_of(node))
        assert [(one.start, one.end) for one in files] == [(n, n + 1) for n in range(5)]
        assert values_of(node) == [b"0", b"1", b"2", b"3", b"4"]

    play_tables(scenario)


def test_a_table_that_is_switched_on_later_is_filled_from_the_beginning() -> None:
    """Small segments go into one file."""

    async def scenario(node: TableNode) -> None:
        node.tiering = TopicTiering(table=False)
        await node.open()
        for number in range(5):
            await node.produce_sealed(b"%d" % number)
        await node.published(5)
        await asyncio.sleep(1)
        assert not node.keeper.converters
        assert KEYS.table not in bucket_of(node).shelf.items
        node.partition.dropper.tiering = TopicTiering()
        table = await node.converted()
        assert (len(table.files), len(table.files[0].sources)) == (1, 5)
        assert values_of(node) == [b"0", b"1", b"2", b"3", b"4"]

    play_tables(scenario)


def test_what_left_the_log_before_it_was_converted_is_skipped() -> None:
    async def scenario(node: TableNode) -> None:
        node.tiering = TopicTiering(table=False)
        await node.open()
        await node.produce_sealed(b"one", b"two")
        await node.produce_sealed(b"three", b"four")
        await node.published(4)
        head = await node.partition.uploader.publisher.commit(MoveLogStart(Offset(3)))
        node.prefix.adopt(head)
        node.partition.dropper.tiering = TopicTiering()
        table = await node.converted()
        assert (table.table_start, table.converted_end) == (3, 4)
        assert values_of(node) == [b"four"]

    play_tables(scenario)


def test_a_log_start_behind_the_tables_end_leaves_a_skip_and_garbage() -> None:
    async def scenario(node: TableNode) -> None:
        await node.open()
        await node.produce_sealed(b"one")
        first = await node.converted()
        node.partition.dropper.tiering = TopicTiering(table=False)
        await asyncio.sleep(0.5)
        await node.produce_sealed(b"two")
        await node.produce_sealed(b"three")
        await node.published(3)
        head = await node.partition.uploader.publisher.commit(MoveLogStart(Offset(2)))
        node.prefix.adopt(head)
        node.partition.dropper.tiering = TopicTiering()
        await node.converted()
        await until(lambda: table_in(bucket_of(node)).table_start == 2)
        table = table_in(bucket_of(node))
        assert (table.table_start, table.converted_end) == (2, 3)
        assert [one.key for one in table.garbage] == [first.files[0].key]
        assert KEYS.full(first.files[0].key) in bucket_of(node).shelf.items
        assert values_of(node) == [b"three"]

    play_tables(scenario)


def test_garbage_goes_after_its_grace() -> None:
    async def scenario(node: TableNode) -> None:
        with_settings(node, garbage_grace_ms=5_000)
        await node.open()
        await node.produce_sealed(b"one")
        await node.converted()
        await node.produce_sealed(b"two")
        first = await node.converted()
        head = await node.partition.uploader.publisher.commit(MoveLogStart(Offset(1)))
        node.prefix.adopt(head)
        items = bucket_of(node).shelf.items
        before_ms = node.env.clock.now_ms()
        await until(lambda: KEYS.full(first.files[0].key) not in items)
        assert node.env.clock.now_ms() - before_ms >= 5_000
        await until(lambda: not table_in(bucket_of(node)).garbage)
        assert values_of(node) == [b"two"]

    play_tables(scenario)


def test_small_files_are_merged_with_the_same_rows() -> None:
    async def scenario(node: TableNode) -> None:
        with_settings(node, merge_bytes_max=1 << 20, merge_files_min=3)
        await node.open()
        for number in range(7):
            await node.produce_sealed(b"%d" % number)
            await node.converted()
        await until(lambda: len(table_in(bucket_of(node)).files) <= 3)
        table = table_in(bucket_of(node))
        assert values_of(node) == [b"%d" % number for number in range(7)]
        assert (table.table_start, table.converted_end, table.rows) == (0, 7, 7)
        assert len(table.garbage) >= 3
        assert node.keeper.stats.merged_files >= 3

    play_tables(scenario)


def spoilt() -> bytearray:
    """A batch whose checksum is right and whose codec unpacks to nothing."""
    good = encode_batch([Record(Offset(0), TimestampMs(1), None, b"x" * 200)], codec=Codec.ZSTD)
    return altered(good[:-4] + b"junk")


def test_a_batch_that_does_not_unpack_is_a_dead_letter_and_the_table_goes_on() -> None:
    async def scenario(node: TableNode) -> None:
        await node.open()
        node.produce(b"one")
        append(node.log, spoilt(), leader_epoch=1)
        await node.produce_sealed(b"three")
        table = await node.converted()
        (file,) = table.files
        assert (file.rows, file.dead_records, table.dead_records) == (2, 1, 1)
        assert values_of(node) == [b"one", b"three"]
        (letter,) = read(bucket_of(node), file.dead[0].key).to_pylist()
        assert (letter["first_offset"], letter["last_offset"]) == (1, 1)
        assert "zstd" in letter["reason"]
        assert letter["source"] == file.sources[0].key
        assert node.keeper.stats.dead_records == 1

    play_tables(scenario)


def test_a_lost_segment_becomes_dead_letters_and_is_converted_when_it_is_back() -> None:
    async def scenario(node: TableNode) -> None:
        node.tiering = TopicTiering(table=False)
        with_settings(node, retry_ms=60_000)
        await node.open()
        await node.produce_sealed(b"one")
        await node.produce_sealed(b"two")
        await node.published(2)
        items = bucket_of(node).shelf.items
        lost = KEYS.full(node.prefix.head.entries[0].key)  # type: ignore[union-attr]
        kept = items.pop(lost)
        node.partition.dropper.tiering = TopicTiering()
        table = await node.converted()
        assert table.files[0].dead_records == 1
        assert values_of(node) == [b"two"]
        items[lost] = kept
        await until(lambda: not table_in(bucket_of(node)).dead_records, pause_s=5)
        assert values_of(node) == [b"one", b"two"]

    play_tables(scenario)


def test_a_segment_that_was_cut_off_is_told_of_and_converted_when_it_is_whole() -> None:
    async def scenario(node: TableNode) -> None:
        node.tiering = TopicTiering(table=False)
        with_settings(node, retry_ms=60_000)
        await node.open()
        node.produce(b"one")
        await node.produce_sealed(b"two")
        await node.published(2)
        items = bucket_of(node).shelf.items
        (entry,) = node.prefix.head.entries  # type: ignore[union-attr]  # published
        whole = items[KEYS.full(entry.key)]
        first = next(header.size_bytes for _, header in iter_batches(whole.data))
        assert first < entry.data_bytes
        items[KEYS.full(entry.key)] = replace(whole, data=whole.data[:first])
        node.partition.dropper.tiering = TopicTiering()
        table = await node.converted()
        assert (table.rows, table.dead_records, table.converted_end) == (1, 1, 2)
        items[KEYS.full(entry.key)] = whole
        await until(lambda: not table_in(bucket_of(node)).dead_records, pause_s=5)
        assert values_of(node) == [b"one", b"two"]

    play_tables(scenario)


def test_a_worker_that_is_lost_is_tried_again() -> None:
    async def scenario(node: TableNode) -> None:
        await node.open()
        real, left = node.keeper._workshop.done, [2]

        async def failing(*args: object, **more: object) -> object:
            if left[0]:
                left[0] -= 1
                raise WorkerLost("killed")
            return await real(*args, **more)  # type: ignore[arg-type]

        node.keeper._workshop.done = failing  # type: ignore[method-assign, assignment]
        await node.produce_sealed(b"one")
        table = await node.converted()
        assert (table.rows, table.dead_records, node.keeper.stats.lost_workers) == (1, 0, 2)

    play_tables(scenario)


def test_a_segment_that_kills_every_worker_does_not_wedge_the_table() -> None:
    async def scenario(node: TableNode) -> None:
        await node.open()
        real = node.keeper._workshop.done

        async def poisoned(local: object, inline: object, plan: object, **more: object) -> object:
            if any(not part.missing for part in plan.parts):  # type: ignore[attr-defined]
                raise WorkerLost("killed")
            return await real(local, inline, plan, **more)  # type: ignore[arg-type]

        node.keeper._workshop.done = poisoned  # type: ignore[method-assign, assignment]
        await node.produce_sealed(b"one")
        table = await node.converted()
        assert (table.rows, table.dead_records, table.converted_end) == (0, 1, 1)

    play_tables(scenario)


def test_a_store_that_is_away_is_waited_for() -> None:
    async def scenario(node: TableNode) -> None:
        await node.open()
        await node.produce_sealed(b"one")
        await node.converted()
        await node.produce_sealed(b"two")
        await node.published(2)
        node.store.is_closed = True
        await asyncio.sleep(30)
        node.store.is_closed = False
        table = await node.converted()
        assert table.converted_end == 2

    play_tables(scenario)


def test_many_files_move_to_pages() -> None:
    async def scenario(node: TableNode) -> None:
        await node.open()
        count = 80
        for number in range(count):
            await node.produce_sealed(b"%d" % number)
            await node.published(number + 1)
            await node.converted()
        table = table_in(bucket_of(node))
        assert table.pages
        assert len(table.files) <= 64
        check(table, previous=None)
        assert values_of(node) == [b"%d" % number for number in range(count)]
        assert table.rows == count

    play_tables(scenario)


def test_segments_that_the_log_merged_change_nothing_in_the_table() -> None:
    async def scenario(node: TableNode) -> None:
        node.settings = replace(node.settings, merge_interval_ms=200)
        node.tiering = eager()
        with_settings(node, retry_ms=5_000)
        await node.open()
        for number in range(12):
            await node.produce_sealed(b"%d" % number)
            await node.published(number + 1)
            await node.converted()
        await until(lambda: node.tier.stats.merged_objects > 0)
        before = table_in(bucket_of(node))
        await asyncio.sleep(30)
        after = table_in(bucket_of(node))
        assert after.files == before.files

    play_tables(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_one_seed_makes_one_table(seed: int) -> None:
    async def scenario(node: TableNode) -> list[str]:
        await node.open()
        await node.produce_sealed(b"one", b"two")
        table = await node.converted()
        return [table.files[0].sha256, table.files[0].key]

    assert play_tables(scenario, seed) == play_tables(scenario, seed)
