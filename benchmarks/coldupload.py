"""Uploads of sealed segments: our uploader against boto3 that writes the same files.

Two partitions at once on both sides, as many as a node takes. boto3 is tuned as in `bench_s3` and
does nothing but write: no check of the batches, no hashes, no question afterwards, no manifest.
"""

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import requests
from benchmarks.coldstage import CPU_PER_GB, SPEED
from benchmarks.gauge import Gauge, Promise
from benchmarks.harness import Size
from tests.cold.tiering import CLUSTER, LIFE, no_probe
from tests.hot.support import append
from tests.stores.servers import BUCKET, Server
from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.tier import ColdTier
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.env import local_env
from tierlog.hot import LogDirectory, LogSettings
from tierlog.objectstore.s3.control import open_control
from tierlog.types import LeaderEpoch

PARTITIONS = 2
SEGMENTS = 3
BOTO3, OURS = "boto3 tuned", "tierlog"


def cpu_seconds() -> float:
    """Of this process and its workers: uploads have one. The store runs below as well, and does
    not count."""
    return _cpu_of(os.getpid()) + worker_cpu_seconds(os.getpid())


def worker_cpu_seconds(pid: int) -> float:
    """Of the workers of a process."""
    workers = [one for child in _children(pid) if _forks(child) for one in _children(child)]
    return sum(map(_cpu_of, workers))


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in tasks for child in one.read_text().split()]


def _forks(pid: int) -> bool:
    return b"multiprocessing.forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def gauges(server: Server, size: Size) -> Iterator[Gauge]:
    uploads = Uploads(server, size.scratch / "upload", segment_bytes=size.data_bytes // 2)
    try:
        yield Gauge(
            name="upload of sealed segments, 2 partitions at once",
            variants={BOTO3: uploads.by_boto3, OURS: uploads.by_us},
            promises={SPEED: Promise(hold=0.7, aim=0.9, is_speed=True), CPU_PER_GB: Promise()},
            baseline=BOTO3,
            rounds=11,
        )
    finally:
        uploads.close()


class Uploads:
    """Logs with sealed segments; every call uploads all of them, each time to new keys."""

    def __init__(self, server: Server, folder: Path, *, segment_bytes: int) -> None:
        self._server = server
        self._folder = folder
        self._runner = asyncio.Runner()
        self._client: Any = open_control(BUCKET, server.settings).client
        self._numbers = count(1)
        self._env = local_env()
        self._directory = LogDirectory(self._env, str(folder / "logs"), reserve_bytes=0)
        self._runner.run(self._fill(segment_bytes))

    async def _fill(self, segment_bytes: int) -> None:
        batch = requests.batch(value_bytes=1024, records=63)
        settings = LogSettings(segment_bytes=4 * segment_bytes)
        self._logs = [
            await self._directory.open_log(f"{index}", settings) for index in range(PARTITIONS)
        ]
        for log in self._logs:
            for _ in range(SEGMENTS):
                while log.segments.active.size < segment_bytes:
                    append(log, bytearray(batch))
                log.roll()
            await log.settle()
        self._files = [[one.path for one in log.sealed()] for log in self._logs]
        self._bytes = sum(one.size for log in self._logs for one in log.sealed())

    def by_boto3(self) -> Mapping[str, float]:
        number = next(self._numbers)

        def put(paths: list[str]) -> None:
            for path in paths:
                with Path(path).open("rb") as body:
                    self._client.put_object(Bucket=BUCKET, Key=f"boto3/{number}{path}", Body=body)

        began, cpu_s = time.perf_counter(), cpu_seconds()
        with ThreadPoolExecutor(PARTITIONS) as threads:
            list(threads.map(put, self._files))
        return self._figures(time.perf_counter() - began, cpu_seconds() - cpu_s)

    def by_us(self) -> Mapping[str, float]:
        return self._runner.run(self._upload(f"{next(self._numbers):032x}"))

    async def _upload(self, topic_id: str) -> Mapping[str, float]:
        store = self._server.open(self._env)
        tier = ColdTier(
            self._env,
            store,
            TierSettings(check_interval_ms=3_600_000),
            data=str(self._folder / topic_id),
            cluster_id=CLUSTER,
            node_id=1,
            process="p",
            incarnation=LIFE,
            probe=no_probe,
        )
        await tier.start()
        topic = TopicRecord(name=f"t{topic_id}", partitions=PARTITIONS)
        for index, log in enumerate(self._logs):
            await tier.attach(
                topic_id, topic, index, log, leader_epoch=LeaderEpoch(1), tiering=TopicTiering()
            )
        await tier.membership.save()
        uploaders = [one.uploader for one in tier.partitions.values()]
        began, cpu_s = time.perf_counter(), cpu_seconds()
        await asyncio.gather(*(one.upload() for one in uploaders))
        figures = self._figures(time.perf_counter() - began, cpu_seconds() - cpu_s)
        assert all(one.prefix.uploaded_end == one.log.log_end for one in uploaders)
        await tier.stop()
        await store.close()
        return figures

    def _figures(self, seconds: float, cpu_s: float) -> Mapping[str, float]:
        return {SPEED: self._bytes / seconds / 1e6, CPU_PER_GB: cpu_s / self._bytes * 1e9}

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()
        self._client.close()

    async def _close(self) -> None:
        for log in self._logs:
            await log.close()
        self._directory.close()
        self._env.tasks.close()  # type: ignore[attr-defined]  # local ones have it
