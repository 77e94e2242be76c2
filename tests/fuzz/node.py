"""Fuzz of a node that runs, beside a client that minds its own business.

Requests are sound ones of every API and version that the node serves, with values drawn from the
schema or bytes changed, golden frames of real clients with bytes changed, produced batches with
bytes changed, crowds, and random bytes. One input follows from (seed, index). Several peers send
them, each over a connection that it opens again whenever the node hangs up. Topics that the noise
creates are deleted now and then.

Meanwhile a normal client produces and consumes, and checks what it reads. What must hold: the node
lives, its log holds no trace, no call of the normal client takes longer than a second, the loop's
lag stays below 50 ms at the 99th percentile, and memory returns. Times are judged only where the
node got a core when it wanted one: on a crowded machine they say nothing about it.

    python -m tests.fuzz.node --seed SEED --index INDEX        # prints one input
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import struct
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.broker.requests import create, fetch, produce
from tests.compat import golden
from tests.fuzz import wire
from tests.hot.support import batch, values_of
from tests.integration.running import Running, framed, running, within
from tests.wire.values import Values
from tierlog.client import BrokerError, Client, NewRecord
from tierlog.env import SystemClock, SystemRng
from tierlog.server import served_apis
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type
from tierlog.wire.messages.delete_topics import DeleteTopicsRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.wire.schema import Request

PEERS = 8
REPLY_S = 0.1
"""A peer does not wait for an answer longer: a fetch may have asked to wait for weeks."""
HANG_S_MAX = 1.0
LAG_P99_S_MAX = 0.050
RSS_GROWTH_MAX = 64 << 20
WAITED_SHARE_MAX = 0.25
"""Of the time of a run, for a core. Beyond this, times are not judged."""
CLEAN_EVERY_S = 3.0
WARM_UP = 2000
"""Inputs before the memory of the node is looked at for the first time."""
MINE = "mine"
"""The topic of the normal client. Names that the noise draws come from `Values`."""
NOISE = "topic"
SETTINGS = (
    *("--set", "tierlog.partitions.max=300"),
    *("--set", "log.segment.bytes=1048576"),
)


@dataclass(slots=True)
class Stats:
    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    """Of the normal client's calls."""
    lag_p99_s: float = 0.0
    rss_growth: int = 0
    waited_share: float = 0.0
    """Of the run's time, in which the node was ready to run and had no core."""
    checked: int = 0
    failures: list[str] = field(default_factory=list)


# Inputs


@lru_cache(maxsize=1)
def served() -> list[tuple[ApiKey, int]]:
    return [
        (ApiKey(row.api), version)
        for row in served_apis()
        for version in range(row.version_min, row.version_max + 1)
    ]


@lru_cache(maxsize=1)
def golden_requests() -> list[bytes]:
    known = {int(api) for api, _ in served()}
    return [one.request for path in golden.files() for one in golden.read(path) if one.api in known]


def make_input(seed: int, index: int) -> bytes:
    """Bytes as they go to the node, size prefix included."""
    rng = random.Random(f"{seed}:{index}")
    draw = rng.random()
    if draw < 0.02:
        return rng.randbytes(rng.choice((1, 4, 40, 400)))
    frame = _frame(rng, index, draw)
    size = len(frame)
    if rng.random() < 0.01:
        size = rng.choice((0, -1, size + 1, max(0, size - 1), 2**31 - 1, 9 << 20))
    return struct.pack(">i", size) + frame


def _frame(rng: random.Random, index: int, draw: float) -> bytes:
    api, version = served()[index % len(served())]
    if draw < 0.25:
        return wire.mutated(rng, rng.choice(golden_requests()))
    if draw < 0.40:
        return _produced(rng)
    if draw < 0.45:
        places = ((rng.choice((0, 1, -1, 2**31 - 1)), rng.choice((0, -1, 2**63 - 1))) for _ in "ab")
        topic = rng.choice((MINE, NOISE))
        return framed(fetch(topic, *places, wait_ms=rng.choice((0, 5))), rng.randint(4, 12))[4:]
    kind = request_type(api)
    if draw < 0.452:
        return wire.crowded(rng, kind, version, 2000)
    message = Values(rng.randrange(1 << 30)).message(kind, version)
    _tame(message)
    frame = framed(message, version)[4:]
    return frame if rng.random() < 0.5 else wire.mutated(rng, frame)


