"""The tail in an outage: does a producer notice that the store is away?

A producer sends 10 MB/s by the clock to a tiered topic whose segments are a mebibyte, so that ten
of them a second want to be uploaded. The store answers, stands still (its process is stopped: it
takes connections and says nothing), or turns away every second request. All three stand behind the
same front, so machine and store have the same guests. What differs is what the node makes of it.
"""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial

from benchmarks import requests, tools
from benchmarks.broker import Tierlog
from benchmarks.coldbeside import P50, P99, PRODUCE_BYTES_PER_S, RECORDS, ROUNDS, SETTLE_S
from benchmarks.coldstage import WITHOUT_TABLE
from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size
from tests.stores.front import Front, throttling
from tests.stores.servers import BUCKET, Server, paused

TOPIC = "tail"
SMALL_SEGMENTS = {"segment.bytes": str(1 << 20), **WITHOUT_TABLE}
THERE, STILL, BUSY = "store answers", "store stands still", "store refuses every second request"


def gauges(server: Server, size: Size) -> Iterator[Gauge]:
    seconds = 4.0 if size.is_full else 0.3
    with ExitStack() as stack:
        front = stack.enter_context(throttling(server))
        node = stack.enter_context(node_behind(front, server, size).start())
        outage = Outage(node, front, server, seconds=seconds)
        yield Gauge(
            name="produce of 10 MB/s by the clock, acks=all, default, tiered",
            variants={
                THERE: partial(outage.produce, contextlib.nullcontext()),
                STILL: outage.still,
                BUSY: outage.busy,
            },
            promises={P99: Promise(hold=1.5, aim=1.1), P50: Promise()},
            baseline=THERE,
            rounds=ROUNDS,
            note="latency counts from when a request was due; segments of a mebibyte",
        )


def node_behind(front: Front, server: Server, size: Size) -> Tierlog:
    behind = replace(server, endpoint=front.endpoint)
    return Tierlog(
        size.scratch / "outage",
        sets=[f"s3.endpoint={behind.endpoint}"],
        store=f"s3://{BUCKET}/outage",
        environ=behind.environment(),
    )


class Outage:
    """One producer, and the ways in which its store is not there."""

    def __init__(self, node: Tierlog, front: Front, server: Server, *, seconds: float) -> None:
        self._node = node
        self._front = front
        self._server = server
        self._seconds = seconds
        batch = requests.batch(value_bytes=1000, records=RECORDS)
        self._frame = requests.produce(batch, topic=TOPIC, acks=-1)
        self._rate = PRODUCE_BYTES_PER_S / len(batch)

    def still(self) -> Figures:
        return self.produce(paused(self._server))

    def busy(self) -> Figures:
        return self.produce(self._refusing())

    def produce(self, trouble: AbstractContextManager[None]) -> Figures:
        """Leaves nothing behind: what was not uploaded goes with its topic."""
        before = self._node.log_bytes()
        self._node.create_topic(TOPIC, configs=SMALL_SEGMENTS)
        with trouble:
            self._load(SETTLE_S)  # The first segments are under way when it counts.
            made = self._load(self._seconds)
        self._node.delete_topic(TOPIC, left_bytes=before)
        return {P50: made["p50_ms"], P99: made["p99_ms"]}

    def _load(self, seconds: float) -> dict[str, float]:
        made = tools.load(
            [self._frame],
            ports=[self._node.port],
            seconds=seconds,
            options={"rate": str(self._rate)},
        )
        if made["checked"] != made["answers"] or not made["answers"]:
            raise tools.RunFailed(f"not every answer was checked: {made}")
        return made

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        self._front.is_throttling = True
        try:
            yield
        finally:
            self._front.is_throttling = False
