"""Multipart uploads in a folder: `.tierlog/uploads/<id>/about` and a file for each part.

Parts are not synced: completing reads them again, checks each against its ETag and drafts the
object from them, like any other.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress

from tierlog.env import Disk, Env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import NoSuchObject, StoreBadRequest
from tierlog.objectstore.folder.doors import preparing, reading
from tierlog.objectstore.folder.drafts import Drafts
from tierlog.objectstore.folder.sums import PIECE_BYTES, Summer
from tierlog.objectstore.port import Body, Part, Upload
from tierlog.objectstore.shelf import check_part_number, check_parts
from tierlog.types import Bytes

ABOUT = "about"
ABOUT_BYTES_MAX = 8192


class Uploads:
    def __init__(self, env: Env, path: str, drafts: Drafts) -> None:
        self._env = env
        self._disk: Disk = env.disk
        self._path = path
        self._drafts = drafts

    def begin(self, key: str) -> Upload:
        upload = Upload(key=key, id=self._env.rng.uuid().hex, begun_ms=self._env.clock.now_ms())
        about = json.dumps({"key": key, "begun_ms": upload.begun_ms}).encode()
        with preparing(key):
            draft = self._drafts.write(key, BytesBody(about), sync=False)
            self._disk.mkdir(f"{self._path}/{upload.id}")
            self._disk.rename(draft.path, f"{self._path}/{upload.id}/{ABOUT}")
        return upload

    def put_part(self, upload: Upload, number: int, body: Body) -> Part:
        check_part_number(number)
        self._check(upload)
        draft = self._drafts.write(upload.key, body, sync=False)
        try:
            with reading(f"{upload.key} as upload {upload.id}"):
                self._disk.rename(draft.path, self._part(upload, number))
        finally:
            self._drafts.drop(draft.path)
        return Part(number, draft.sum.etag, draft.sum.size, draft.sum.crc32c)

    def body(self, upload: Upload, parts: Sequence[Part], *, crc32c: int) -> Body:
        """The object that the parts make. Raises `NoSuchObject` without such an upload."""
        self._check(upload)
        # Whether the files hold what the parts say comes out when they are read.
        check_parts(parts, {part.number: part.etag for part in parts})
        return PartsBody(
            self._disk, [(self._part(upload, each.number), each) for each in parts], crc32c
        )

    def abort(self, upload: Upload) -> None:
        with suppress(NoSuchObject):
            self._check(upload)
            self.drop(upload)

    def drop(self, upload: Upload) -> None:
        path = f"{self._path}/{upload.id}"
        with suppress(FileNotFoundError), preparing(upload.key):
            names = self._disk.listdir(path)
            # What it was about goes last: until then, somebody may still abort it.
            for name in sorted(names, key=lambda name: (name == ABOUT, name)):
                self._drafts.drop(f"{path}/{name}")
            self._disk.rmdir(path)

    def list(self, prefix: str) -> Sequence[Upload]:
        if not self._disk.exists(self._path):
            return ()
        found = [self._about(name) for name in self._disk.listdir(self._path)]
        chosen = [each for each in found if each is not None and each.key.startswith(prefix)]
        return sorted(chosen, key=lambda each: (each.key.encode(), each.id))

    def _check(self, upload: Upload) -> None:
        found = self._about(upload.id) if upload.id.isalnum() else None
        if found is None or found.key != upload.key:
            raise NoSuchObject(f"{upload.key} as upload {upload.id}")

    def _about(self, upload_id: str) -> Upload | None:
        try:
            file = self._disk.open(f"{self._path}/{upload_id}/{ABOUT}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            about = json.loads(file.pread(ABOUT_BYTES_MAX, 0))
        except ValueError:  # Torn by a power cut: nobody can complete it.
            return None
        finally:
            file.close()
        return Upload(key=about["key"], id=upload_id, begun_ms=about["begun_ms"])

    def _part(self, upload: Upload, number: int) -> str:
        return f"{self._path}/{upload.id}/{number:05d}"


class PartsBody:
    """Implements `Body` over files that are an object together, each checked by its ETag."""

    def __init__(self, disk: Disk, parts: Sequence[tuple[str, Part]], crc32c: int) -> None:
        self._disk = disk
        self._parts = parts
        self._crc32c = crc32c

    @property
    def size(self) -> int:
        return sum(part.size for _, part in self._parts)

    @property
    def crc32c(self) -> int:
        return self._crc32c

    def pieces(self) -> Iterator[Bytes]:
        for path, part in self._parts:
            yield from self._pieces_of(path, part)

    def _pieces_of(self, path: str, part: Part) -> Iterator[Bytes]:
        try:
            file = self._disk.open(path)
        except FileNotFoundError as fault:
            raise StoreBadRequest(f"part {part.number} was never put") from fault
        summer = Summer()
        try:
            while piece := file.pread(PIECE_BYTES, summer.size):
                summer.add(piece)
                yield piece
        finally:
            file.close()
        if summer.etag() != part.etag:
            raise StoreBadRequest(f"part {part.number} is not the one that was put")