def _tame(message: Request) -> None:
    """Let no sound request wait for long or touch what the normal client owns by chance: the
    names that are drawn never are its topic's."""
    if hasattr(message, "max_wait_ms"):
        message.max_wait_ms = min(message.max_wait_ms, 5)


def _produced(rng: random.Random) -> bytes:
    """To a topic of the noise: a batch that is nearly right."""
    data = batch(rng.randbytes(rng.choice((0, 10, 1000))))
    if rng.random() < 0.7:
        wire.flip(rng, data)
    asked = produce(NOISE, (rng.choice((0, 0, 0, 5)), data), acks=rng.choice((0, *[1, -1] * 8, 7)))
    return framed(asked, rng.randint(3, 12))[4:]


# The noise


async def be_noisy(
    node: Running, stats: Stats, inputs: Callable[[], bytes | None], host: str
) -> None:
    """Send input after input over connections that the node ends when it likes."""
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    while (data := inputs()) is not None:
        if connection is None:
            connection = await asyncio.open_connection(*node.address, local_addr=(host, 0))
        outcome = await _exchange(*connection, data)
        stats.inputs += 1
        stats.outcomes[outcome] += 1
        if outcome != "answered":
            connection[1].close()
            connection = None
    if connection is not None:
        connection[1].close()


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> str:
    try:
        writer.write(data)
        async with asyncio.timeout(REPLY_S if _wants_answer(data) else 0.001):
            size = int.from_bytes(await reader.readexactly(4), "big")
            await reader.readexactly(size)
    except TimeoutError:
        return "no answer"  # Half a frame, acks=0, or a long wait.
    except (ConnectionError, asyncio.IncompleteReadError):
        return "hung up on"
    return "answered"


def _wants_answer(data: bytes) -> bool:
    return len(data) > 4 and int.from_bytes(data[:4], "big") == len(data) - 4


# The normal client


async def be_normal(node: Running, stats: Stats, is_over: Callable[[], bool]) -> None:
    async with Client([node.address], clock=SystemClock(), rng=SystemRng()) as client:
        offset = 0
        while not is_over() and not stats.failures:
            values = [b"%d-%d" % (offset, number) for number in range(5)]
            began = time.monotonic()
            placed = await client.produce(MINE, 0, [NewRecord(value) for value in values])
            produced_s = time.monotonic() - began
            fetched = await client.fetch(MINE, 0, offset, max_wait_ms=0)
            fetched_s = time.monotonic() - began - produced_s
            stats.slowest_s = max(stats.slowest_s, produced_s, fetched_s)
            read = list(values_of(fetched.batches))
            if placed.base_offset != offset or read != values:
                stats.failures.append(f"offset {offset}: {values} came back as {read}")
            offset += len(values)
            stats.checked += len(values)
            await asyncio.sleep(0.005)


async def clean_up(node: Running) -> None:
    """Delete what the noise has made."""
    async with Client([node.address], clock=SystemClock(), rng=SystemRng()) as client:
        for topic in (await client.metadata()).topics:
            if topic.name and topic.name not in (MINE, NOISE):
                with suppress(BrokerError):  # Noise may have deleted it.
                    await client.delete_topics(topic.name)


# Both


