"""The local metastore's directory: a snapshot, and a journal of what came after it.

Blocking: called in threads, one call at a time. A frame is durable when `append` returns. There is
never more than one frame that is not, so after a power cut only the last frame can be torn. It is
cut, with a warning: it was never acknowledged. A bad frame with a sound one behind it was durable
once: that is damage, and opening refuses. So that the last acknowledged frame is covered too, a
*mark* (a frame without transactions) is written behind it once it is durable. The mark is not
synced, and the next frame overwrites it.

Opening a journal with frames rewrites what it read as a new snapshot before anybody sees it: pages
that a failed fsync dropped can still be read in the same boot, and are on no platter.

Order of a compaction, each step durable before the next: the new snapshot, then the empty journal.
In between the journal's frames are older than the snapshot and passed over. A directory that cannot
be opened for its sync (too many open files) breaks nothing: the next frame waits for that sync.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EDQUOT, EMFILE, ENFILE, ENOSPC

from tierlog.env import DiskLock, Env, File
from tierlog.metastore import codec
from tierlog.metastore.codec import FRAME_HEAD_BYTES, JOURNAL_HEAD_BYTES, JournalHead, Snapshot
from tierlog.metastore.errors import (
    MetaStoreBroken,
    MetaStoreDamaged,
    MetaStoreFull,
    MetaStoreInUse,
    MetaStoreNewer,
    MetaStoreUnavailable,
)
from tierlog.metastore.files import TEMPORARY, make_directory, prepare, read_file, write_at
from tierlog.metastore.port import Entry
from tierlog.metastore.state import Applied

LOCK, SNAPSHOT, JOURNAL, TORN = ".lock", "snapshot", "journal", "journal.torn"
NO_SPACE = (ENOSPC, EDQUOT)
NO_MORE_FILES = (EMFILE, ENFILE)
RESERVE_BYTES = 64 << 10
"""Blocks are reserved in steps of this size: seldom, and little for a small store."""

logger = logging.getLogger(__name__)


class Journal:
    """Holds the directory's lock from `open` to `close`."""

    def __init__(self, env: Env, path: str) -> None:
        self._disk = env.disk
        self._rng = env.rng
        self.path = path
        self.entries: dict[str, Entry] = {}
        """What `open` found. Its owner goes on with it; the journal does not look at it again."""
        self.revision = 0
        """Of the last durable transaction."""
        self.snapshot_bytes = 0
        self._store_id = bytes(16)
        self._end = 0
        """Behind the last frame. The mark begins here."""
        self._reserved = 0
        self._has_new_name = False
        """A file was renamed into place, and a power cut may still undo that."""
        self._file: File | None = None
        self._lock: DiskLock | None = None

    @property
    def journal_bytes(self) -> int:
        return self._end

    # Opening

    def open(self) -> None:
        """Take the lock and read everything. Nothing is kept open when it raises."""
        try:
            self._take_lock()
            self._recover()
        except OSError as fault:
            self.close()
            raise self._full(fault) from fault
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> None:
        make_directory(self._disk, self.path)
        try:
            self._lock = self._disk.lock(f"{self.path}/{LOCK}")
        except BlockingIOError as held:
            raise MetaStoreInUse(
                f"{self.path} is in use by another process; stop it, or name another directory"
            ) from held

    def _recover(self) -> None:
        # Whoever renamed may have been killed before the name was durable.
        self._disk.sync_dir(self.path)
        for name in (SNAPSHOT + TEMPORARY, JOURNAL + TEMPORARY):
            if self._disk.exists(f"{self.path}/{name}"):
                self._disk.unlink(f"{self.path}/{name}")
        data = read_file(self._disk, f"{self.path}/{JOURNAL}")
        snapshot = self._read_snapshot()
        if data is None:
            self._create(snapshot)
            return
        head = self._read_head(data)
        self._check_pair(snapshot, head)
        self._store_id = head.store_id
        is_rewritten = self._replay(data)
        is_rewritten |= self._drop_sessions()
        if is_rewritten:
            self.compact(self.entries.values())
        else:
            self._file = self._disk.open(f"{self.path}/{JOURNAL}", write=True)
            self._end = len(data)

    def _create(self, snapshot: Snapshot | None) -> None:
        # The journal is made before the first snapshot and never removed.
        if snapshot is not None:
            raise self._damaged(JOURNAL, "is missing, though there is a snapshot")
        self._store_id = self._rng.uuid().bytes
        self._start_journal(0)

    def _read_snapshot(self) -> Snapshot | None:
        data = read_file(self._disk, f"{self.path}/{SNAPSHOT}")
        if data is None:
            return None
        try:
            found = codec.decode_snapshot(data)
        except codec.UnknownMajor as newer:
            raise self._newer(SNAPSHOT, newer) from newer
        except codec.Unreadable as fault:
            raise self._damaged(SNAPSHOT, f"cannot be read: {fault}") from fault
        self.snapshot_bytes = len(data)
        self.revision = found.revision
        self.entries = {entry.key: entry for entry in found.entries}
        return found

    def _read_head(self, data: bytes) -> JournalHead:
        try:
            return codec.decode_journal_head(data)
        except codec.UnknownMajor as newer:
            raise self._newer(JOURNAL, newer) from newer
        except codec.Unreadable as fault:
            raise self._damaged(JOURNAL, f"cannot be read: {fault}") from fault

    def _check_pair(self, snapshot: Snapshot | None, head: JournalHead) -> None:
        if snapshot is None and head.base > 0:
            raise self._damaged(SNAPSHOT, f"is missing: the journal begins behind {head.base}")
        if snapshot is not None and snapshot.store_id != head.store_id:
            raise self._damaged(SNAPSHOT, "and journal belong to two different stores")
        if snapshot is not None and snapshot.revision < head.base:
            raise self._damaged(
                SNAPSHOT,
                f"ends at revision {snapshot.revision}, but the journal begins behind {head.base}",
            )

    def _replay(self, data: bytes) -> bool:
        """Read the frames; whether there is anything behind the head, a torn frame included."""
        view = memoryview(data)
        position = JOURNAL_HEAD_BYTES
        while (frame := codec.read_frame(view, position)) is not None:
            self._replay_frame(frame, position)
            position = frame.end
        if position < len(data):
            self._cut(data, position)
        return len(data) > JOURNAL_HEAD_BYTES

    def _replay_frame(self, frame: codec.Frame, position: int) -> None:
        last = frame.first + frame.count - 1
        if last <= self.revision:
            return  # Older than the snapshot, or a mark.
        if frame.first != self.revision + 1:
            raise self._damaged(
                JOURNAL,
                f"goes on with revision {frame.first} at position {position}, "
                f"where {self.revision + 1} should follow",
            )
        try:
            codec.replay_frame(frame, self.entries)
        except codec.Unreadable as fault:
            raise self._damaged(JOURNAL, f"has a bad frame at {position}: {fault}") from fault
        self.revision = last

    def _cut(self, data: bytes, position: int) -> None:
        behind = codec.find_frame(data, position + 1)
        if behind is not None:
            raise self._damaged(
                JOURNAL,
                f"has a bad frame at position {position}, but goes on at {behind}: "
                f"transactions behind revision {self.revision} were durable and cannot be read",
            )
        logger.warning(
            "%s/%s: the last %d bytes, behind revision %d, are a write that never finished; "
            "cut, and kept as %s",
            self.path,
            JOURNAL,
            len(data) - position,
            self.revision,
            TORN,
        )
        with suppress(OSError):  # For a curious eye only; the store does not need it.
            file = self._disk.open(f"{self.path}/{TORN}", create=True)
            try:
                file.truncate(0)
                write_at(file, memoryview(data)[position:], 0)
            finally:
                file.close()

    def _drop_sessions(self) -> bool:
        """Keys of sessions end with the process that held them."""
        gone = [key for key, entry in self.entries.items() if entry.session]
        for key in gone:
            del self.entries[key]
        self.revision += bool(gone)
        return bool(gone)

    # Writing

    def append(self, txns: Sequence[Applied]) -> None:
        """Make the transactions durable. `MetaStoreUnavailable`: nothing changed."""
        assert self._file is not None
        self._sync_names()
        frame = codec.encode_frame(txns, position=self._end)
        self._reserve(self._end + len(frame) + FRAME_HEAD_BYTES)
        try:
            write_at(self._file, frame, self._end)
        except OSError as fault:
            self._take_back(fault)
            raise self._full(fault) from fault
        with self._or_broken():
            self._file.fdatasync()
        self._end += len(frame)
        self.revision = txns[-1].revision
        self._mark()

    def _reserve(self, size: int) -> None:
        """Space for a frame and its mark, so that a full disk says no before anything is written.
        Where the file system cannot reserve, the write says it."""
        assert self._file is not None
        if size <= self._reserved:
            return
        try:
            self._file.fallocate(size + RESERVE_BYTES)
        except OSError as fault:
            raise self._full(fault) from fault
        self._reserved = size + RESERVE_BYTES

    def _take_back(self, fault: OSError) -> None:
        """A full disk took a part of a frame. It cannot be taken for one, but its space is due."""
        assert self._file is not None
        with self._or_broken():
            if fault.errno not in NO_SPACE:
                raise fault
            self._file.truncate(self._end)
        self._reserved = 0
        self._mark()

    def _mark(self) -> None:
        # A mark is worth having, not worth failing for: the next write says what is wrong.
        with suppress(OSError):
            assert self._file is not None
            write_at(self._file, codec.encode_mark(self.revision, position=self._end), self._end)

    def compact(self, entries: Iterable[Entry]) -> None:
        """Write `entries`, all there are at `revision`, as the snapshot; begin an empty journal.

        `MetaStoreUnavailable`: there was no room; the store goes on as it was.
        """
        data = codec.encode_snapshot(self._store_id, self.revision, entries)
        self._replace(SNAPSHOT, data).close()
        self._sync_names()
        self.snapshot_bytes = len(data)
        self._start_journal(self.revision)

    def _start_journal(self, base: int) -> None:
        head = codec.encode_journal_head(self._store_id, base)
        file = self._replace(JOURNAL, head)
        if self._file is not None:
            self._file.close()
        # From here on frames go to the file that has the name, once the name is durable.
        self._file, self._end, self._reserved = file, len(head), 0
        self._sync_names()

    def _replace(self, name: str, data: bytes) -> File:
        """After a power cut the old or the new content is there; after `_sync_names`, the new."""
        path = f"{self.path}/{name}"
        try:
            file = prepare(self._disk, path + TEMPORARY, data)
        except OSError as fault:
            raise self._full(fault) from fault
        with self._or_broken():
            file.fdatasync()
            self._disk.rename(path + TEMPORARY, path)
        self._has_new_name = True
        return file

    def _sync_names(self) -> None:
        """Make renames durable, if there were any. `MetaStoreUnavailable`: try again later."""
        if not self._has_new_name:
            return
        with self._or_broken():
            try:
                self._disk.sync_dir(self.path)
            except OSError as fault:
                if fault.errno in NO_MORE_FILES:  # It was not even begun.
                    raise self._full(fault) from fault
                raise
        self._has_new_name = False

    def settle(self, entries: dict[str, Entry]) -> None:
        """Leave a journal without frames: damage to a snapshot is always noticed, and the next
        open believes it as it lies. What goes wrong leaves all that was durable durable."""
        self.entries = entries
        if self._drop_sessions() or self._end > JOURNAL_HEAD_BYTES:
            self.compact(entries.values())

    def close(self) -> None:
        """Give up the file and the lock."""
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            self._lock.release()
        self._file = self._lock = None

    # Errors

    @contextmanager
    def _or_broken(self) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            raise MetaStoreBroken(
                f"writing to {self.path} failed ({fault}): nothing is written or read again until "
                "a restart; check the disk first"
            ) from fault

    def _full(self, fault: OSError) -> MetaStoreUnavailable:
        if fault.errno in NO_SPACE:
            return MetaStoreFull(f"no space left for {self.path}: free some, then try again")
        return MetaStoreUnavailable(f"{self.path} cannot be written now: {fault}")

    def _damaged(self, name: str, what: str) -> MetaStoreDamaged:
        return MetaStoreDamaged(f"{self.path}/{name}", what)

    def _newer(self, name: str, newer: codec.UnknownMajor) -> MetaStoreNewer:
        return MetaStoreNewer(f"{self.path}/{name}", found=newer.found, known=codec.MAJOR)
