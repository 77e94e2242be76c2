"""The local log beside bare system calls: append, sequential read, recovery scan, clean open.

Everything runs on the disk below the scratch folder, from and to the page cache, with new files:
- append: validate, patch, pwrite, index / the same bytes through CRC-32C and pwrite. Hold 0.8.
- read: sequential, 1 MiB a call, of what the process wrote / pread of the same. Hold 0.9.
- recovery: the scan after a kill, indexes and producers included / read and CRC of the same bytes,
  batch by batch. Hold 0.7 at 64 KB batches; 200 B is reported, and so is the whole recovery with
  its fsyncs, index files and checkpoint.
- open: a cleanly closed log of 1,000 segments, beside listing and stating its files. Report; that
  it reads no `.log` file is a test.
"""

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from crc32c import crc32c

from benchmarks.harness import Comparison, Size
from tierlog.env import File, local_env
from tierlog.hot import Log, LogDirectory, LogSettings
from tierlog.hot.endmark import encode_end
from tierlog.hot.files import FilePool
from tierlog.hot.recovery import Recovery
from tierlog.hot.sync import ManualSyncs
from tierlog.records.batch import validate_produced
from tierlog.records.record import Record, encode_batch
from tierlog.types import LeaderEpoch, Offset, TimestampMs

SIZE_MAX = 1_048_588
EPOCH = LeaderEpoch(1)
READ_BYTES = 1 << 20
SETTINGS = LogSettings(segment_bytes=1 << 30, checkpoint_bytes=1 << 40)
SHAPES = {"64 KB": (500, 121), "200 B": (1, 130)}


def comparisons(size: Size) -> list[Comparison]:
    scratch = Path(size.scratch) / "hot"
    scratch.mkdir(parents=True, exist_ok=True)
    return [
        append_comparison(size, scratch),
        read_comparison(size, scratch),
        *(recovery_comparison(size, scratch, label) for label in SHAPES),
        open_comparison(size, scratch),
    ]


def make_batch(label: str) -> memoryview:
    """As the broker holds it: a view of its receive buffer."""
    count, value_bytes = SHAPES[label]
    records = [
        Record(Offset(i), TimestampMs(1_700_000_000_000 + i), None, os.urandom(value_bytes))
        for i in range(count)
    ]
    return memoryview(encode_batch(records))


def open_log(path: Path, *, segment_bytes: int = 1 << 30) -> tuple[Log, LogDirectory, ManualSyncs]:
    """A log that never syncs by itself: the page cache is what is measured."""
    syncs = ManualSyncs()
    directory = LogDirectory(local_env(), str(path), syncs=syncs)
    settings = replace(SETTINGS, segment_bytes=segment_bytes)
    return Log(directory, "p", settings), directory, syncs


def append_one(log: Log, batch: memoryview) -> None:
    header = validate_produced(batch, SIZE_MAX)
    log.append(batch, header, leader_epoch=EPOCH, now_ms=1)


class ScanOnly(Recovery):
    """A recovery without its last step, which makes durable what was found."""

    def _settle(self) -> None:
        pass


