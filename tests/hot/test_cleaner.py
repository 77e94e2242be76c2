"""The cleaner: what stays, at which offsets, for how long; and what it leaves alone."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from random import Random
from unittest.mock import patch

import pytest

from tests.hot.cleaned import (
    ALWAYS,
    NOW_MS,
    SMALL,
    batches_of,
    clean,
    cleaner_of,
    keyed,
    last_of,
    put,
    records_of,
    seal,
)
from tests.hot.support import append, open_log
from tests.records.batches import altered
from tierlog.hot import Log
from tierlog.hot.cleaner import Cleaner
from tierlog.hot.dirt import CleaningRules
from tierlog.hot.errors import CleaningOvertaken, DiskFull
from tierlog.hot.sync import ManualSyncs
from tierlog.records.attributes import Codec
from tierlog.records.errors import CorruptBatch
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset, TimestampMs


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def begin(disk: SimDisk) -> tuple[Log, ManualSyncs]:
    return open_log(disk, SMALL)


def again(disk: SimDisk) -> tuple[Log, ManualSyncs]:
    disk.kill()
    return begin(disk)


def offsets_of(log: Log) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {record.offset: (record.key, record.value) for record in records_of(log)}


def test_a_cleaning_that_found_no_records_is_not_told(
    disk: SimDisk, caplog: pytest.LogCaptureFixture
) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", b"1"), (b"a", b"2"))
    seal(log, syncs)
    with caplog.at_level("INFO", "tierlog.hot.cleaner"):
        clean(log, syncs)
        assert "bytes became" in caplog.text
        caplog.clear()
        clean(log, syncs)
    assert "became" not in caplog.text


def test_the_last_record_of_every_key_stays_at_its_offset(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", b"3"))
    seal(log, syncs)
    stats = clean(log, syncs)
    assert offsets_of(log) == {1: (b"b", b"2"), 2: (b"a", b"3")}
    assert (log.log_start, log.log_end, log.cleaned_to) == (0, 3, 3)
    assert (stats.cleanings, stats.dropped_records) == (1, 1)
    assert stats.written_bytes < stats.read_bytes


def test_what_is_cleaned_is_so_after_a_restart(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    for number in range(100):
        put(log, (b"%d" % (number % 7), b"%d" % number))
    seal(log, syncs)
    clean(log, syncs)
    before = offsets_of(log)
    log, _ = again(disk)
    assert offsets_of(log) == before
    assert sorted(before) == list(range(93, 100))
    assert log.cleaned_to == 100
    assert log.scanned_bytes == 0, "the checkpoint vouches for it"


def test_the_active_segment_is_left_alone(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", b"1"))
    seal(log, syncs)
    put(log, (b"a", b"2"))
    syncs.run_all()
    clean(log, syncs)
    assert len(records_of(log)) == 2


def test_a_record_that_is_replaced_behind_what_is_cleaned_stays(disk: SimDisk) -> None:
    """The newest value is in the active segment: the one before it is the last that is clean."""
    log, syncs = begin(disk)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    seal(log, syncs)
    put(log, (b"a", b"3"))
    clean(log, syncs)
    syncs.run_all()
    assert [record.value for record in records_of(log)] == [b"2", b"3"]


def test_segments_are_joined_up_to_segment_bytes(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    for number in range(12):
        put(log, (b"k%d" % number, b"x" * 300))
        seal(log, syncs)
    clean(log, syncs)
    segments = list(log.segments)
    assert len(segments) == 4, "five of them fit into one, and the active one stays"
    assert all(one.size <= SMALL.segment_bytes for one in segments)
    assert all(one.next_offset == other.base_offset for one, other in pairwise(segments))
    assert sorted(offsets_of(log)) == list(range(12))


def test_readers_pass_over_what_is_gone(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    for number in range(50):
        put(log, (b"a", b"%d" % number))
    seal(log, syncs)
    clean(log, syncs)
    for offset in range(50):
        assert [record.offset for record in records_of(log, offset)] == [49]


def test_a_log_that_ends_in_what_is_gone_does_not_go_back(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", None))
    put(log, (b"a", None))
    seal(log, syncs)
    clean(log, syncs)
    clean_later(log, syncs, NOW_MS + 1001)
    assert records_of(log) == []
    log, _ = again(disk)
    assert (log.log_start, log.log_end) == (0, 3), "one was appended to make the log dirty"


def clean_later(log: Log, syncs: ManualSyncs, now_ms: int) -> None:
    """Make the log dirty again with something else, and clean it then."""
    put(log, (b"other", None), timestamp=NOW_MS)
    seal(log, syncs)
    clean(log, syncs, now_ms=now_ms)
    clean_again(log, syncs, now_ms + 2000)


def clean_again(log: Log, syncs: ManualSyncs, now_ms: int) -> None:
    log.cleaned_to = Offset(0)
    clean(log, syncs, now_ms=now_ms)


def test_a_tombstone_stays_until_its_time_is_over(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    seal(log, syncs)
    clean(log, syncs, now_ms=NOW_MS)
    assert offsets_of(log) == {1: (b"a", None)}
    (header, records) = next(one for one in batches_of(log) if one[1])
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW_MS + 1000
    assert [record.timestamp for record in records] == [NOW_MS]
    clean_again(log, syncs, NOW_MS + 999)
    assert offsets_of(log) == {1: (b"a", None)}, "and its horizon has not moved"
    clean_again(log, syncs, NOW_MS + 1000)
    assert offsets_of(log) == {}


def test_a_tombstone_counts_from_the_first_cleaning_not_from_its_timestamp(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", None), timestamp=NOW_MS - 10**9)
    seal(log, syncs)
    clean(log, syncs)
    assert offsets_of(log) == {0: (b"a", None)}


def test_a_key_that_comes_back_after_its_tombstone_stays(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    seal(log, syncs)
    clean(log, syncs)
    put(log, (b"a", b"2"))
    seal(log, syncs)
    clean(log, syncs, now_ms=NOW_MS + 10**6)
    assert offsets_of(log) == {2: (b"a", b"2")}


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_keep_their_codec_their_place_and_their_times(disk: SimDisk, codec: Codec) -> None:
    log, syncs = begin(disk)
    append(log, keyed((b"a", b"1"), (b"b", b"2" * 200), (b"c", None), codec=codec))
    append(log, keyed((b"a", b"4"), codec=codec))
    seal(log, syncs)
    clean(log, syncs)
    header, records = batches_of(log)[0]
    assert header.codec == codec
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 2, 2)
    assert [(one.offset, one.timestamp) for one in records] == [(1, NOW_MS + 1), (2, NOW_MS + 2)]
    assert header.max_timestamp == NOW_MS + 2


def test_the_last_batch_of_a_producer_stays_empty(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    append(log, keyed((b"a", b"1"), producer=(7, 0, 0)), now_ms=NOW_MS)
    append(log, keyed((b"a", b"2"), (b"a", b"3"), producer=(7, 0, 1)), now_ms=NOW_MS)
    append(log, keyed((b"a", b"4")))
    seal(log, syncs)
    clean(log, syncs)
    assert [(header.producer_id, len(records)) for header, records in batches_of(log)] == [
        (7, 0),
        (-1, 1),
    ]
    for name in disk.listdir(log.path):
        if name.endswith((".snapshot", ".checkpoint")):
            disk.unlink(f"{log.path}/{name}")
    log, _ = again(disk)
    retry = append(log, keyed((b"a", b"2"), (b"a", b"3"), producer=(7, 0, 1)))
    assert (retry.is_duplicate, retry.base_offset) == (True, 1)
    assert append(log, keyed((b"a", b"5"), producer=(7, 0, 3))).base_offset == 4


def test_a_small_map_takes_several_rounds(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    rng = Random(1)
    for number in range(200):
        put(log, (b"%d" % rng.randrange(40), b"%d" % number))
    seal(log, syncs)
    expected = last_of(records_of(log))
    clean(log, syncs, key_bytes=200 * 8)
    records = records_of(log)
    assert last_of(records) == expected
    assert len(records) == len(expected), "no key twice"
    assert log.cleaned_to == 200


def test_a_map_that_holds_less_than_a_batch_gets_on_all_the_same(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    for _ in range(3):
        append(log, keyed(*((b"%d" % number, b"v") for number in range(20))))
    seal(log, syncs)
    clean(log, syncs, key_bytes=1)
    assert sorted(offsets_of(log)) == list(range(40, 60))


def test_only_dirty_segments_that_are_old_enough_are_cleaned(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", b"1"), timestamp=NOW_MS)
    put(log, (b"a", b"2"), timestamp=NOW_MS)
    seal(log, syncs)
    rules = replace(ALWAYS, min_lag_ms=500)
    clean(log, syncs, now_ms=NOW_MS + 499, rules=rules)
    assert len(records_of(log)) == 2
    clean(log, syncs, now_ms=NOW_MS + 500, rules=rules)
    assert len(records_of(log)) == 1


def test_records_without_a_key_go(disk: SimDisk) -> None:
    """They are from before the topic was compacted; Kafka drops them too."""
    log, syncs = begin(disk)
    append(log, keyed((None, b"x"), (b"a", b"1")))
    seal(log, syncs)
    clean(log, syncs)
    assert offsets_of(log) == {1: (b"a", b"1")}


def test_a_batch_that_nobody_can_decode_stays_as_it_is(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    garbage = altered(keyed((b"a", b"1"), (b"b", b"2")))
    garbage[61] ^= 0x55
    garbage = altered(garbage)
    append(log, garbage)
    put(log, (b"a", b"3"))
    seal(log, syncs)
    before = log.read(Offset(0), bytes_max=1)
    clean(log, syncs)
    assert bytes(log.read(Offset(0), bytes_max=1)) == bytes(before)


def test_damage_stops_the_cleaning_and_changes_nothing(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2" * 50))
    seal(log, syncs)
    path = log.segments.active.path.replace("00002.", "00000.")
    file = disk.open(path, write=True)
    file.pwrite(b"\xff", 100)
    names = disk.listdir(log.path)
    with pytest.raises(CorruptBatch):
        clean(log, syncs)
    assert disk.listdir(log.path) == names
    assert log.cleaned_to == 0


def test_times_are_found_among_what_is_left(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    for number in range(60):
        put(log, (b"%d" % (number % 10), b"v"), timestamp=NOW_MS + number * 100)
    seal(log, syncs)
    clean(log, syncs, now_ms=NOW_MS + 10**5)
    assert log.find_by_time(TimestampMs(NOW_MS)) == (50, NOW_MS + 5000)
    assert log.find_by_time(TimestampMs(NOW_MS + 5450)) == (55, NOW_MS + 5500)
    assert log.latest_by_time() == (59, NOW_MS + 5900)


def test_the_latest_time_is_found_where_its_record_is_gone(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    append(log, keyed((b"a", b"1"), timestamp=NOW_MS + 999, producer=(3, 0, 0)))
    put(log, (b"a", b"2"), timestamp=NOW_MS)
    put(log, (b"b", b"3"), timestamp=NOW_MS + 5)
    seal(log, syncs)
    clean(log, syncs)
    assert log.latest_by_time() == (2, NOW_MS + 5)


def test_leader_epochs_stay_where_they_began(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    for epoch in (1, 2, 3):
        append(log, keyed((b"a", b"%d" % epoch)), leader_epoch=epoch)
        append(log, keyed((b"a", b"x")), leader_epoch=epoch)
    seal(log, syncs)
    entries = log.epochs.entries
    clean(log, syncs)
    assert again(disk)[0].epochs.entries == entries


def test_a_view_of_the_old_bytes_stays_what_it_was(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    for number in range(30):
        put(log, (b"a", b"%d" % number))
    seal(log, syncs)
    view = log.view(Offset(0), bytes_max=1 << 20)
    before = bytes(view)
    clean(log, syncs)
    assert bytes(view) == before


def test_a_log_that_was_once_compacted_is_read_with_its_gaps_for_ever(disk: SimDisk) -> None:
    """Its topic has another policy now: the gaps are no damage."""
    log, syncs = begin(disk)
    for number in range(20):
        put(log, (b"%d" % (number % 3), b"%d" % number))
    seal(log, syncs)
    clean(log, syncs)
    put(log, (b"a", b"z"))  # Not synced: a restart scans.
    before = [record.offset for record in records_of(log)]
    disk.kill()
    log, _ = open_log(disk, replace(SMALL, contiguous=True))
    assert [record.offset for record in records_of(log)] == [*before, 20]
    assert log.gaps == []


def test_everything_is_there_when_the_checkpoint_is_lost(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    for number in range(80):
        put(log, (b"%d" % (number % 9), b"%d" % number))
        if number % 20 == 19:
            seal(log, syncs)
    clean(log, syncs)
    before = offsets_of(log)
    disk.unlink(f"{log.path}/partition.checkpoint")
    log, _ = again(disk)
    assert offsets_of(log) == before
    assert log.gaps == [], "no hole is taken for damage"
    assert log.cleaned_to == 0, "it is cleaned again"


def test_a_segment_that_is_missing_beside_a_cleaned_one_is_noticed(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    for number in range(40):
        put(log, (b"%d" % number, b"x" * 100))
    seal(log, syncs)
    clean(log, syncs)
    segments = list(log.segments)
    disk.unlink(segments[1].path)
    log, _ = again(disk)
    assert [(gap.start, gap.end) for gap in log.gaps] == [
        (segments[1].base_offset, segments[1].next_offset)
    ]


def test_a_trim_under_a_cleaning_wins(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    for number in range(10):
        put(log, (b"a", b"x" * 400 + b"%d" % number))
    seal(log, syncs)
    old = log.cleanable()[:2]
    log.trim(old[1].next_offset)
    syncs.run_all()
    with pytest.raises(CleaningOvertaken):
        log.begin_swap(old, old[0].numbers)


def test_a_trim_waits_for_a_swap(disk: SimDisk) -> None:
    """The segments that are about to be replaced go once they are replaced."""
    log, syncs = begin(disk)
    for number in range(10):
        put(log, (b"%d" % (number % 9), b"x" * 400))
    seal(log, syncs)

    class Trimming(ManualSyncs):
        def run_all(self) -> None:
            if log._pending.swap is not None and log.log_start == 0:
                log.trim(Offset(8))
            syncs.run_all()

    with pytest.raises(FileNotFoundError):
        clean(log, Trimming())  # The other segments are gone: it is given up.
    syncs.run_all()
    assert log.log_start == 8
    assert sorted(offsets_of(log)) == [8, 9]
    assert all(one.next_offset > 8 for one in log.segments)
    log, _ = again(disk)
    assert sorted(offsets_of(log)) == [8, 9]


def test_nothing_is_swapped_where_nothing_changes(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", b"1"), (b"b", b"2"))
    seal(log, syncs)
    clean(log, syncs)
    segment = next(iter(log.segments))
    put(log, (b"c", b"x" * 1900))
    seal(log, syncs)
    clean(log, syncs)
    assert next(iter(log.segments)) is segment
    assert [name for name in disk.listdir(log.path) if "cleaned" in name or "swap" in name] == []


def test_what_nobody_foresaw_does_not_end_compaction(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    seal(log, syncs)
    cleaner, _ = cleaner_of(log)
    cleaner._settings = replace(cleaner._settings, backoff_ms=0)
    found = list(cleaner._candidates())

    async def run() -> None:
        with (
            patch.object(cleaner, "_candidates", side_effect=[KeyError("a bug"), found, []]),
            patch.object(cleaner, "clean", side_effect=ZeroDivisionError("another")),
            pytest.raises(RuntimeError),
        ):
            await cleaner.run()

    with patch("asyncio.sleep", side_effect=[None, None, RuntimeError("enough")]):
        asyncio.run(run())
    assert cleaner.stats.failures == 2
    assert cleaner.stats.last_error == "t-0: another"


def test_a_cleaning_that_fails_is_told_and_tried_later(disk: SimDisk) -> None:
    log, syncs = begin(disk)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    seal(log, syncs)
    cleaner, clock = cleaner_of(log, CleaningRules(min_dirty_ratio=0.0))
    disk.capacity = disk.used

    async def run() -> None:
        dirtiest = await cleaner._dirtiest()
        assert dirtiest is not None
        await cleaner._try(dirtiest)
        assert (await cleaner._dirtiest()) is None, "it rests"
        clock.ms += 60_000
        assert (await cleaner._dirtiest()) is not None

    asyncio.run(run())
    assert cleaner.stats.failures == 1
    assert cleaner.stats.last_error.startswith("t-0: /data has 0 bytes free")
    assert len(records_of(log)) == 2


def test_a_cleaning_that_finds_no_room_is_not_told_as_a_full_disk(
    disk: SimDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """It asks for a whole segment, where an append asks for some bytes."""
    log, syncs = begin(disk)
    put(log, (b"a", bytes(500)))
    put(log, (b"a", bytes(500)))
    seal(log, syncs)
    cleaner, _ = cleaner_of(log, CleaningRules(min_dirty_ratio=0.0))
    disk.capacity = disk.used + 500

    async def run() -> None:
        dirtiest = await cleaner._dirtiest()
        assert dirtiest is not None
        await cleaner._try(dirtiest)

    asyncio.run(run())
    assert cleaner.stats.failures == 1
    assert not log._directory.is_full
    assert "nothing is appended" not in caplog.text
    disk.capacity = disk.used
    with pytest.raises(DiskFull):
        log._directory.claim(1)
    asyncio.run(run_again(cleaner))
    assert log._directory.is_full, "an append was refused, whatever the cleaner finds"


async def run_again(cleaner: Cleaner) -> None:
    for one in cleaner._candidates():
        await cleaner._try(one)
