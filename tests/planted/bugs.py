"""Deliberate faults in the local log, to prove that the searches can find something.

Each bug is a small wrong change that a tired engineer might make. `plant` applies it for the time
of a `with` block; `hunts` names the search that must find it, `seed` one seed that does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.damage import cases as damage
from tests.powerloss import search as powerloss
from tests.simulation.hot_log import hot_log
from tierlog.hot import names
from tierlog.hot.checkpoint import store_checkpoint
from tierlog.hot.headers import HeaderWalk
from tierlog.hot.job import SyncJob
from tierlog.hot.log import Log
from tierlog.hot.producers import Producers
from tierlog.hot.reader import SegmentReader
from tierlog.hot.recovery import Recovery
from tierlog.records.batch import parse_header
from tierlog.records.errors import TruncatedBatch
from tierlog.records.header import HEADER_BYTES, BatchHeader
from tierlog.sim.disk import SimDisk
from tierlog.sim.file import SimFile
from tierlog.sim.world import simulate
from tierlog.types import Bytes

Hunt = Callable[[int], str | None]


def hunt_power_loss(seed: int) -> str | None:
    """The first broken promise of a seed's power cuts."""
    failures = powerloss.search_seed(seed).failures
    return failures[0] if failures else None


def hunt_damage(seed: int) -> str | None:
    """The first broken promise of a seed's injured files."""
    _, failures = damage.search(range(seed, seed + 1))
    return failures[0] if failures else None


def hunt_simulation(seed: int) -> str | None:
    """What went wrong with the logs of a simulated node, if anything did."""
    try:
        simulate(hot_log, seed=seed)
    except AssertionError as failure:
        return str(failure).splitlines()[0]
    return None


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    plant: Callable[[], Any]
    hunt: Hunt
    seed: int
    """Pinned: this seed finds it."""
    tries: int = 1
    """Or one of so many from there on."""


@contextmanager
def no_directory_fsync() -> Iterator[None]:
    """Names are left to luck."""
    with patch.object(SimDisk, "sync_dir", lambda self, path: None):
        yield


@contextmanager
def no_fdatasync_before_ack() -> Iterator[None]:
    """A sync job that forgets the `.log` files."""
    run = SyncJob.run

    def forgetful(job: SyncJob) -> None:
        with without_fdatasync(".log"):
            run(job)

    with patch.object(SyncJob, "run", forgetful):
        yield


@contextmanager
def without_fdatasync(suffix: str) -> Iterator[None]:
    fdatasync = SimFile.fdatasync

    def skipping(file: SimFile) -> None:
        if not file._path.endswith(suffix):
            fdatasync(file)

    with patch.object(SimFile, "fdatasync", skipping):
        yield


@contextmanager
def scanned_counts_as_durable() -> Iterator[None]:
    """Recovery believes that what it could read is on the platter."""
    settle = Recovery._settle

    def hasty(recovery: Recovery) -> None:
        with without_fdatasync(".log"):
            settle(recovery)

    with patch.object(Recovery, "_settle", hasty):
        yield


@contextmanager
def checkpoint_before_data() -> Iterator[None]:
    """The checkpoint vouches for bytes that are not synced yet."""
    run = SyncJob.run

    def eager(job: SyncJob) -> None:
        if job.checkpoint is not None:
            store_checkpoint(job.disk, job.directory, job.checkpoint)
        run(job)

    with patch.object(SyncJob, "run", eager):
        yield


@contextmanager
def rename_before_fsync() -> Iterator[None]:
    """Small files are renamed into place before their content is synced."""
    with without_fdatasync(names.TEMPORARY):
        yield


@contextmanager
def torn_batches_accepted() -> Iterator[None]:
    """The scan trusts lengths and forgets the CRC."""

    def lenient(buffer: Bytes, position: int = 0) -> BatchHeader:
        header = parse_header(buffer, position)
        if header.size_bytes < HEADER_BYTES or position + header.size_bytes > len(buffer):
            raise TruncatedBatch(
                "cut", position=position, needed=header.size_bytes, present=len(buffer) - position
            )
        return header

    with patch("tierlog.hot.scan.validate_stored", lenient):
        yield


