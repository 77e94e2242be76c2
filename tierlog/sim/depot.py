"""A small durable server: the ground-floor resident of the simulated world.

Takes framed messages over TCP, appends them to one file, and acknowledges after fdatasync. It keeps
every rule that the log will have to keep, in a page of code: sync before ack, sync names, never
trust what a dead process left in the page cache, stop after a failed fsync. `Bug` takes one rule
away at a time, so that the world can show that it would notice.

On disk: `/depot/log`, records of length (u32), id (u64), CRC-32 of id and payload (u32), payload.
The first record that does not check ends the log. On the wire: length, id, payload; the ack is the
id. All big-endian.
"""

import asyncio
import struct
import zlib
from collections.abc import Callable
from enum import Enum, auto

from tierlog.env import Env, File

PORT = 7000
PATH = "/depot/log"
NEW_PATH = "/depot/log.new"
RECORD = struct.Struct(">IQI")
FRAME = struct.Struct(">IQ")
ACK = struct.Struct(">Q")
PAYLOAD_BYTES_MAX = 8192


class Bug(Enum):
    """A rule to break."""

    ACK_BEFORE_SYNC = auto()
    SKIP_DIRECTORY_SYNC = auto()
    TRUST_THE_PAGE_CACHE = auto()
    RETRY_A_FAILED_SYNC = auto()


def encode(number: int, payload: bytes) -> bytes:
    head = RECORD.pack(len(payload), number, zlib.crc32(payload, number & 0xFFFFFFFF))
    return head + payload


def decode(content: bytes) -> tuple[dict[int, bytes], int]:
    """The messages up to the first record that does not check, and where it starts."""
    found: dict[int, bytes] = {}
    position = 0
    while position + RECORD.size <= len(content):
        size, number, crc = RECORD.unpack_from(content, position)
        end = position + RECORD.size + size
        payload = content[position + RECORD.size : end]
        if end > len(content) or zlib.crc32(payload, number & 0xFFFFFFFF) != crc or not number:
            break  # Zeros would check: an empty payload has the CRC 0 for id 0. No id is 0.
        found[number] = payload
        position = end
    return found, position


class Depot:
    """The server of one process. `open`, then `serve`."""

    def __init__(self, env: Env, *, bug: Bug | None = None) -> None:
        self.messages: dict[int, bytes] = {}
        self._env = env
        self._bug = bug
        self._file: File
        self._end = 0
        self._waiting: list[Callable[[], None]] = []
        self._dirty = asyncio.Event()

    def open(self) -> None:
        """Read what is there and write it anew: bytes in the page cache may look durable and not
        be, after a failed fsync; bytes written and synced by this process are."""
        disk = self._env.disk
        disk.mkdir("/depot")
        disk.sync_dir("/")
        file = disk.open(PATH, create=True)
        content = file.pread(file.size(), 0)
        self.messages, self._end = decode(content)
        if self._bug is Bug.TRUST_THE_PAGE_CACHE:
            file.truncate(self._end)
        else:
            file.close()
            file = self._rewrite(content[: self._end])
        self._file = file
        if self._bug is not Bug.SKIP_DIRECTORY_SYNC:
            disk.sync_dir("/depot")

    def _rewrite(self, content: bytes) -> File:
        disk = self._env.disk
        if disk.exists(NEW_PATH):
            disk.unlink(NEW_PATH)
        file = disk.open(NEW_PATH, create=True)
        write_all(file, content, 0)
        file.fdatasync()
        disk.rename(NEW_PATH, PATH)
        return file

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        syncing = self._env.tasks.spawn(self._sync_forever(), name="sync")
        server = await loop.create_server(lambda: DepotProtocol(self), "0.0.0.0", PORT)
        try:
            await syncing
        finally:
            server.close()

    def take(self, number: int, payload: bytes, when_durable: Callable[[], None]) -> None:
        """Append, and call back once durable. A message seen before is not written again."""
        if number not in self.messages:
            record = encode(number, payload)
            write_all(self._file, record, self._end)
            self._end += len(record)
            self.messages[number] = payload
        if self._bug is Bug.ACK_BEFORE_SYNC:
            when_durable()
        else:
            self._waiting.append(when_durable)
        self._dirty.set()

    async def _sync_forever(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            waiting, self._waiting = self._waiting, []
            await self._sync()
            for call in waiting:
                call()

    async def _sync(self) -> None:
        try:
            await self._env.tasks.in_thread(self._file.fdatasync)
        except OSError:
            if self._bug is not Bug.RETRY_A_FAILED_SYNC:
                raise
            await self._env.tasks.in_thread(self._file.fdatasync)


def write_all(file: File, data: bytes, position: int) -> None:
    while data:
        count = file.pwrite(data, position)
        data = data[count:]
        position += count


class DepotProtocol(asyncio.BufferedProtocol):
    """Frames in, acks out."""

    def __init__(self, depot: Depot) -> None:
        self._depot = depot
        self._buffer = bytearray(FRAME.size + PAYLOAD_BYTES_MAX)
        self._filled = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        start = 0
        while (end := self._frame_end(start)) is not None:
            _, number = FRAME.unpack_from(self._buffer, start)
            payload = bytes(self._buffer[start + FRAME.size : end])
            self._take(number, payload)
            start = end
        self._buffer[: self._filled - start] = self._buffer[start : self._filled]
        self._filled -= start

    def _frame_end(self, start: int) -> int | None:
        if self._filled - start < FRAME.size:
            return None
        end = start + FRAME.size + int(FRAME.unpack_from(self._buffer, start)[0])
        return end if end <= self._filled else None

    def _take(self, number: int, payload: bytes) -> None:
        try:
            self._depot.take(number, payload, lambda: self._transport.write(ACK.pack(number)))
        except OSError:
            self._transport.abort()  # The disk is full or broken: the sender tries again later.
