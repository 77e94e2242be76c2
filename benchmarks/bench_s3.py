"""Our S3 adapter against tuned boto3, both on one MinIO of this machine.

- GET of 8 MiB ranges, four at once: what a replay does. Hold 0.9 by time, at less CPU.
- GET of 64 KB ranges, one after the other: what a lookup does, and where boto3's fixed cost of a
  call shows. Hold 1.3.
- PUT of 64 MiB: what an upload does. Hold 0.7, the number of the design for a whole upload.

Tuned is what boto3 can do: no retries, no payload hash, no checksum of its own choice; on PUT it is
handed the same CRC-32C that we send. The store shares the cores; CPU is that of this process.
"""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

from crc32c import crc32c

from benchmarks.harness import Comparison, Size, Unavailable
from tests.stores.servers import BUCKET, Missing, Server, minio
from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Outcome, Span
from tierlog.objectstore.s3.checksums import to_header
from tierlog.objectstore.s3.control import open_control
from tierlog.types import Position

RANGE_BYTES = 8 << 20
SMALL_BYTES = 64 << 10
AT_ONCE = 4
SMALL_COUNT = 20
BOTO3, OURS = "boto3 tuned", "tierlog"


def comparisons(size: Size) -> Iterator[Comparison]:
    with ExitStack() as stack:
        folder = size.scratch / "minio"
        folder.mkdir()
        try:
            server = stack.enter_context(minio(folder))
        except Missing as missing:
            raise Unavailable(str(missing)) from missing
        both = stack.enter_context(Both(server, os.urandom(size.data_bytes)))
        yield both.ranges(min(RANGE_BYTES, size.data_bytes // AT_ONCE))
        yield both.small_ranges(min(SMALL_BYTES, size.data_bytes // SMALL_COUNT))
        yield both.puts()


class Both:
    """The two clients and the object that they read."""

    def __init__(self, server: Server, data: bytes) -> None:
        self._data = data
        self._loop = asyncio.Runner()
        self._threads = ThreadPoolExecutor(AT_ONCE)
        self._client: Any = open_control(BUCKET, server.settings).client
        self._store = server.open(local_env())

    def __enter__(self) -> "Both":
        self._put_ours("read")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._store.close())
        self._loop.close()
        self._threads.shutdown()
        self._client.close()

    def ranges(self, length: int) -> Comparison:
        spans = [Span(Position(n * length), Position((n + 1) * length)) for n in range(AT_ONCE)]
        return Comparison(
            name=f"GET of {AT_ONCE} x {length >> 10} KiB at once",
            variants={
                BOTO3: lambda: self._check(spans, self._threads.map(self._get_boto3, spans)),
                OURS: lambda: self._loop.run(self._get_ours(spans)),
            },
            baseline=BOTO3,
            hold=0.9,
            aim=1.1,
            units=AT_ONCE * length,
            unit="bytes",
        )

    def small_ranges(self, length: int) -> Comparison:
        spans = [Span(Position(n * length), Position((n + 1) * length)) for n in range(SMALL_COUNT)]

        async def one_by_one() -> None:
            self._check(spans, [(await self._store.get("read", span=each)).data for each in spans])

        return Comparison(
            name=f"GET of {length >> 10} KiB, one by one",
            variants={
                BOTO3: lambda: self._check(spans, map(self._get_boto3, spans)),
                OURS: lambda: self._loop.run(one_by_one()),
            },
            baseline=BOTO3,
            hold=1.3,
            aim=1.8,
            units=SMALL_COUNT,
            unit="requests",
        )

    def puts(self) -> Comparison:
        return Comparison(
            name=f"PUT of {len(self._data) >> 10} KiB",
            variants={
                BOTO3: partial(self._put_boto3, "boto3"),
                OURS: partial(self._put_ours, "ours"),
            },
            baseline=BOTO3,
            hold=0.7,
            aim=0.9,
            units=len(self._data),
            unit="bytes",
            note="the store hashes what it takes: it is most of the time",
        )

    def _get_boto3(self, span: Span) -> bytes:
        answer = self._client.get_object(
            Bucket=BUCKET, Key="read", Range=f"bytes={span.start}-{span.end - 1}"
        )
        data: bytes = answer["Body"].read()
        return data

    async def _get_ours(self, spans: list[Span]) -> None:
        gots = await asyncio.gather(*(self._store.get("read", span=span) for span in spans))
        self._check(spans, [got.data for got in gots])

    def _check(self, spans: list[Span], datas: Any) -> None:
        for span, data in zip(spans, datas, strict=True):
            assert len(data) == span.size

    def _put_boto3(self, key: str) -> None:
        crc = to_header(crc32c(self._data))
        self._client.put_object(Bucket=BUCKET, Key=key, Body=self._data, ChecksumCRC32C=crc)

    def _put_ours(self, key: str) -> None:
        written = self._loop.run(self._store.put(key, BytesBody(self._data)))
        assert written.outcome is Outcome.WON
