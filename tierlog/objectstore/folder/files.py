"""Objects as files: what may block, and runs in threads.

A write drafts the whole object elsewhere, syncs it, and then gives it its name, under the lock of
its key: by a link that fails if the name is taken, or by a rename over the file whose ETag was
compared. The lock is the kernel's and holds between processes.

What was read is durable: the first time that this process sees a file it syncs the names that lead
to it, for whoever wrote it may have been killed before that.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os.path import dirname

from crc32c import crc32c

from tierlog.env import DiskLock, Env, File
from tierlog.objectstore.errors import (
    NoSuchObject,
    ObjectChanged,
    StoreBadRequest,
    StoreUnavailable,
)
from tierlog.objectstore.folder.doors import NOT_THERE, preparing, reading, uncertain
from tierlog.objectstore.folder.drafts import Draft, Drafts
from tierlog.objectstore.folder.room import FloorOf, no_floor
from tierlog.objectstore.folder.sums import Sum, Sums, sum_file
from tierlog.objectstore.folder.walk import OWN
from tierlog.objectstore.keys import check_key
from tierlog.objectstore.port import Body, DeleteFailed, Got, Outcome, Span, Stat, Written
from tierlog.objectstore.shelf import check_span, lost

LOCK_COUNT = 64
"""Keys share locks; a lock is held for a rename and a sync."""

NAME_BYTES_MAX = 255
SEEN_COUNT_MAX = 100_000


class Busy(Exception):
    """The lock of the key is held: try again."""


class Files:
    def __init__(self, env: Env, root: str, *, floor_of: FloorOf = no_floor) -> None:
        self._env = env
        self._disk = env.disk
        self._root = root
        self._own = f"{root}/{OWN}"
        self._sums = Sums(env.disk, f"{self._own}/sums")
        self.drafts = Drafts(env, f"{self._own}/tmp", floor_of=floor_of)
        self._has_begun = False
        self._durable_directories: set[str] = set()
        self._seen: dict[str, str] = {}
        """Files by key whose names are known to be durable."""

    def path(self, key: str) -> str:
        if check_key(key).partition("/")[0] == OWN:
            raise StoreBadRequest(f"keys below {OWN}/ are the folder's own")
        if any(len(part.encode()) > NAME_BYTES_MAX for part in key.split("/")):
            raise StoreBadRequest(f"a part of {key} is longer than a file name can be")
        return f"{self._root}/{key}"

    # Reading

    def get(self, key: str, *, span: Span | None, etag: str | None, tail: int | None = None) -> Got:
        with self._open(key) as (file, found):
            if etag is not None and etag != found.etag:
                raise ObjectChanged(key, wanted=etag, found=found.etag)
            if span is not None:
                check_span(span, size=found.size, key=key)
            start = span.start if span else max(0, found.size - tail) if tail else 0
            end = span.end if span else found.size
            data = file.pread(end - start, start)
            if len(data) != end - start:
                raise StoreUnavailable(f"{key} was cut while it was read")
            return Got(data=data, stat=_stat(key, found))

    def stat(self, key: str, *, settle: bool = True) -> Stat:
        with self._open(key, settle=settle) as (_, found):
            return _stat(key, found)

    @contextmanager
    def _open(self, key: str, *, settle: bool = True) -> Iterator[tuple[File, Sum]]:
        path = self.path(key)
        self._check_root()
        with reading(key):
            file = self._disk.open(path)
            try:
                if settle:
                    self._settle(key, file)
                yield file, self._sum(key, file)
            finally:
                file.close()

    def _check_root(self) -> None:
        """A folder that was there and is not is a disk that went away, not an empty store."""
        if self._disk.exists(self._root):
            self._has_begun = True
        elif self._has_begun:
            raise StoreUnavailable(f"the folder {self._root} has gone")

    def _settle(self, key: str, file: File) -> None:
        identity = file.identity()
        if self._seen.get(key) == identity:
            return
        directory = dirname(self.path(key))
        self._settle_directory(directory)
        self._disk.sync_dir(directory)
        self._remember(key, identity)

    def _remember(self, key: str, identity: str) -> None:
        if len(self._seen) >= SEEN_COUNT_MAX:
            self._seen.clear()
        self._seen[key] = identity

    def _settle_directory(self, path: str) -> None:
        """Make the names of this directory and of those above durable, up to the folder's own."""
        if path in self._durable_directories:
            return
        if path == self._root:
            self._settle_root()
        else:
            self._settle_directory(dirname(path))
            self._disk.sync_dir(dirname(path))
        self._durable_directories.add(path)

    def _settle_root(self) -> None:
        path = self._root
        while path != dirname(path):
            path = dirname(path)
            with suppress(PermissionError):  # A directory that we may not read we did not make.
                self._disk.sync_dir(path)

    def _sum(self, key: str, file: File) -> Sum:
        return self._sums.find(key, file) or self._sum_anew(key, file)

    def _sum_anew(self, key: str, file: File) -> Sum:
        found = sum_file(file, modified_ms=self._env.clock.now_ms())
        if self.drafts.has_begun:
            # Without the lock: a note that a writer makes meanwhile is at worst made again.
            self._note(key, [found])
        return found

    def _note(self, key: str, sums: Sequence[Sum]) -> None:
        try:
            self._sums.write(key, sums, draft=self.drafts.new_path())
        except OSError:
            self._sums.forget(key)

    # Writing

    def begin(self) -> None:
        """Once, before the first write: make the folder, and room for drafts in it."""
        self._check_root()
        with preparing(OWN):
            self.drafts.begin()
            self._disk.mkdir(f"{self._own}/locks")
        self._has_begun = True

    def draft(self, key: str, body: Body) -> Draft:
        """Write the object where nobody looks, and make the directory where it will lie."""
        directory = dirname(self.path(key))
        self._check_root()
        if directory not in self._durable_directories:
            with preparing(key):
                self._disk.mkdir(directory)
                self._settle_directory(directory)
        return self.drafts.write(key, body)

    def publish(self, key: str, draft: Draft, *, absent: bool = False, etag: str = "") -> Written:
        """Give the draft its name: to a free one, to one whose file has this ETag, or to any. The
        draft is gone afterwards. Raises `Busy` at once if somebody holds the key."""
        lock = self._lock(key)
        try:
            return self._publish(key, draft, absent=absent, etag=etag)
        except IsADirectoryError as fault:
            raise StoreBadRequest(f"{key} is a folder of other objects here") from fault
        except OSError as fault:
            # Somebody may have removed directories by hand: look again next time.
            self._durable_directories.clear()
            return uncertain(fault)
        finally:
            self.drafts.drop(draft.path)
            lock.release()

    def _publish(self, key: str, draft: Draft, *, absent: bool, etag: str) -> Written:
        standing = self._standing(key)
        if absent and standing is not None:
            return lost("the object exists")
        if etag and (standing is None or standing.etag != etag):
            found = "there is no object" if standing is None else f"the ETag is {standing.etag}"
            return lost(found)
        sums = [draft.sum] if standing is None else [draft.sum, standing]
        self._note(key, sums)
        if not self._take_name(key, draft, absent=absent):
            return lost("the object exists")
        self._disk.sync_dir(dirname(self.path(key)))
        self._remember(key, draft.sum.identity)
        return Written(outcome=Outcome.WON, etag=draft.sum.etag)

    def _take_name(self, key: str, draft: Draft, *, absent: bool) -> bool:
        if not absent:
            self._disk.rename(draft.path, self.path(key))
            return True
        try:
            self._disk.rename_new(draft.path, self.path(key))
        except FileExistsError:  # Somebody who keeps no locks made it meanwhile.
            return False
        return True

    def _standing(self, key: str) -> Sum | None:
        try:
            file = self._disk.open(self.path(key))
        except FileNotFoundError:
            return None
        try:
            return self._sum(key, file)
        finally:
            file.close()

    def delete(self, key: str) -> DeleteFailed | None:
        lock = self._lock(key)
        try:
            path = self.path(key)
            self._disk.unlink(path)
            self._seen.pop(key, None)
            self._disk.sync_dir(dirname(path))
            self._sums.forget(key)
        except OSError as fault:
            if fault.errno not in NOT_THERE:
                return DeleteFailed(key, str(fault))
        finally:
            lock.release()
        return None

    def _lock(self, key: str) -> DiskLock:
        number = crc32c(key.encode()) % LOCK_COUNT
        with preparing(key):
            try:
                return self._disk.lock(f"{self._own}/locks/{number:02x}")
            except BlockingIOError as held:
                raise Busy(key) from held

    def page(self, keys: Iterator[str], count: int) -> list[Stat]:
        """The next so many. Listing settles nothing: who acts on an object reads it first."""
        found: list[Stat] = []
        for key in keys:
            try:
                found.append(self.stat(key, settle=False))
            except (NoSuchObject, StoreBadRequest):
                continue  # Deleted since, or a stranger's file.
            if len(found) == count:
                break
        return found


def _stat(key: str, found: Sum) -> Stat:
    return Stat(
        key=key,
        size=found.size,
        etag=found.etag,
        crc32c=found.crc32c,
        modified_ms=found.modified_ms,
    )
