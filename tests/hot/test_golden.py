"""The format on disk: golden files, byte for byte, and what they mean."""

from tests.hot.goldenlog import SETTINGS, build, kept
from tests.hot.support import append, batch, open_log, read_values
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset


def test_a_log_is_written_as_it_always_was() -> None:
    written, golden = build(), kept()
    assert sorted(written) == sorted(golden)
    for name, data in written.items():
        assert data.hex() == golden[name].hex(), f"{name} has another format now"


def test_every_kind_of_file_has_its_golden_bytes() -> None:
    kinds = {name.rpartition(".")[2] for name in kept()}
    assert kinds == {"log", "index", "timeindex", "snapshot", "checkpoint", "end"}


def test_a_log_of_an_earlier_day_opens_without_a_scan() -> None:
    disk = SimDisk()
    disk.mkdir("/data/p")
    for name, data in kept().items():
        file = disk.open(f"/data/p/{name}", create=True)
        file.pwrite(data, 0)
        file.close()
    log, _ = open_log(disk, SETTINGS)
    assert (log.scanned_bytes, log.log_start, log.log_end) == (0, 1003, 1024)
    assert sorted(read_values(log)) == list(range(1002, 1024))
    assert [tuple(entry) for entry in log.epochs.entries] == [(4, 1003), (5, 1016)]
    again = batch(b"x", b"y", producer_id=2, producer_epoch=0, base_sequence=10)
    assert append(log, again) == (1022, 1023, -1, True)
    first = log.find_by_time(log.latest_by_time()[1])  # type: ignore[index]  # the log is not empty
    assert first == log.latest_by_time()
    assert log.epochs.end_of(log.epochs.latest, log_end=Offset(1024)) == (5, 1024)
