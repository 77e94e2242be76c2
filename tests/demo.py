"""tierlog in a minute: `make demo`.

Starts a node, produces and consumes with a real Kafka client in a subscribed group, looks at it
with the command line, kills it in the middle of a stream of writes, starts it again, and shows that
every acknowledged record is there. Then the history goes to the object store and leaves the disk; a
late group catches up through it while its lag is watched; records and group outlive the disk
itself; what the bucket costs is counted. Then simulated power cuts. Last, with every broker gone,
Spark reads the history from the store. Leaves nothing behind.
"""

import gzip
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.demo_cost import count_and_price
from tests.demo_spark import query
from tests.powerloss.search import search

TIERLOG = [sys.executable, "-m", "tierlog"]
TOPIC = "orders"
LATE = "late"
PARTITIONS = 4
RECORDS = 100_000
ACKED_BEFORE_KILL = 5_000
PATIENCE_S = 60.0


class Node:
    """`tierlog serve` as a process."""

    def __init__(self, data: Path, listen: str = "127.0.0.1:0") -> None:
        command = [*TIERLOG, "serve", "--data", str(data), "--listen", listen]
        # Python would tell of what a node leaves that is killed, which is what it is killed for.
        quiet = {"PYTHONWARNINGS": "ignore:resource_tracker:UserWarning"}
        self._process = subprocess.Popen(
            [*command, "--http", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **quiet},
        )
        assert self._process.stdout is not None
        self.ready = self._process.stdout.readline().strip()
        if not self.ready:
            raise SystemExit(f"the node did not start: exit code {self._process.wait()}")
        told = dict(word.split("=", 1) for word in self.ready.split() if "=" in word)
        self.kafka, self.http = told["kafka"], told["http"]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        code = self._process.wait(timeout=PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


def say(text: str) -> None:
    print(text, flush=True)


def command(node: Node, *words: str) -> None:
    """Run the command line and show what it says."""
    say(f"\n   $ tierlog {' '.join(words)}")
    made = subprocess.run(
        [*TIERLOG, *words, "--bootstrap", node.kafka], capture_output=True, text=True, check=True
    )
    for line in made.stdout.rstrip().splitlines():
        say(f"   {line}")


class Writer:
    """An idempotent producer that remembers what was acknowledged, and where."""

    def __init__(self, kafka: str) -> None:
        self.acked: dict[tuple[int, int], bytes] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": kafka,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 5,
                "log_level": 0,
            }
        )

    def write(self, number: int) -> None:
        key, value = b"customer-%d" % (number % 997), b'{"order": %d}' % number
        self._producer.produce(TOPIC, value, key, on_delivery=self._delivered)
        self._producer.poll(0)

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            place = message.partition(), message.offset()
            value = message.value()
            assert None not in place
            assert isinstance(value, bytes)
            self.acked[place] = value  # type: ignore[index]  # just checked

    def flush(self) -> None:
        self._producer.flush(PATIENCE_S)

    def give_up(self) -> None:
        self._producer.purge()
        self._producer.flush(5)


Reading = tuple[dict[tuple[int, int], bytes], float]


def read_all(
    kafka: str, ends: dict[int, int], *, group: str, at_once: int = 10_000, pause_s: float = 0.0
) -> Reading:
    """Every record below the ends, by partition and offset, read by a new group that subscribes;
    and the seconds since it was given its partitions."""
    given: list[float] = []
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
        }
    )
    consumer.subscribe([TOPIC], on_assign=lambda *_: given.append(time.perf_counter()))
    found: dict[tuple[int, int], bytes] = {}
    left = set(ends)
    deadline = time.monotonic() + PATIENCE_S
    while left and time.monotonic() < deadline:
        time.sleep(pause_s)
        for message in consumer.consume(at_once, timeout=1.0):
            assert message.error() is None, message.error()
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            found[partition, offset] = value
            if offset + 1 >= ends[partition]:
                left.discard(partition)
    took_s = time.perf_counter() - given[0] if given else 0.0
    consumer.close()  # It commits, and leaves.
    return found, took_s


def ends_of(kafka: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "demo"})
    found = {
        partition: consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=10)[1]
        for partition in range(PARTITIONS)
    }
    consumer.close()
    return {partition: end for partition, end in found.items() if end}


