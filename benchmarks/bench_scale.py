"""What many idle things cost a node: memory, and seconds at its start.

- 1,000 idle partitions, a batch in each: memory over that of an empty node, a start after a drained
  stop, and how often that start reads a `.log` file (counted by strace where there is one)
- 1,000 idle connections that have greeted: memory over that of a node without
- 10,000 partitions: the same as for 1,000, reported

Memory is anonymous memory plus mapped files, after the node has been left alone for a moment.
"""

import resource
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from benchmarks import requests, tools
from benchmarks.broker import Tierlog, ask
from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size

REPORT = Promise()
MEMORY = "MB over an empty node"
CREATE = "create, s"
START = "clean start, s"
EMPTY_START = "start of an empty node, s"
LOG_READS = ".log reads at the start"
TOPIC = "idle"
PARTITIONS_PER_TOPIC = 1000
SETTLE_S = 0.5
STRACE = ("strace", "-D", "-f", "-qq", "-y", "-e", "trace=read,pread64,preadv,mmap", "-o")


def comparisons(size: Size) -> Iterator[Gauge]:
    is_full = size.name != "smoke"
    rounds = 3 if is_full else 1
    count = 1000 if is_full else 20
    promises: dict[str, Promise] = {
        MEMORY: Promise(hold=100.0),
        CREATE: REPORT,
        EMPTY_START: REPORT,
        START: REPORT,
    }
    if shutil.which("strace"):
        promises[LOG_READS] = Promise(hold=0.0)
    yield Gauge(
        name=f"{count:,} idle partitions",
        variants={"tierlog": lambda: partitions(size.scratch, count, promises)},
        promises=promises,
        rounds=rounds,
        note="one batch in each",
    )
    yield Gauge(
        name=f"{count:,} idle connections",
        variants={"tierlog": lambda: connections(size.scratch, count)},
        promises={MEMORY: Promise(hold=100.0)},
        rounds=rounds,
        note="each has asked ApiVersions",
    )
    many = 10_000 if size.is_full else 40
    reported = dict.fromkeys((MEMORY, CREATE, START), REPORT)
    yield Gauge(
        name=f"{many:,} partitions",
        variants={"tierlog": lambda: partitions(size.scratch, many, reported)},
        promises=reported,
        rounds=1,
        note="one batch in each",
    )


def partitions(scratch: Path, count: int, wanted: Mapping[str, Promise]) -> Figures:
    folder = scratch / "partitions"
    with Tierlog(folder) as node:
        empty_s = seconds_of_start(node)
        empty_mb = settled_mb(node)
        create_s = fill(node, count)
        node.stop()
        start_s = seconds_of_start(node)
        figures = {
            MEMORY: settled_mb(node) - empty_mb,
            CREATE: create_s,
            EMPTY_START: empty_s,
            START: start_s,
        }
        node.stop()
        if LOG_READS in wanted:
            figures[LOG_READS] = log_reads_of_start(node, scratch / "calls")
    shutil.rmtree(folder)
    return figures


def seconds_of_start(node: Tierlog) -> float:
    began = time.monotonic()
    node.start()
    return time.monotonic() - began


def settled_mb(node: Tierlog) -> float:
    time.sleep(SETTLE_S)
    memory = node.memory()
    return memory.anon_mb + memory.file_mb


def fill(node: Tierlog, count: int) -> float:
    """Make the partitions and write a batch to each; returns the seconds that making took."""
    batch = requests.batch(value_bytes=100, records=1)
    took = 0.0
    for number in range(-(-count // PARTITIONS_PER_TOPIC)):
        topic = f"{TOPIC}-{number}"
        some = min(PARTITIONS_PER_TOPIC, count - number * PARTITIONS_PER_TOPIC)
        began = time.monotonic()
        node.create_topic(topic, partitions=some)
        took += time.monotonic() - began
        ask(node.port, requests.produce_to_all(batch, topic=topic, partitions=some), timeout_s=60)
        if node.records_of(topic, some) != some:
            raise tools.RunFailed(f"{topic} does not hold a record in each of its partitions")
    return took


def log_reads_of_start(node: Tierlog, calls: Path) -> float:
    """How many calls of one clean start read or map a `.log` file."""
    node.start(wrapper=(*STRACE, str(calls)))
    node.stop()
    return sum(".log>" in line for line in calls.read_text().splitlines())


def connections(scratch: Path, count: int) -> Figures:
    folder = scratch / "connections"
    allow_descriptors(count + 500)
    with Tierlog(folder) as node, ExitStack() as stack:
        node.start()
        before = settled_mb(node)
        peers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=10))
            for _ in range(count)
        ]
        for peer in peers:
            peer.sendall(requests.api_versions())
        for peer in peers:
            if not peer.recv(1 << 16):
                raise tools.RunFailed("the node hung up on an idle connection")
        figures = {MEMORY: settled_mb(node) - before}
    shutil.rmtree(folder)
    return figures


def allow_descriptors(count: int) -> None:
    """For this process and the nodes it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
