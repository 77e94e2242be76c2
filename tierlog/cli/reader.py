"""Lines of a file, a pipe or a terminal, as soon as they are there.

A thread reads, since a pipe may be silent for hours. It is a daemon that reads the bare descriptor:
nothing waits for it when the command ends, and it holds no lock that the end of Python needs.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator

READ_BYTES = 1 << 18
CHUNKS_MAX = 8
"""Chunks read ahead of the producer: 2 MiB, whatever the size of the input."""


class LineReader:
    def __init__(self, descriptor: int) -> None:
        self.taken_bytes = 0
        """What was handed on, newlines included."""
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_MAX)
        threading.Thread(target=self._read, name="tierlog-input", daemon=True).start()

    def stop(self) -> None:
        """End the iteration, although the input may not be at its end."""
        self._chunks.put_nowait(b"")

    async def lines(self) -> AsyncIterator[bytes]:
        """Without their newlines; the last line may lack it."""
        rest: list[bytes] = []  # Joined once: a line may be much longer than a chunk.
        while chunk := await self._next():
            first, *others = chunk.split(b"\n")
            rest.append(first)
            if not others:
                continue
            whole = [b"".join(rest), *others]
            rest = [whole.pop()]
            for line in whole:
                self.taken_bytes += len(line) + 1
                yield line
        if last := b"".join(rest):
            self.taken_bytes += len(last)
            yield last

    async def _next(self) -> bytes:
        chunk = await self._chunks.get()
        self._room.release()
        if isinstance(chunk, OSError):
            raise chunk
        return chunk

    def _read(self) -> None:
        while True:
            self._room.acquire()
            found: bytes | OSError
            try:
                found = os.read(self._descriptor, READ_BYTES)
            except OSError as error:
                found = error
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, found)
            except RuntimeError:  # The loop is closed: nobody reads any more.
                return
            if not found or isinstance(found, OSError):
                return
