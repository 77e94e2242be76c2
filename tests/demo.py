"""The ground floor in ten seconds: `make demo`.

A child process appends to a real log on disk and reports every offset once it is durable. It is
killed with SIGKILL in the middle. The log is opened again, and every acknowledged record must be
there, byte for byte. Then the same promise under simulated power cuts.
"""

import asyncio
import logging
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.hot.support import batch, read_values
from tests.powerloss.search import search
from tierlog.env import local_env
from tierlog.hot import Log, LogDirectory, LogSettings
from tierlog.hot.sync import ManualSyncs
from tierlog.records.batch import validate_produced
from tierlog.types import LeaderEpoch

ACKED_BEFORE_KILL = 3000
WINDOW = 16
"""Appends in flight, as from that many producers."""


def value_of(offset: int) -> bytes:
    return b"record %08d " % offset * 8


async def produce(path: str) -> None:
    """Append for ever; print each offset when it is durable."""
    directory = LogDirectory(local_env(), path)
    log = Log(directory, "orders-0", LogSettings(segment_bytes=1 << 20))

    async def producer() -> None:
        while True:
            data = batch(value_of(log.log_end))
            header = validate_produced(memoryview(data), 1 << 20)
            placed = log.append(data, header, leader_epoch=LeaderEpoch(1), now_ms=int(time.time()))
            await log.wait_visible(log.log_end)
            sys.stdout.write(f"{placed.base_offset}\n")
            sys.stdout.flush()

    await asyncio.gather(*(producer() for _ in range(WINDOW)))


def kill_in_the_middle(path: str) -> int:
    """Run the producer as a process, kill it, and return the last offset that it acknowledged."""
    command = [sys.executable, "-m", "tests.demo", path]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(ACKED_BEFORE_KILL):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().splitlines(keepends=True)
    child.wait()
    return ACKED_BEFORE_KILL + sum(line.endswith("\n") for line in rest)


def real_kill() -> None:
    with tempfile.TemporaryDirectory() as path:
        print("1. a real process appends, fsyncs, acknowledges ... and is killed with SIGKILL")
        began = time.perf_counter()
        acked = kill_in_the_middle(path)
        print(f"   {acked:,} records acknowledged in {time.perf_counter() - began:.1f} s")
        began = time.perf_counter()
        directory = LogDirectory(local_env(), path, syncs=ManualSyncs())
        log = Log(directory, "orders-0", LogSettings(segment_bytes=1 << 20))
        took_ms = (time.perf_counter() - began) * 1000
        found = read_values(log)
        assert all(found[offset] == value_of(offset) for offset in range(acked)), "records are lost"
        size = sum(file.stat().st_size for file in Path(path).rglob("*.log"))
        print(
            f"   opened again in {took_ms:.0f} ms: scanned {log.scanned_bytes:,} of {size:,} bytes"
        )
        print(
            f"   all {acked:,} acknowledged records are there; the log goes on at {log.log_end:,}"
        )
        log.close_now()
        directory.close()


def simulated_power_cuts() -> None:
    print("2. the same code on a simulated disk that loses, tears and reorders unsynced writes")
    logging.disable(logging.WARNING)
    found = search(range(4))
    assert not found.failures, found.failures
    print(f"   {found.checked} power cuts, {len(found.hashes)} distinct disk states, nothing lost")
    print("   more of them: make powerloss; what the search would catch: make planted")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(produce(sys.argv[1]))
    else:
        real_kill()
        simulated_power_cuts()