def append_comparison(size: Size, scratch: Path) -> Comparison:
    batch = make_batch("64 KB")
    count = max(1, size.data_bytes // len(batch))
    bare = BareFile(scratch / "bare-append")
    ours = FreshLog(scratch / "log-append")

    def ours_once() -> None:
        log = ours.log
        for _ in range(count):
            append_one(log, batch)

    def bare_once() -> None:
        bare.file.fallocate(count * len(batch))
        file, view, position, step = bare.file, memoryview(batch)[21:], 0, len(batch)
        for _ in range(count):
            crc32c(view)
            file.pwrite(batch, position)
            position += step

    def start_anew() -> None:
        bare.drop()
        ours.drop()
        bare.begin()
        ours.begin()

    return Comparison(
        name="append of 64 KB batches",
        variants={"bare CRC + pwrite": bare_once, "log append": ours_once},
        baseline="bare CRC + pwrite",
        hold=0.8,
        aim=0.9,
        units=count * len(batch),
        unit="bytes",
        repetitions_max=1,
        note="new files on both sides, blocks reserved ahead on both",
        prepare=start_anew,
    )


@dataclass(slots=True)
class BareFile:
    """A new file, as often as asked."""

    path: Path
    _file: File | None = None

    @property
    def file(self) -> File:
        assert self._file is not None
        return self._file

    def begin(self) -> None:
        self._file = local_env().disk.open(str(self.path), create=True)

    def drop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self.path.unlink()


@dataclass(slots=True)
class FreshLog:
    """A new log each time."""

    path: Path
    _open: tuple[Log, LogDirectory, ManualSyncs] | None = None

    @property
    def log(self) -> Log:
        assert self._open is not None
        return self._open[0]

    def begin(self) -> None:
        self._open = open_log(self.path)

    def drop(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None
            shutil.rmtree(self.path)


def filled_log(path: Path, label: str, data_bytes: int) -> tuple[Log, LogDirectory, ManualSyncs]:
    shutil.rmtree(path, ignore_errors=True)
    opened = open_log(path)
    batch = make_batch(label)
    for _ in range(max(2, data_bytes // len(batch))):
        append_one(opened[0], batch)
    return opened


def read_comparison(size: Size, scratch: Path) -> Comparison:
    log, _, syncs = filled_log(scratch / "read", "64 KB", size.data_bytes)
    syncs.run_all()
    file = local_env().disk.open(log.segments.active.path)
    total = file.size()
    records = SHAPES["64 KB"][0]
    batch_bytes = total // (log.log_end // records)

    def bare() -> None:
        position = 0
        while position < total:
            data = file.pread(READ_BYTES, position)  # Held for a turn, as every reader does.
            position += len(data)

    def ours() -> None:
        offset, end = log.log_start, log.visible_end
        while offset < end:
            data = log.read(offset, bytes_max=READ_BYTES)
            # What a consumer knows after decoding: the last batch's end. All batches are alike.
            offset = Offset(offset + len(data) // batch_bytes * records)

    return Comparison(
        name="sequential read, 1 MiB a call",
        variants={"bare pread": bare, "log read": ours},
        baseline="bare pread",
        hold=0.9,
        aim=0.97,
        units=total,
        unit="bytes",
    )


def recovery_comparison(size: Size, scratch: Path, label: str) -> Comparison:
    path = scratch / f"recover-{label.replace(' ', '')}"
    # Never closed: to recovery it looks like a kill. The end mark says, as it does after one, that
    # the batches were synced; those that were not, a few milliseconds' worth, are written again.
    data_bytes = size.data_bytes * 4 if label == "64 KB" else size.data_bytes // 8
    log, directory, _ = filled_log(path, label, data_bytes)
    log_path, total = log.segments.active.path, log.segments.active.size
    checkpoint = (path / "p" / "partition.checkpoint").read_bytes()
    end_mark = encode_end(log.log_end)
    directory.close()
    batch_bytes = len(make_batch(label))

    def reset() -> None:
        (path / "p" / "partition.checkpoint").write_bytes(checkpoint)
        (path / "p" / "durable.end").write_bytes(end_mark)
        for name in os.listdir(path / "p"):
            if name.endswith((".index", ".timeindex", ".snapshot")):
                (path / "p" / name).unlink()

    def bare() -> None:
        file = local_env().disk.open(log_path)
        piece = memoryview(bytearray(4 << 20))
        position = 0
        while got := file.pread_into(piece, position):
            whole = got - got % batch_bytes
            for start in range(0, whole, batch_bytes):
                crc32c(piece[start + 21 : start + batch_bytes])
            position += whole or got
        file.close()

    def scan() -> None:
        disk = local_env().disk
        pool = FilePool(disk, open_max=8)
        recovery = ScanOnly(
            disk=disk,
            directory=str(path / "p"),
            pool=pool,
            settings=SETTINGS,
            start=Offset(0),
            now_ms=1,
        )
        assert recovery.run().scanned_bytes == total
        pool.close()

    def whole() -> None:
        log, directory, _ = open_log(path)
        assert log.scanned_bytes == total
        directory.close()

    return Comparison(
        name=f"recovery of {label} batches",
        variants={"bare read + CRC": bare, "recovery scan": scan, "with fsyncs and files": whole},
        baseline="bare read + CRC",
        hold=0.7 if label == "64 KB" else None,
        units=total,
        unit="bytes",
        repetitions_max=1,
        prepare=reset,
        note="the scan checks, indexes and learns producers and epochs",
    )


def open_comparison(size: Size, scratch: Path) -> Comparison:
    path = scratch / "open"
    segments = 1000 if size.is_full else 10
    log, directory, syncs = open_log(path, segment_bytes=1024)
    record = Record(Offset(0), TimestampMs(1_700_000_000_000), None, b"x" * 900)
    batch = memoryview(encode_batch([record]))
    for _ in range(segments):
        append_one(log, batch)
    syncs.run_all()
    log.close_now()
    directory.close()

    def stat_all() -> None:
        for name in os.listdir(path / "p"):
            if name.endswith(".log"):
                os.stat(path / "p" / name)

    def ours() -> None:
        log, directory, _ = open_log(path, segment_bytes=1024)
        assert log.scanned_bytes == 0
        directory.close()

    return Comparison(
        name=f"open a clean log of {segments} segments",
        variants={"list and stat": stat_all, "open": ours},
        baseline="list and stat",
        note="ratio is for context; no .log file is read",
    )