class Run:
    """One run: the noise here, the normal client in a thread with a loop of its own."""

    def __init__(self, node: Running, seed: int, first: int, count: int) -> None:
        self.node = node
        self.stats = Stats()
        self._seed = seed
        self._indexes = iter(range(first, first + count))
        self._is_over = False

    def go(self) -> None:
        normal = threading.Thread(target=self._normal)
        normal.start()
        try:
            asyncio.run(self._noise())
        finally:
            self._is_over = True
            normal.join()

    def _normal(self) -> None:
        try:
            asyncio.run(be_normal(self.node, self.stats, lambda: self._is_over))
        except Exception as error:  # noqa: BLE001  whatever it is, it is what we look for
            self.stats.failures.append(f"the normal client failed: {error!r}")

    async def _noise(self) -> None:
        async with asyncio.TaskGroup() as peers:
            for number in range(PEERS):
                host = f"127.9.9.{number + 1}"
                peers.create_task(be_noisy(self.node, self.stats, self._next, host))
            peers.create_task(self._clean_now_and_then())

    def _next(self) -> bytes | None:
        index = None if self.stats.failures else next(self._indexes, None)
        if index is None:
            self._is_over = True
            return None
        return make_input(self._seed, index)

    async def _clean_now_and_then(self) -> None:
        while not self._is_over:
            await asyncio.sleep(CLEAN_EVERY_S)
            await clean_up(self.node)


def run(seed: int, count: int, *, first: int = 0) -> Stats:
    """Send `count` inputs to a new node."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), *SETTINGS) as node:
        for name in (MINE, NOISE):
            assert node.ask(create(name), 5).topics[0].error_code == 0
        # What grows once and stays, such as compiled codecs, is there after a round.
        warm = Run(node, seed, first, min(count, WARM_UP))
        warm.go()
        node.ask(DeleteTopicsRequest(topic_names=[MINE], timeout_ms=10_000), 5)
        assert node.ask(create(MINE), 5).topics[0].error_code == 0
        rss, lag = node.rss_bytes(), lag_buckets(node)
        one = Run(node, seed, first, count)
        waited_s, began = node.waited_for_cpu_s(), time.monotonic()
        one.go()
        if node.process.poll() is None:
            waited_s = node.waited_for_cpu_s() - waited_s
            one.stats.waited_share = waited_s / (time.monotonic() - began)
        judge(node, one.stats, warm.stats, rss=rss, lag=lag)
        return one.stats


def judge(node: Running, stats: Stats, warm: Stats, *, rss: int, lag: dict[float, float]) -> None:
    stats.failures += warm.failures
    if node.process.poll() is not None:
        stats.failures.append(f"the node ended: {node.log()[-2000:]}")
        return
    if not within(10, lambda: "\ntierlog_connections 0" in node.metrics()):
        stats.failures.append("connections were left over")
    stats.rss_growth = node.rss_bytes() - rss
    stats.lag_p99_s = p99(lag, lag_buckets(node))
    for line in node.log().splitlines():
        if "Traceback" in line or " ERROR " in line or " CRITICAL " in line:
            stats.failures.append(f"in the log: {node.log()[-5000:]}")
            break
    if stats.rss_growth > RSS_GROWTH_MAX:
        stats.failures.append(f"memory grew by {stats.rss_growth >> 20} MiB")
    if stats.waited_share > WAITED_SHARE_MAX:
        stats.outcomes["(times not judged: a crowded machine)"] += 1
        return
    if stats.slowest_s > HANG_S_MAX:
        stats.failures.append(f"a call of the normal client took {stats.slowest_s:.2f} s")
    if stats.lag_p99_s > LAG_P99_S_MAX:
        stats.failures.append(f"p99 of the loop's lag is {stats.lag_p99_s} s")


def lag_buckets(node: Running) -> dict[float, float]:
    found = re.findall(r'tierlog_loop_lag_seconds_bucket{le="([^"]+)"} (\S+)', node.metrics())
    assert found
    return {float(limit): float(count) for limit, count in found}


def p99(before: dict[float, float], after: dict[float, float]) -> float:
    """The upper end of the bucket that holds it."""
    counts = {limit: count - before.get(limit, 0) for limit, count in after.items()}
    total = max(counts.values())
    return min(limit for limit, count in counts.items() if count >= 0.99 * total)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print one input of the fuzz of a node.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--index", type=int, required=True)
    chosen = parser.parse_args()
    print(make_input(chosen.seed, chosen.index).hex())