def compare(acked: dict[tuple[int, int], bytes], found: dict[tuple[int, int], bytes]) -> None:
    lost = [place for place, value in acked.items() if found.get(place) != value]
    if lost:
        raise SystemExit(
            f"{len(lost)} acknowledged records are not where they were, e.g. {lost[0]}"
        )


def produce_and_consume(node: Node) -> Writer:
    say(f"\n2. a real client (confluent-kafka) produces {RECORDS:,} records, idempotent, acks=all")
    writer = Writer(node.kafka)
    began = time.perf_counter()
    for number in range(RECORDS):
        writer.write(number)
    writer.flush()
    took_s = time.perf_counter() - began
    if len(writer.acked) != RECORDS:
        raise SystemExit(f"only {len(writer.acked):,} of them were acknowledged")
    say(f"   {len(writer.acked):,} acknowledged, fsynced, in {took_s:.1f} s")
    found, took_s = read_all(node.kafka, ends_of(node.kafka), group="first")
    compare(writer.acked, found)
    say(f"   a group subscribes and consumes {len(found):,} in {took_s:.1f} s, each at its offset")
    return writer


def look(node: Node) -> None:
    say("\n3. what the command line sees")
    command(node, "topic", "describe", TOPIC)
    command(node, "consume", TOPIC, "-n", "3", "--json")
    command(node, "group", "describe", "first")
    say(f"\n   $ curl http://{node.http}/metrics | grep {TOPIC}")
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    for line in lines:
        if f'topic="{TOPIC}"' in line:
            say(f"   {line}")


def kill_and_recover(node: Node, data: Path, writer: Writer) -> Node:
    say("\n4. kill -9 in the middle of a stream of writes")
    before = len(writer.acked)
    number = RECORDS
    while len(writer.acked) < before + ACKED_BEFORE_KILL:
        writer.write(number)
        number += 1
    node.kill()
    writer.give_up()
    say(f"   killed after {len(writer.acked) - before:,} more were acknowledged")
    began = time.perf_counter()
    node = Node(data, listen=node.kafka)
    say(f"   serving again after {time.perf_counter() - began:.1f} s, process start included")
    found, _ = read_all(node.kafka, ends_of(node.kafka), group="second")
    compare(writer.acked, found)
    say(f"   all {len(writer.acked):,} acknowledged records are there, at their offsets")
    return node


def go_cold(node: Node) -> None:
    say("\n5. sealed segments go to the object store, and leave the disk")
    settings = ["segment.ms=1000", "local.retention.ms=1000"]
    command(node, "topic", "alter", TOPIC, *(word for one in settings for word in ("--set", one)))
    began = time.perf_counter()
    while not all(map(is_cold, places := partitions_of(node))):
        if time.perf_counter() - began > PATIENCE_S:
            raise SystemExit(f"some partitions are not in the store yet: {places}")
        time.sleep(0.1)
    say(f"   everything is in the store and nothing on the disk, after {since(began)}")
    for one in places:
        say(
            f"   partition {one['index']}: [{one['log_start']}, {one['uploaded_end']}) is in the "
            f"store, {one['bytes']} bytes are local"
        )


def partitions_of(node: Node) -> list[dict[str, int]]:
    with urllib.request.urlopen(f"http://{node.http}/state", timeout=10) as answer:
        topics = json.load(answer)["topics"]
    found: list[dict[str, int]] = next(one["partitions"] for one in topics if one["name"] == TOPIC)
    return found


def uploaded(node: Node) -> int:
    """Records that the store has."""
    return sum(one["uploaded_end"] - one["log_start"] for one in partitions_of(node))


def is_cold(one: dict[str, int]) -> bool:
    return one["uploaded_end"] == one["local_start"] == one["high_watermark"]


def since(began: float) -> str:
    return f"{time.perf_counter() - began:.1f} s"


