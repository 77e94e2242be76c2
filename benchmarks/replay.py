"""A raw consumer: whole partitions from the first offset to the end, as fast as they come.

One connection reads one or more partitions with the limits of Kafka's own consumer, one request at
a time, and follows the batches' offsets. It looks at headers alone: what arrives is what the server
can give, not what a client can decode. A gap, an error code or a batch cut short raises.
"""

import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from struct import Struct

from benchmarks import requests, tools
from tierlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_BYTES_MAX = 50 << 20
PARTITION_BYTES_MAX = 1 << 20
"""Kafka's defaults for `fetch.max.bytes` and `max.partition.fetch.bytes`."""
VERSION = 11
WAIT_MS = 500

_ANSWER = Struct(">iihi")
"""Correlation id, throttle time, error code, session id."""
_COUNT = Struct(">i")
_NAME = Struct(">h")
_PARTITION = Struct(">ihqqqiii")
"""Index, error code, high watermark, last stable offset, log start, aborted, replica, bytes."""
_BATCH = Struct(">qi11xi")
"""Base offset, length; the last offset's delta."""


class Reader:
    """One connection, and where it is in its partitions."""

    def __init__(self, port: int, topic: str, partitions: Sequence[int]) -> None:
        self.bytes = 0
        self._topic = topic
        self._offsets = dict.fromkeys(partitions, 0)
        self._buffer = memoryview(bytearray(1 << 20))
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Not by a timeout of Python's: then no call would wait in the kernel until all is there.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 60, 0))

    def seek(self, partition: int, offset: int) -> None:
        self._offsets[partition] = offset

    def read_to(self, end: int) -> None:
        """All partitions up to the offset `end`, which all of them have."""
        while not self.is_at(end):
            self.fetch()

    def is_at(self, end: int) -> bool:
        return min(self._offsets.values()) >= end

    def fetch(self) -> None:
        """One request and its answer."""
        self._socket.sendall(self._request())
        answer = self._answer()
        _, _, code, _ = _ANSWER.unpack_from(answer)
        check(code)
        position = _ANSWER.size + _COUNT.size
        (length,) = _NAME.unpack_from(answer, position)
        position += _NAME.size + length
        (count,) = _COUNT.unpack_from(answer, position)
        position += _COUNT.size
        for _ in range(count):
            index, code, _, _, _, _, _, size = _PARTITION.unpack_from(answer, position)
            check(code)
            position += _PARTITION.size
            if size > 0:
                self._take(index, answer[position : position + size])
                position += size

    def close(self) -> None:
        self._socket.close()

    def _request(self) -> bytes:
        asked = [
            FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES_MAX
            )
            for index, offset in self._offsets.items()
        ]
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            topics=[FetchTopic(topic=self._topic, partitions=asked)],
        )
        return requests.framed(request, VERSION)

    def _answer(self) -> memoryview:
        (size,) = _COUNT.unpack(self._received(_COUNT.size))
        return self._received(size)

    def _received(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(2 * size))
        view = self._buffer[:size]
        place = 0
        while place < size:
            got = self._socket.recv_into(view[place:], size - place, socket.MSG_WAITALL)
            if not got:
                raise tools.RunFailed("the node hung up")
            place += got
        return view

    def _take(self, index: int, records: memoryview) -> None:
        self.bytes += len(records)
        offset, position = self._offsets[index], 0
        while position < len(records):
            base, length, delta = _BATCH.unpack_from(records, position)
            if base > offset or base + delta < offset:
                raise tools.RunFailed(f"partition {index}: a batch at {base}, expected {offset}")
            offset = base + delta + 1
            position += length + 12
        if position != len(records):
            raise tools.RunFailed(f"partition {index}: a batch is cut short")
        # At the end all readers of one connection wait for the slowest: nothing more is asked.
        self._offsets[index] = offset


def check(code: int) -> None:
    if code:
        raise tools.RunFailed(f"error code {code}")


def replay(
    port: int, topic: str, groups: Sequence[Sequence[int]], *, end: int
) -> tuple[int, float]:
    """Read all partitions, a connection for each group of them; bytes and seconds."""
    readers = [Reader(port, topic, partitions) for partitions in groups]
    began = time.perf_counter()
    try:
        with ThreadPoolExecutor(len(readers)) as threads:
            list(threads.map(lambda reader: reader.read_to(end), readers))
        return sum(reader.bytes for reader in readers), time.perf_counter() - began
    finally:
        for reader in readers:
            reader.close()
