"""A broker under test: a process on a folder of its own, spoken to over 127.0.0.1.

`Broker` is what every kind has in common: topics made and dropped through our own client, CPU and
memory read from /proc, an end that is drained (`stop`) or sudden (`kill`). `Tierlog` is a node of
this clone; `benchmarks.kafka` has the other kind. Leaving the block kills the process if it still
runs; the folder belongs to whoever gave it.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from benchmarks import tools
from tierlog.client import LATEST, Client
from tierlog.env import local_env

PATIENCE_S = 120.0
"""For a start, a drained stop or a deletion; a machine that needs longer measures nothing."""

PAGE_CACHE = {"flush.messages": str(2**63 - 1)}
"""Configs of a topic whose appends are acknowledged from the page cache."""

SEGMENT = {"segment.bytes": str(512 << 20), "retention.ms": "-1"}
"""What every topic gets: the segments of the C reference, and nothing is dropped meanwhile."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Resident memory of a process, in 10^6 bytes. Mapped page cache counts as `file_mb`."""

    anon_mb: float
    file_mb: float


class Broker:
    """See the module."""

    name: ClassVar[str] = "broker"
    topic_configs: ClassVar[Mapping[str, str]] = SEGMENT
    cuts_batches: ClassVar[bool] = False
    """Whether its fetch answers end in the middle of a batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    # The process

    def start(self) -> Self:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """End it as an operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
        process.wait(timeout=PATIENCE_S)
        if process.stdout:
            process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def cpu_s(self) -> float:
        return tools.cpu_seconds(self.pid)

    def memory(self) -> Memory:
        status = Path(f"/proc/{self.pid}/status").read_text()
        kib = {
            line.split(":")[0]: int(line.split()[1])
            for line in status.splitlines()
            if line.startswith("Rss")
        }
        file_kib = kib["RssFile"] + kib["RssShmem"]
        return Memory(anon_mb=kib["RssAnon"] * 1024 / 1e6, file_mb=file_kib * 1024 / 1e6)

    # Topics

    def create_topic(
        self, topic: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic; back when it can be written to."""
        wished = {**self.topic_configs, **(configs or {})}

        async def create(client: Client) -> None:
            await client.create_topics(topic, partitions=partitions, replicas=1, configs=wished)
            await client.list_offsets(topic, dict.fromkeys(range(partitions), LATEST))

        self.call(create)

    def delete_topic(self, topic: str, *, left_bytes: int) -> None:
        """Drop a topic; back when the folder holds no more log bytes than `left_bytes`."""

        async def delete(client: Client) -> None:
            await client.delete_topics(topic)

        self.call(delete)
        wait_until(lambda: self.log_bytes() <= left_bytes, f"{topic} still has bytes on the disk")

    def records_of(self, topic: str, partitions: int) -> int:
        """The sum of the partitions' high watermarks; a deleted and new topic begins at 0."""

        async def ends(client: Client) -> int:
            found = await client.list_offsets(topic, dict.fromkeys(range(partitions), LATEST))
            return sum(each.offset for each in found.values())

        return self.call(ends)

    def log_bytes(self) -> int:
        """What the log files take on the disk, those reserved ahead included."""
        return sum(_allocated(path) for path in self.log_paths())

    def log_paths(self) -> list[Path]:
        """The files of all topics, those about to be deleted included."""
        # Not rglob: folders vanish while we walk, which os.walk forgives.
        return [
            Path(folder, name)
            for folder, _, names in os.walk(self.folder)
            for name in names
            if ".log" in name
        ]

    def sync_files(self) -> None:
        """Write back what is dirty, so that no later measurement shares the disk with it."""
        for path in self.log_paths():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def call(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Do something with a client of its own."""

        async def run() -> T:
            env = local_env()
            async with Client([("127.0.0.1", self.port)], clock=env.clock, rng=env.rng) as client:
                return await work(client)

        return asyncio.run(run())


UNTIERED = ("remote.log.storage.system.enable=false",)
"""Of rows that compare with a server that keeps everything on its disk: uploads would share it."""


class Tierlog(Broker):
    """A node of this clone, at its default settings but for `sets`."""

    name: ClassVar[str] = "tierlog"

    def __init__(
        self,
        folder: Path,
        *,
        sets: Sequence[str] = (),
        profile: Path | None = None,
        store: str = "",
        get_delay_ms: float = 0.0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder)
        self._sets = sets
        self._profile = profile
        self._store = store
        self._get_delay_ms = get_delay_ms
        self._environ = environ or {}

    def start(self, *, wrapper: Sequence[str] = ()) -> Self:
        """Start it; back when it serves. `wrapper` is a command to run it under."""
        command = [*wrapper, sys.executable, "-m", "benchmarks.node", "--data", str(self.folder)]
        for each in self._sets:
            command += ["--set", each]
        if self._profile is not None:
            command += ["--profile", str(self._profile)]
        if self._store:
            command += ["--store", self._store, "--get-delay-ms", str(self._get_delay_ms)]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
            env={**os.environ, **self._environ},
        )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise tools.RunFailed(f"the node said {words} and ended")
        self.port = int(words[1])
        return self

    def store_requests(self) -> dict[str, int]:
        """What it asked of its store since the last call."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(signal.SIGUSR1)
        counts: dict[str, int] = json.loads(self._process.stdout.readline())
        return counts


def wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise tools.RunFailed(f"after {PATIENCE_S:g} s: {otherwise}")
        time.sleep(0.01)


def ask(port: int, frame: bytes, *, timeout_s: float = 10.0) -> bytes:
    """One request, one answer without its size prefix. OSError if there is none."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as peer:
        peer.sendall(frame)
        with peer.makefile("rb") as answers:
            prefix = answers.read(4)
            if len(prefix) < 4:
                raise ConnectionResetError("the broker hung up")
            return answers.read(int.from_bytes(prefix, "big"))


def _allocated(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:  # Deleted between the listing and now.
        return 0


def load_on(broker: Broker | tools.ReferenceServer, frames: Sequence[bytes], **how: Any) -> Any:
    """Run the load generator; every answer was looked at and right. Adds the server's CPU."""
    before = broker.cpu_s()
    result = tools.load(frames, ports=[broker.port], **how)
    result["server_cpu_s"] = broker.cpu_s() - before
    return result
