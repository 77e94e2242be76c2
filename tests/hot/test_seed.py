"""Logs that begin where another copy ended, and remember what was written before."""

from random import Random

import pytest

from tests.hot.support import SMALL, FixedClock, append, batch, env_on, open_log, read_values
from tierlog.hot import Log, LogDirectory, Seed, smallfile
from tierlog.hot.epochs import EpochStart
from tierlog.hot.errors import AlreadyOpen, InvalidSeed
from tierlog.hot.opening import open_partition
from tierlog.hot.sync import ManualSyncs
from tierlog.sim.disk import PowerCut, SimDisk
from tierlog.types import LeaderEpoch, Offset

START = Offset(500)


def epoch(number: int, start: int) -> EpochStart:
    return EpochStart(LeaderEpoch(number), Offset(start))


async def a_seed() -> Seed:
    """Of a producer that wrote sequence 0 at offset 499."""
    log, syncs = open_log(SimDisk(), start=499)
    append(log, sent(0), now_ms=FixedClock().ms)
    log.roll()
    syncs.run_all()
    epochs = (epoch(1, 0), epoch(4, 300), epoch(9, 600))
    return Seed(producers=await log.producers_at(START), epochs=epochs)


def sent(sequence: int) -> bytearray:
    return batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)


def directory_on(disk: SimDisk) -> LogDirectory:
    return LogDirectory(env_on(disk), "/data", syncs=ManualSyncs(), reserve_bytes=0)


async def begun(disk: SimDisk, seed: Seed) -> Log:
    return await directory_on(disk).open_log("p", SMALL, start=START, seed=seed)


async def test_a_seeded_log_begins_at_its_offset_and_knows_its_past() -> None:
    log = await begun(SimDisk(), await a_seed())
    assert (log.log_start, log.log_end, log.durable_end) == (500, 500, 500)
    assert log.epochs.entries == (epoch(4, 500),)
    again = append(log, sent(0))
    assert (again.is_duplicate, again.base_offset) == (True, 499)
    assert append(log, sent(1), leader_epoch=5).base_offset == 500
    assert log.epochs.entries == (epoch(5, 500),)


async def test_the_past_survives_a_restart() -> None:
    disk = SimDisk()
    await begun(disk, await a_seed())
    disk.power_cut(Random(1))
    log, _ = open_log(disk)
    assert (log.log_start, log.epochs.entries) == (500, (epoch(4, 500),))
    assert append(log, sent(0)).is_duplicate


async def test_an_empty_seed_is_no_past() -> None:
    log = await begun(SimDisk(), Seed())
    assert (log.log_start, log.epochs.entries, len(log.producers)) == (500, (), 0)


async def test_a_log_that_is_there_ignores_the_seed() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    append(log, sent(0))
    log.close_now()
    disk.kill()
    log = await begun(disk, Seed(epochs=(epoch(3, 0),)))
    assert (log.log_start, log.log_end, log.epochs.latest) == (0, 1, 1)
    assert read_values(log) == {0: b"x"}


async def test_a_seed_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidSeed, match="cannot be read"):
        await begun(SimDisk(), Seed(producers=b"nonsense"))


async def test_cut_off_anywhere_a_seeded_log_is_begun_again() -> None:
    seed = await a_seed()
    cuts = 0
    while True:
        disk = SimDisk()
        smallfile.make_directory(disk, "/data/p")
        left = cuts

        def cut(_: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCut

        disk.on_op = cut
        try:
            open_partition(disk, "/data/p", SMALL, start=START, now_ms=1, seed=seed)
        except PowerCut:
            pass
        else:
            break
        disk.on_op = None
        for number in range(8):
            log = await begun(disk.after_power_cut(Random(number)), seed)
            assert (log.log_start, log.log_end, log.epochs.latest) == (500, 500, 4), cuts
            assert append(log, sent(0)).is_duplicate, cuts
        cuts += 1
    assert cuts > 5


async def test_what_is_put_aside_is_kept_under_a_name_that_nobody_opens() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    append(log, sent(0))
    log.close_now()
    disk.kill()
    directory = directory_on(disk)
    kept = await directory.put_aside("p")
    assert kept is not None
    assert directory.names() == []
    disk.power_cut(Random(2))
    directory = directory_on(disk)
    await directory.swept()
    assert f"{0:020d}.log" in disk.listdir(kept)
    assert directory.names() == []
    log = await directory.open_log("p", SMALL, start=START)
    assert (log.log_start, log.log_end) == (500, 500)


async def test_what_is_not_there_cannot_be_put_aside() -> None:
    assert await directory_on(SimDisk()).put_aside("p") is None


async def test_an_open_log_cannot_be_put_aside() -> None:
    directory = directory_on(SimDisk())
    await directory.open_log("p", SMALL)
    with pytest.raises(AlreadyOpen):
        await directory.put_aside("p")