def consume_cold(node: Node, data: Path, writer: Writer) -> None:
    """A late group reads the whole history from the store, slowly enough to be watched."""
    words = ["--topic", TOPIC, "--to-earliest", "--execute"]
    command(node, "group", "reset", LATE, *words)
    say(f"\n   $ tierlog group lag {LATE} --watch")
    ends = ends_of(node.kafka)
    with ThreadPoolExecutor(1) as pool:
        reading: list[Future[Reading]] = []

        def begin() -> None:
            once = len(writer.acked) // 20
            work = partial(read_all, node.kafka, ends, group=LATE, at_once=once, pause_s=0.3)
            reading.append(pool.submit(work))

        watch_lag(node, begin)
        found, took_s = reading[0].result()
    compare(writer.acked, found)
    say(
        f"   {len(found):,} records consumed from the store by a subscribed group in {took_s:.1f} s"
    )
    wait_for_copy(data, ends)


def watch_lag(node: Node, begin: Callable[[], None]) -> None:
    """Its first line each time, until the group has caught up; somebody reads from then on."""
    words = [*TIERLOG, "group", "lag", LATE, "--http", node.http]
    while subprocess.run(words, capture_output=True, check=False).returncode:
        time.sleep(0.2)  # The numbers are some seconds old.
    watching = subprocess.Popen(
        [*words, "--watch", "--until-caught-up"], stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    seen = 0
    with watching:
        for line in watching.stdout:
            if line.startswith(f"{LATE} at "):
                say(f"   {line.rstrip()}")
                seen += 1
                if seen == 1:
                    begin()


def wait_for_copy(data: Path, ends: dict[int, int]) -> None:
    """What the group committed is in the store within half a minute."""
    began = time.perf_counter()
    while copied(data) != ends:
        if time.perf_counter() - began > PATIENCE_S:
            raise SystemExit("the offsets of the group are not in the store yet")
        time.sleep(0.2)
    say(f"   what it has committed is in the store as well, after {since(began)}")


def copied(data: Path) -> dict[int, int]:
    for path in Path(f"{data}-store").glob("*/cluster/OFFSETS"):
        for one in json.loads(gzip.decompress(path.read_bytes()))["groups"]:
            if one["group"] == LATE:
                return {row["partition"]: row["offset"] for row in one["offsets"]}
    return {}


def lose_the_disk(node: Node, data: Path, writer: Writer) -> Node:
    say("\n6. the node is killed and its disk is lost; a new one is restored from the store alone")
    node.kill()
    shutil.rmtree(data)
    store = f"file://{data}-store"
    say(f"\n   $ rm -rf {data.name}; tierlog restore --store file://.../data-store --data data")
    made = subprocess.run(
        [*TIERLOG, "restore", "--store", store, "--data", str(data)],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in (made.stdout + made.stderr).rstrip().splitlines():
        say(f"   {line}")
    if made.returncode != 0:
        raise SystemExit(f"restore failed: exit code {made.returncode}")
    node = Node(data)
    found, _ = read_all(node.kafka, ends_of(node.kafka), group="third")
    compare(writer.acked, found)
    say(f"   all {len(writer.acked):,} acknowledged records are there, at their offsets")
    command(node, "group", "describe", LATE)
    return node


def simulated_power_cuts() -> None:
    say("\n9. the same log on a simulated disk that loses, tears and reorders unsynced writes")
    logging.disable(logging.ERROR)  # That the simulated disk is full is part of the game.
    found = search(range(4))
    logging.disable(logging.NOTSET)
    assert not found.failures, found.failures
    say(f"   {found.checked} power cuts, {len(found.hashes)} distinct disk states, nothing lost")
    say("   more of it: make powerloss, make simulate; what they would catch: make planted")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tierlog-demo-") as folder:
        data = Path(folder) / "data"
        say("1. a node with everything at its default")
        node = Node(data)
        try:
            say(f"   {node.ready}")
            command(node, "topic", "create", TOPIC, "--partitions", str(PARTITIONS))
            writer = produce_and_consume(node)
            look(node)
            node = kill_and_recover(node, data, writer)
            go_cold(node)
            consume_cold(node, data, writer)
            node = lose_the_disk(node, data, writer)
            in_the_store = uploaded(node)
            code = node.stop()
        finally:
            if node.is_running:
                node.kill()
        say(f"\n7. SIGTERM: drained, synced, marked clean; exit code {code}")
        assert code == 0
        say("\n8. what the bucket costs")
        count_and_price(Path(f"{data}-store"))
        simulated_power_cuts()
        say("\n10. no broker runs: Spark reads the history from the store")
        query(f"file://{data}-store", TOPIC, in_the_store, say)


if __name__ == "__main__":
    main()
