"""Where a soak keeps its objects, a folder or a MinIO of its own. Counts them, takes them away.

    with shelf_of("folder", path) as shelf:
        shelf.measure()           # segments, pages, files of tables, receipts, bytes
        with shelf.away(rng):     # the node's requests fail, or hang

Receipts stay for good, by design, one for every lot of garbage: they are counted apart.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from tests.compat.node import port_to_keep
from tests.stores.servers import BUCKET, Server, minio, paused

PREFIX = "soak"
OWN = "/.tierlog/"
"""What a folder needs beside its objects: locks, drafts, sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    objects: int
    """Without receipts, as the bytes are."""
    bytes: int
    segments: int
    pages: int
    tables: int
    """TABLEs: a partition has one from its first conversion on."""
    files: int
    """Of tables."""
    receipts: int


class Shelf(Protocol):
    name: str
    url: str
    sets: Sequence[str]
    environment: Mapping[str, str]

    def measure(self) -> Measure: ...

    def away(self, rng: Random) -> contextlib.AbstractContextManager[str]:
        """Out of reach for as long as the block; how, in a word."""
        ...


OFFSETS = "/cluster/OFFSETS"


def measured(objects: Iterable[tuple[str, int]]) -> Measure:
    """Of keys and sizes. The copy of groups' offsets comes and goes with readers; it is one small
    object, and not counted."""
    known = [(key, size) for key, size in objects if OWN not in key and not key.endswith(OFFSETS)]
    live = [(key, size) for key, size in known if "/receipt" not in key]
    return Measure(
        objects=len(live),
        bytes=sum(size for _, size in live),
        segments=sum("/seg/" in key for key, _ in live),
        pages=sum("/page/" in key for key, _ in live),
        tables=sum(key.endswith("/TABLE") for key, _ in live),
        files=sum("/pq/" in key for key, _ in live),
        receipts=len(known) - len(live),
    )


class FolderShelf:
    name = "folder"
    sets: Sequence[str] = ()
    environment: Mapping[str, str] = {}

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"file://{path}"

    def measure(self) -> Measure:
        """Raises `OSError` while it is away."""
        self._path.stat()
        return measured(files_in(self._path))

    @contextlib.contextmanager
    def away(self, rng: Random) -> Iterator[str]:
        """As a disk that is not mounted any more. Nobody may put anything into its place."""
        del rng
        aside = self._path.with_name(f"{self._path.name}-aside")
        self._path.rename(aside)
        try:
            yield "gone"
        finally:
            # Fails where somebody has put something there meanwhile.
            aside.rename(self._path)


class MinioShelf:
    name = "minio"

    def __init__(self, path: Path, stack: contextlib.ExitStack) -> None:
        """`stack` ends the server, at the latest."""
        self._path = path
        self._port = port_to_keep()
        self._running = stack.enter_context(contextlib.ExitStack())
        self._server: Server = self._start()
        self._client = self._server.client()
        self.url = f"s3://{BUCKET}/{PREFIX}"
        self.sets: Sequence[str] = [f"s3.endpoint={self._server.endpoint}"]
        self.environment: Mapping[str, str] = self._server.environment()

    def _start(self) -> Server:
        return self._running.enter_context(minio(self._path, self._port))

    def measure(self) -> Measure:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix=f"{PREFIX}/"
        )
        return measured(
            (f"/{one['Key']}", one["Size"]) for page in pages for one in page.get("Contents", ())
        )

    @contextlib.contextmanager
    def away(self, rng: Random) -> Iterator[str]:
        """It stands still, or is not there."""
        if rng.random() < 0.5:
            with paused(self._server):
                yield "stopped"
            return
        self._running.close()
        try:
            yield "ended"
        finally:
            self._server = self._start()


@contextlib.contextmanager
def shelf_of(name: str, folder: Path) -> Iterator[Shelf]:
    """Raises `Missing` where there is no such store."""
    path = folder / "store"
    path.mkdir()
    with contextlib.ExitStack() as stack:
        yield FolderShelf(path) if name == "folder" else MinioShelf(path, stack)


def files_in(folder: Path) -> Iterator[tuple[str, int]]:
    """With what they take on the disk; files that go meanwhile are not there."""
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if path.is_file():
                stat = path.stat()
                yield str(path), min(stat.st_blocks * 512, stat.st_size)
