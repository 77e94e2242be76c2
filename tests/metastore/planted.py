"""Deliberate faults in the local metastore, to prove that the hunts can find something.

    python -m tests.metastore.planted

searches for each of them anew and prints a table.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.metastore.crash import hunt_crashes, hunt_damage
from tierlog.metastore import codec
from tierlog.metastore.codec import FRAME_HEAD_BYTES, Frame
from tierlog.metastore.journal import SNAPSHOT, Journal
from tierlog.metastore.local import LocalMetaStore
from tierlog.metastore.port import Entry
from tierlog.sim.disk import SimDisk
from tierlog.sim.file import SimFile


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    plant: Callable[[], Any]
    hunt: Callable[[int], str | None]
    seed: int
    """Pinned: this seed finds it."""


@contextmanager
def without_fdatasync(suffix: str = "") -> Iterator[None]:
    fdatasync = SimFile.fdatasync

    def skipping(file: SimFile) -> None:
        if not file._path.endswith(suffix):
            fdatasync(file)

    with patch.object(SimFile, "fdatasync", skipping):
        yield


@contextmanager
def acknowledged_before_fdatasync() -> Iterator[None]:
    append = Journal.append

    def hasty(journal: Journal, txns: Sequence[Any]) -> None:
        with without_fdatasync():
            append(journal, txns)

    with patch.object(Journal, "append", hasty):
        yield


@contextmanager
def snapshot_renamed_before_fdatasync() -> Iterator[None]:
    with without_fdatasync(f"{SNAPSHOT}.tmp"):
        yield


@contextmanager
def journal_emptied_before_the_snapshot() -> Iterator[None]:
    def reversed_order(journal: Journal, entries: Iterable[Entry]) -> None:
        data = codec.encode_snapshot(journal._store_id, journal.revision, entries)
        journal._start_journal(journal.revision)
        journal._replace(SNAPSHOT, data).close()
        journal._sync_names()

    with patch.object(Journal, "compact", reversed_order):
        yield


@contextmanager
def names_left_to_luck() -> Iterator[None]:
    with patch.object(SimDisk, "sync_dir", lambda self, path: None):
        yield


@contextmanager
def checksum_of_frames_forgotten() -> Iterator[None]:
    def lenient(data: memoryview, position: int) -> Frame | None:
        if position + FRAME_HEAD_BYTES > len(data):
            return None
        magic, _, size, count, first, place = codec._FRAME.unpack_from(data, position)
        end = position + FRAME_HEAD_BYTES + size
        if magic != codec.FRAME_MAGIC or place != position or end > len(data):
            return None
        return Frame(first, count, data[position + FRAME_HEAD_BYTES : end], end)

    with patch.object(codec, "read_frame", lenient):
        yield


@contextmanager
def dropped_pages_believed() -> Iterator[None]:
    """The journal that was read is gone on with: a failed fsync may have dropped its pages."""
    replay = Journal._replay

    def believing(journal: Journal, data: bytes) -> bool:
        replay(journal, data)
        return False

    with patch.object(Journal, "_replay", believing):
        yield


@contextmanager
def visible_before_durable() -> Iterator[None]:
    """Readers see a transaction while it is on its way to the disk."""

    async def hasty(store: LocalMetaStore, taken: Sequence[Any]) -> None:
        group, members = store._decide(taken)
        store._state.apply(group)
        if group.applied:
            await store._env.tasks.in_thread(store._journal.append, group.applied)
        for each, result in zip(members, group.results, strict=True):
            each.answer.set_result(result)

    with patch.object(LocalMetaStore, "_commit", hasty):
        yield


@contextmanager
def mixed_up_transactions() -> Iterator[None]:
    """A full disk took a part of a frame, and nobody takes it back: the next one lands behind."""

    def careless(journal: Journal, fault: OSError) -> None:
        assert journal._file is not None
        journal._end = journal._file.size()

    with patch.object(Journal, "_take_back", careless):
        yield


@contextmanager
def damage_called_torn() -> Iterator[None]:
    with patch.object(codec, "find_frame", lambda data, position: None):
        yield


@contextmanager
def no_mark() -> Iterator[None]:
    with patch.object(Journal, "_mark", lambda self: None):
        yield


BUGS = (
    Bug("acknowledge before fdatasync", acknowledged_before_fdatasync, hunt_crashes, 0),
    Bug("rename the snapshot unsynced", snapshot_renamed_before_fdatasync, hunt_crashes, 0),
    Bug("empty the journal too early", journal_emptied_before_the_snapshot, hunt_crashes, 0),
    Bug("skip the directory fsync", names_left_to_luck, hunt_crashes, 0),
    Bug("accept a torn frame", checksum_of_frames_forgotten, hunt_crashes, 0),
    Bug("believe pages that a failed fsync dropped", dropped_pages_believed, hunt_crashes, 0),
    Bug("show before it is durable", visible_before_durable, hunt_crashes, 3),
    Bug("write behind half a frame", mixed_up_transactions, hunt_crashes, 0),
    Bug("call damage torn", damage_called_torn, hunt_damage, 0),
    Bug("leave out the mark", no_mark, hunt_damage, 0),
)


def main() -> int:
    logging.disable(logging.WARNING)
    missed = 0
    for bug in BUGS:
        found = None
        with bug.plant():
            for seed in range(60):
                if (found := bug.hunt(seed)) is not None:
                    break
        missed += found is None
        print(f"{bug.name:<44} {found or 'NOT FOUND'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
