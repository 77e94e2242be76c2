"""A node, its store, its topics and those who write and read them: what faults happen to.

    with World(folder, shelf, tempo) as world:
        world.flow(100)        # until so many more are acked in every partition
        world.settle()         # until nothing is left: everything expired, collected and swept

Nobody sleeps to let something happen: every wait is for a condition, and raises if it does not come
true in minutes.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compat.drivers.base import Refused
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.soak.ledger import NO_LIMIT, Ledger
from tests.soak.load import Load
from tests.soak.serve import VARIABLE
from tests.soak.shelves import Measure, Shelf
from tests.soak.tempo import Tempo

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240.0
"""Only somebody who waits in vain finds out how long this is."""
STEADY, CHURN, SLOW = "steady", "churn", "slow"
PARTITIONS = {STEADY: 2, CHURN: 1, SLOW: 1}
AT_REST = sum(PARTITIONS.values()) + 2
"""Objects of a store without records: a HEAD for each partition, STATE, and format.json. A TABLE is
on top for each partition that something was ever converted of."""
SHARES = {STEADY: 1.0, CHURN: 0.25, SLOW: 0.05}
"""Of the rate. The slow topic's segments are sealed while they are small, and merged."""


class SoakNode(RunningNode):
    lives = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tables: Counter[str] = Counter()
        """What the keepers of the tables counted, of all lives that have ended."""

    def start(self) -> None:
        super().start()
        self.lives += 1

    def stop(self) -> None:
        self._remember()
        super().stop()

    def kill(self) -> None:
        if self.pid:
            self._remember()
        super().kill()

    def _remember(self) -> None:
        """Before it ends. One that does not answer any more tells nothing."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.tables.update(self.state()["tier"]["tables"])

    @property
    def pid(self) -> int:
        """0 while there is none."""
        process = self._process
        return 0 if process is None else process.pid

    def _words(self) -> list[str]:
        words = super()._words()
        return [words[0], "-m", "tests.soak.serve", *words[3:]]


class World:
    def __init__(self, folder: Path, shelf: Shelf, tempo: Tempo) -> None:
        self.shelf = shelf
        self.tempo = tempo
        self.loads: dict[str, Load] = {}
        self.problems: list[str] = []
        """Of those who have ended."""
        self.checked = 0
        """Records that were read and compared, by those who have ended."""
        self.acked = 0
        self._folder = folder
        self._numbers = dict.fromkeys(PARTITIONS, 0)
        paths = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        self._environment = {**shelf.environment, VARIABLE: tempo.to_json(), "PYTHONPATH": paths}
        self.node = SoakNode(
            folder,
            [*shelf.sets, *tempo.node_sets],
            store=shelf.url,
            environment=self._environment,
        )

    def __enter__(self) -> "World":
        try:
            self.node.start()
            for topic in PARTITIONS:
                self.make(topic)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for topic in list(self.loads):
            self.end_load(topic)
        self.node.kill()

    # Topics

    def make(self, topic: str) -> None:
        self._numbers[topic] += 1
        admin = Confluent().admin(self.node.address)
        wanted = PARTITIONS[topic]
        self.persist(
            lambda: admin.create(topic, wanted, **self.tempo.topic_configs),
            until_said="TOPIC_ALREADY_EXISTS",
        )
        ledgers = [
            Ledger(
                f"{topic}-{index} of life {self._numbers[topic]}",
                value_bytes=self.tempo.value_bytes,
                retention_ms=self.tempo.retention_ms,
            )
            for index in range(wanted)
        ]
        rate = max(int(self.tempo.records_per_second * SHARES[topic]), 1)
        self.loads[topic] = Load(self.node.address, topic, ledgers, rate=rate)

    def end_load(self, topic: str) -> None:
        load = self.loads.pop(topic)
        load.end()
        self.problems += load.problems
        self.checked += sum(one.checked for one in load.ledgers)
        self.acked += sum(one.acked_end for one in load.ledgers)

    def remake(self, topic: str) -> None:
        """Deleted with all it has, and made again."""
        self.end_load(topic)
        admin = Confluent().admin(self.node.address)
        self.persist(lambda: admin.delete(topic), until_said="UNKNOWN_TOPIC_OR_PART")
        self.make(topic)

    def alter(self, topic: str, *, retention_ms: int, retention_bytes: int = NO_LIMIT) -> None:
        ledgers = self.loads[topic].ledgers
        for one in ledgers:
            one.retention_begins(retention_ms, retention_bytes)
        admin = Confluent().admin(self.node.address)
        configs = {"retention_ms": str(retention_ms), "retention_bytes": str(retention_bytes)}
        self.persist(lambda: admin.alter(topic, **configs))
        for one in ledgers:
            one.retention_is(retention_ms, retention_bytes)

    def delete_records(self, topic: str, index: int, before: int) -> int:
        """The new beginning."""
        self.loads[topic].ledgers[index].deletes(before)
        admin = AdminClient({"bootstrap.servers": self.node.address, "log_level": 0})

        def ask() -> int:
            (future,) = admin.delete_records([TopicPartition(topic, index, before)]).values()
            return int(future.result(30).low_watermark)

        start = self.persist(ask)
        assert start is not None, "it always answers"
        return start

    def persist(self, ask: Callable[[], T], *, until_said: str = "") -> T | None:
        """Until the node does it: it may just have been started, or its store be away. A repetition
        may hear that its work is done: the first answer was lost."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return ask()
            except (KafkaException, Refused, TimeoutError) as fault:
                if until_said and until_said in str(fault):
                    return None
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    # Waiting

    def eventually(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not condition():
            self.raise_problems()
            if time.monotonic() > until:
                raise AssertionError(
                    f"{what} did not come true in {PATIENCE_S:.0f} s: {self.partitions()}, "
                    f"{self.shelf.measure()}\n{self.node.log()[-3000:]}"
                )
            time.sleep(0.05)

    def raise_problems(self) -> None:
        found = self.all_problems()
        if found:
            raise AssertionError("\n".join([*found, self.node.log()[-3000:]]))

    def all_problems(self) -> list[str]:
        return [*self.problems, *(text for one in self.loads.values() for text in one.problems)]

    def flow(self, count: int) -> None:
        """Until so many more records are acked in every partition of every topic."""
        for topic, load in list(self.loads.items()):
            ends = [one.acked_end for one in load.ledgers]
            few = max(int(count * SHARES[topic]), 1)

            def has_come(load: Load = load, ends: list[int] = ends, few: int = few) -> bool:
                return all(
                    one.acked_end >= end + few for one, end in zip(load.ledgers, ends, strict=True)
                )

            self.eventually(has_come, f"{few} more of {topic} are acked")

    def replayed(self) -> None:
        """Until every topic was read once more from its beginning to its end of now."""
        for load in list(self.loads.values()):
            # One may be under way that began before; then the partitions take turns.
            wanted = load.replays + 2 * len(load.ledgers)
            self.eventually(lambda load=load, n=wanted: load.replays >= n, "all is read again")  # type: ignore[misc]

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Nobody writes, and all that was sent is acked."""
        for load in self.loads.values():
            load.pause()
        for load in self.loads.values():
            self.eventually(lambda load=load: load.is_acked, f"all of {load.topic} is acked")  # type: ignore[misc]
        yield
        for load in self.loads.values():
            load.go_on()

    def uploaded(self) -> None:
        """Until all that is acked is in the store. Nobody writes meanwhile."""
        self.eventually(
            lambda: all(one["uploaded_end"] == one["log_end"] for one in self.partitions()),
            "everything is uploaded",
        )

    def converted(self) -> None:
        """Until tables have all that is in the store. Nobody writes meanwhile."""
        self.eventually(
            lambda: all(
                one.get("converted_end") == one["uploaded_end"] for one in self.partitions()
            ),
            "everything is in tables",
        )

    def settle(self) -> Measure:
        """Until every record has expired, and its objects are collected; nobody writes meanwhile.
        What stays is the same whatever happened before, but for receipts: a probe may be there for
        a moment, and is waited for."""
        self.eventually(
            lambda: all(one["log_start"] == one["log_end"] for one in self.partitions()),
            "everything expires",
        )
        self.eventually(self._is_swept, "deleted topics are swept")
        found = [self.shelf.measure()]

        def is_at_rest() -> bool:
            found[0] = self.shelf.measure()
            return found[0].objects - found[0].tables == AT_REST

        self.eventually(is_at_rest, f"{AT_REST} objects stay, and the TABLEs")
        return found[0]

    def _is_swept(self) -> bool:
        tier = self.node.state()["tier"]
        return not tier["deleted_topics"] and not tier["unknown_topics"]

    def partitions(self) -> list[dict[str, Any]]:
        topics = self.node.state()["topics"]
        return [
            {"topic": one["name"], **partition}
            for one in topics
            if one["name"] in PARTITIONS
            for partition in one["partitions"]
        ]

    # The command line

    def command(self, *words: str) -> tuple[int, Any]:
        """Its exit code, and the JSON that it printed."""
        sets = [word for one in self.shelf.sets for word in ("--set", one)]
        told = ["--store", self.shelf.url, "--json", *sets]
        done = subprocess.run(
            [sys.executable, "-m", "tierlog", *words, *told],
            env={**os.environ, **self._environment},
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode > 1 or not done.stdout:
            raise AssertionError(f"{words}: {done.returncode}, {done.stderr}")
        return done.returncode, json.loads(done.stdout)
