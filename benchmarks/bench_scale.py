"""What many idle things cost a node: memory, and seconds at its start.

- 1,000 idle partitions, a batch in each: memory over that of an empty node, a start after a drained
  stop, and how often that start reads a `.log` file (counted by strace where there is one; after
  a kill as well, to see that the count counts)
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
STOP = "drained stop, s"
LOG_READS = ".log reads at the start"
KILLED_READS = ".log reads at a start after a kill"
TOPIC = "idle"
PARTITIONS_PER_TOPIC = 1000
SETTLE_S = 0.5
CALLS = "trace=read,readv,pread64,preadv,preadv2,mmap"
STRACE = ("strace", "-D", "-f", "--seccomp-bpf", "-qq", "-y", "-e", CALLS, "-o")


def comparisons(size: Size) -> Iterator[Gauge]:
    is_full = size.name != "smoke"
    rounds = 3
    count = 1000 if is_full else 20
    promises: dict[str, Promise] = {
        MEMORY: Promise(hold=100.0),
        CREATE: REPORT,
        EMPTY_START: REPORT,
        START: REPORT,
        STOP: REPORT,
    }
    if shutil.which("strace"):
        promises[LOG_READS] = Promise(hold=0.0)
        # The proof that reads are seen at all: after a kill there must be some.
        promises[KILLED_READS] = Promise(hold=1.0, is_speed=True)
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
    if not is_full:
        return  # The same again, only more.
    many = 10_000 if size.name == "full" else 2_000
    reported = dict.fromkeys((MEMORY, CREATE, START, STOP), REPORT)
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
        began = time.monotonic()
        node.stop()
        stop_s = time.monotonic() - began
        start_s = seconds_of_start(node)
        figures = {
            MEMORY: settled_mb(node) - empty_mb,
            CREATE: create_s,
            EMPTY_START: empty_s,
            START: start_s,
            STOP: stop_s,
        }
        if LOG_READS in wanted:
            node.stop()
            figures[LOG_READS] = log_reads_of_start(node, scratch / "calls")
            node.start()
            write_to_all(node, 0, min(count, PARTITIONS_PER_TOPIC))
            node.kill()
            figures[KILLED_READS] = log_reads_of_start(node, scratch / "calls")
    remove(folder)
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
    took = 0.0
    for number in range(-(-count // PARTITIONS_PER_TOPIC)):
        topic = f"{TOPIC}-{number}"
        some = min(PARTITIONS_PER_TOPIC, count - number * PARTITIONS_PER_TOPIC)
        began = time.monotonic()
        node.create_topic(topic, partitions=some)
        took += time.monotonic() - began
        write_to_all(node, number, some)
        if node.records_of(topic, some) != some:
            raise tools.RunFailed(f"{topic} does not hold a record in each of its partitions")
    return took


def write_to_all(node: Tierlog, number: int, partitions: int) -> None:
    batch = requests.batch(value_bytes=100, records=1)
    topic = f"{TOPIC}-{number}"
    request = requests.produce_to_all(batch, topic=topic, partitions=partitions)
    ask(node.port, request, timeout_s=60)


def log_reads_of_start(node: Tierlog, calls: Path) -> float:
    """How many calls of one start read or map a `.log` file. The node has stopped again."""
    node.start(wrapper=(*STRACE, str(calls)))
    node.stop()
    return sum(".log>" in line for line in calls.read_text(errors="replace").splitlines())


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
    remove(folder)
    return figures


def remove(folder: Path) -> None:
    """The node's data and the store beside it: the next round founds a cluster of its own."""
    shutil.rmtree(folder)
    shutil.rmtree(folder.with_name(f"{folder.name}-store"), ignore_errors=True)


def allow_descriptors(count: int) -> None:
    """For this process and the nodes it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
