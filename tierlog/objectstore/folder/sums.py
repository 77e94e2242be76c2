"""What the folder store remembers of an object: ETag, CRC-32C, when it was written.

A note for each object, `.tierlog/sums/<key>`: eight hex digits, the CRC-32C of the rest; then JSON,
a list of [identity of the file, size, ETag, CRC-32C, modified_ms]. It is written before the object
takes its name, and tells of what stood there as well, so a reader finds the file that it opened,
whichever of the two it was. Notes are not synced: one that is torn, missing or about other files is
made again from the object's bytes, and then dates the object to now (for a collector of garbage,
too young is safe).

Invariant: a line is used only for a file of its identity and size, so a stale note misleads nobody.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from os.path import dirname
from typing import NamedTuple

from crc32c import crc32c

from tierlog.env import Disk, File
from tierlog.types import Bytes

PIECE_BYTES = 1 << 20
NOTE_BYTES_MAX = 4096


class Sum(NamedTuple):
    identity: str
    size: int
    etag: str
    crc32c: int
    modified_ms: int


class Summer:
    """Sums up bytes as they pass.

    The ETag is a hash of the first MiB, the size and the CRC of the whole. What is ever swapped, a
    manifest, is smaller than that, and so is hashed wholly; the rest is written once.
    """

    def __init__(self) -> None:
        self.size = 0
        self.crc32c = 0
        self._hash = hashlib.sha256()

    def add(self, piece: Bytes) -> None:
        view = memoryview(piece).cast("B")
        if self.size < PIECE_BYTES:
            self._hash.update(view[: PIECE_BYTES - self.size])
        self.crc32c = crc32c(view, self.crc32c)
        self.size += len(view)

    def total(self, file: File, *, modified_ms: int) -> "Sum":
        """Of the file that these bytes went to, or came from."""
        return Sum(file.identity(), self.size, self.etag(), self.crc32c, modified_ms)

    def etag(self) -> str:
        whole = self._hash.copy()
        whole.update(b"%d %d" % (self.size, self.crc32c))
        return f'"{whole.hexdigest()[:32]}"'


def sum_file(file: File, *, modified_ms: int) -> Sum:
    """From the bytes themselves."""
    summer = Summer()
    while piece := file.pread(PIECE_BYTES, summer.size):
        summer.add(piece)
    return summer.total(file, modified_ms=modified_ms)


class Sums:
    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def find(self, key: str, file: File) -> Sum | None:
        """What is noted of this very file."""
        this = file.identity(), file.size()
        lines = self._read(key)
        return next((each for each in lines if (each.identity, each.size) == this), None)

    def write(self, key: str, sums: Iterable[Sum], *, draft: str) -> None:
        """Replace the note; `draft` is a path to write it first."""
        text = json.dumps([list(each) for each in sums]).encode()
        note = self._note(key)
        self._disk.mkdir(dirname(note))
        file = self._disk.open(draft, create=True)
        try:
            file.pwrite(b"%08x" % crc32c(text) + text, 0)
        finally:
            file.close()
        self._disk.rename(draft, note)

    def forget(self, key: str) -> None:
        try:
            self._disk.unlink(self._note(key))
        except FileNotFoundError:
            return

    def _read(self, key: str) -> Sequence[Sum]:
        try:
            file = self._disk.open(self._note(key))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return ()
        try:
            data = file.pread(NOTE_BYTES_MAX, 0)
        finally:
            file.close()
        return _parse(data)

    def _note(self, key: str) -> str:
        return f"{self._path}/{key}"


def _parse(data: bytes) -> Sequence[Sum]:
    text = data[8:]
    if data[:8] != b"%08x" % crc32c(text):
        return ()
    return [Sum(*line) for line in json.loads(text)]