@contextmanager
def index_tail_trusted() -> Iterator[None]:
    """Index entries are followed without a look at the batch that they name."""

    def trusting(self: SegmentReader, offset: Any, headers: HeaderWalk, behind: Any) -> Any:
        entry = self.segment.indexes().offsets.at_or_before(offset)
        if entry is None or entry.position <= behind[0]:
            return behind
        header = headers.peek(entry.position)
        return entry.position, header.base_offset if header else entry.last_offset

    with patch.object(SegmentReader, "_start_near", trusting):
        yield


@contextmanager
def seen_offsets_reused() -> Iterator[None]:
    """After a torn tail is cut, its offsets are given out again."""
    with patch.object(Recovery, "_tail_end", lambda self, file, bad, size, start: start):
        yield


@contextmanager
def everything_behind_damage_cut() -> Iterator[None]:
    """Recovery truncates at the first bad batch, as Kafka does."""
    with patch("tierlog.hot.recovery.resync", lambda *args, **kwargs: None):
        yield


@contextmanager
def unchecked_bytes_served() -> Iterator[None]:
    """Bytes at rest are served without a look at their CRC."""

    def unchecked(self: SegmentReader, data: Bytes, position: Any, expected: Any) -> Bytes:
        return data

    with patch.object(SegmentReader, "_check", unchecked):
        yield


@contextmanager
def damage_called_torn() -> Iterator[None]:
    """Every bad batch is taken for a write that never finished, and nobody is told."""

    def quiet(self: Recovery, gap: Any, reason: str) -> None:
        pass

    with (
        patch("tierlog.hot.recovery.judge", lambda **kwargs: names.TORN),
        patch.object(Recovery, "_report", quiet),
    ):
        yield


@contextmanager
def snapshot_without_replay() -> Iterator[None]:
    """Producer state is taken from the snapshot; batches behind it are forgotten."""
    with patch.object(Producers, "visit", lambda self, header, now_ms: None):
        yield


@contextmanager
def truncate_keeps_the_durable_end() -> Iterator[None]:
    """Truncation does not lower what the checkpoint promises first."""
    with (
        patch("tierlog.hot.cutting.store_checkpoint", lambda *args: None),
        patch("tierlog.hot.cutting.store_end", lambda *args, **kwargs: None),
    ):
        yield


@contextmanager
def dropped_pages_believed() -> Iterator[None]:
    """Recovery takes the page cache's word after a failed fsync: what it reads is not on disk."""
    with patch("tierlog.hot.recovery.rewrite", lambda *args, **kwargs: None):
        yield


@contextmanager
def acked_before_the_job_ended() -> Iterator[None]:
    """Waiters are told when a sync begins."""
    begin = Log.begin_sync

    def hasty(log: Log, *, clean: bool = False) -> SyncJob:
        job = begin(log, clean=clean)
        log._waiters.wake(job.end)
        return job

    with patch.object(Log, "begin_sync", hasty):
        yield


BUGS = (
    Bug("skip the directory fsync", no_directory_fsync, hunt_power_loss, 0),
    Bug("ack before fdatasync", no_fdatasync_before_ack, hunt_power_loss, 0),
    Bug("count scanned bytes as durable", scanned_counts_as_durable, hunt_power_loss, 0),
    Bug("checkpoint before the data", checkpoint_before_data, hunt_power_loss, 0),
    Bug("rename before fsync", rename_before_fsync, hunt_power_loss, 0),
    Bug("accept a torn batch", torn_batches_accepted, hunt_power_loss, 4),
    Bug("trust the index tail", index_tail_trusted, hunt_damage, 4),
    Bug("reuse seen offsets", seen_offsets_reused, hunt_power_loss, 10),
    Bug("forget producers behind the snapshot", snapshot_without_replay, hunt_power_loss, 0),
    Bug("truncate without lowering the end", truncate_keeps_the_durable_end, hunt_power_loss, 0),
    Bug("cut everything behind damage", everything_behind_damage_cut, hunt_damage, 20),
    Bug("serve bytes without a check", unchecked_bytes_served, hunt_damage, 0),
    Bug("call damage torn", damage_called_torn, hunt_damage, 0),
    Bug("believe pages that a failed fsync dropped", dropped_pages_believed, hunt_simulation, 5),
    Bug("ack when the sync begins", acked_before_the_job_ended, hunt_simulation, 1),
)
