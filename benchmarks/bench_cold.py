"""The cold tier on a MinIO of this machine: replay, first record, upload, publish.

- Replay of a topic that only the bucket has, by a raw client with the limits of Kafka's consumer:
  uncached against raw GETs of the same objects, as many at once as the node makes; cached against
  a hot fetch of the same bytes; and with 50 ms added to every GET on both sides.
- The first record of a random cold offset, by a reader that nobody knows: time, and round trips.
- Upload of sealed segments against boto3 writing the same files.
- What a publish costs, and how an offset is found, at a hundred and at a million segments.

The store shares the cores. CPU is that of node and client, without the store.
`--option part=N` runs one part alone: 1 replay, 2 first record, 3 upload, 4 manifest, 5 the tail
beside a replay, 6 the tail in an outage; `--option rounds=N` has fewer rounds than usual, for a
first look.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from benchmarks import coldbeside, coldmanifest, coldoutage, coldupload, tools
from benchmarks.coldstage import (
    CPU_PER_GB,
    GET_BYTES,
    GETS_PER_GB,
    GETS_RECKONED,
    MEMORY,
    PARTITIONS,
    SPEED,
    Stage,
)
from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size, Unavailable
from cost_model.flow import upload_requests
from cost_model.scenario import Tiering
from tests.stores.servers import Missing, Server, minio

RAW, HOT, OURS = "raw GETs", "hot fetch", "tierlog"
ROUNDS = 7
DELAY_MS = 50.0
FIRST_RECORDS = 20
SEGMENTS_FEW, SEGMENTS_MANY = 100, 1_000_000
EACH = [[index] for index in range(PARTITIONS)]
"""A connection for each partition."""
TOGETHER = [list(range(PARTITIONS))]
"""All partitions over one connection, as one consumer reads them."""
ONE = [[0]]
KAFKA_MB_PER_S = 148.0
"""A replay of one partition by Kafka 4.3 with the S3 plugin, as it was measured on the reference
machine: the same MinIO, everything at its defaults."""
PUTS_RECKONED = "PUTs/GB as the cost model reckons"
"""An object a segment; claims and publishes of HEAD are on top, two for each partition here."""
TIMES_KAFKA = "MB/s / the 148 of Kafka with its S3 plugin"


def comparisons(size: Size) -> Iterator[Gauge]:
    wished = int(size.options.get("rounds", size.rounds))
    for each in gauges(size):
        yield replace(each, rounds=min(each.rounds or wished, wished))


def gauges(size: Size) -> Iterator[Gauge]:
    tools.build()
    with ExitStack() as stack:
        folder = size.scratch / "minio"
        folder.mkdir()
        try:
            server = stack.enter_context(minio(folder))
        except Missing as missing:
            raise Unavailable(str(missing)) from missing
        part = int(size.options.get("part", 0))
        if part in (0, 1, 2, 5):
            # A segment of the default size in each: a gigabyte, of which the beginning is not most.
            staged = Stage(server, size.scratch, partition_bytes=2 * size.data_bytes)
            with staged as stage:
                yield from of_stage(stage, size, part)
        if part in (0, 3):
            yield from coldupload.gauges(server, size)
        if part in (0, 4):
            yield from manifest(server, size)
        if part in (0, 6):
            yield from coldoutage.gauges(server, size)


def of_stage(stage: Stage, size: Size, part: int) -> Iterator[Gauge]:
    if part in (0, 1):
        yield went_cold(stage)
        held = Promise(hold=0.5, aim=0.8, is_speed=True)
        yield from uncached("cold replay, 8 partitions", stage, EACH, held)
        report = Promise(is_speed=True)
        name = "cold replay, 8 partitions, by a node that was just started"
        yield from uncached(name, stage, EACH, report, is_warm=False)
        yield from uncached("cold replay, 8 partitions, 1 connection", stage, TOGETHER, report)
        kafka = {TIMES_KAFKA: Promise(hold=2, aim=4, is_speed=True)}
        yield from uncached("cold replay, 1 partition", stage, ONE, report, more=kafka)
        far = Promise(hold=0.8, aim=0.95, is_speed=True)
        name = "cold replay, 8 partitions, 50 ms a GET"
        yield from uncached(name, stage, EACH, far, delay_ms=DELAY_MS)
        stage.forget()
        stage.read_cold(EACH)
        yield cached(stage)
    if part in (0, 2):
        yield first_record(stage, size)
    if part in (0, 5):
        yield from coldbeside.gauges(stage, size)


def went_cold(stage: Stage) -> Gauge:
    """Once: the upload that the node made of what follows."""
    made = stage.uploading
    puts = sum(made.get(name, 0) for name in ("put", "put_if_absent", "put_if_match", "put_part"))
    reckoned = upload_requests(size=stage.segment_bytes, tiering=Tiering(), objects=1)

    def figures() -> Figures:
        return {
            MEMORY: made["memory_mb"],
            "PUTs/GB": puts / stage.bytes * 1e9,
            PUTS_RECKONED: reckoned / stage.segment_bytes * 1e9,
            "bytes written / bytes of the log": made["put_bytes"] / stage.bytes,
        }

    return Gauge(
        name="the upload of the topic, by the node",
        variants={OURS: figures},
        promises={
            MEMORY: Promise(),
            "PUTs/GB": Promise(),
            PUTS_RECKONED: Promise(),
            "bytes written / bytes of the log": Promise(),
        },
        rounds=1,
        note="segments of the default size, 128 MiB",
    )


def uncached(
    name: str,
    stage: Stage,
    groups: list[list[int]],
    speed: Promise,
    *,
    delay_ms: float = 0.0,
    is_warm: bool = True,
    more: Mapping[str, Promise] | None = None,
) -> Iterator[Gauge]:
    partitions = [index for group in groups for index in group]
    seen: list[Figures] = []

    def ours() -> Figures:
        stage.forget(get_delay_ms=delay_ms, is_warm=is_warm)
        figures = stage.read_cold(groups)
        seen.append({**figures, TIMES_KAFKA: figures[SPEED] / KAFKA_MB_PER_S})
        return seen[-1]

    yield Gauge(
        name=name,
        variants={RAW: partial(stage.raw, partitions, get_delay_ms=delay_ms), OURS: ours},
        promises={SPEED: speed, CPU_PER_GB: Promise()},
        baseline=RAW,
        rounds=ROUNDS,
        note="" if is_warm else "all memory of the node is new",
    )
    took = iter(seen)
    yield Gauge(
        name=f"{name}: what it took",
        variants={OURS: lambda: next(took)},
        promises={
            **(more or {}),
            MEMORY: Promise(),
            GETS_PER_GB: Promise(),
            GETS_RECKONED: Promise(),
            GET_BYTES: Promise(),
        },
        rounds=ROUNDS,
    )


def cached(stage: Stage) -> Gauge:
    return Gauge(
        name="cached cold replay, 8 partitions",
        variants={HOT: partial(stage.read_hot, EACH), OURS: partial(stage.read_cold, EACH)},
        promises={SPEED: Promise(hold=0.8, aim=1.0, is_speed=True), CPU_PER_GB: Promise()},
        baseline=HOT,
        rounds=11,
    )


def first_record(stage: Stage, size: Size) -> Gauge:
    rng = random.Random(7)

    def figures() -> Figures:
        stage.forget()
        # The first connection and the first GET of a process are slower than those to come.
        stage.first_record(0, 0)
        count = FIRST_RECORDS if size.is_full else 2
        made = [
            stage.first_record(rng.randrange(1, PARTITIONS), rng.randrange(stage.end))
            for _ in range(count)
        ]
        times = sorted(one["ms"] for one in made)
        return {
            "p50 ms": times[len(times) // 2],
            "worst ms": times[-1],
            "round trips, at most": max(one["round trips"] for one in made),
            "GETs, at most": max(one["GETs"] for one in made),
        }

    return Gauge(
        name="first record of a random cold offset",
        variants={OURS: figures},
        promises={
            "p50 ms": Promise(hold=10, aim=5),
            "worst ms": Promise(),
            "round trips, at most": Promise(hold=3, aim=1),
            "GETs, at most": Promise(hold=3, aim=2),
        },
        rounds=ROUNDS,
    )


def manifest(server: Server, size: Size) -> Iterator[Gauge]:
    many = SEGMENTS_MANY if size.is_full else SEGMENTS_MANY // 100
    commits = 256 if size.is_full else 32
    yield Gauge(
        name="a publish, over a cycle of pages",
        variants={
            f"{SEGMENTS_FEW} segments": partial(
                coldmanifest.publish_cost, SEGMENTS_FEW, commits=commits
            ),
            f"{many:,} segments": partial(coldmanifest.publish_cost, many, commits=commits),
        },
        promises={
            coldmanifest.BYTES: Promise(hold=1.5, aim=1.1),
            coldmanifest.REQUESTS: Promise(hold=1.5, aim=1.1),
        },
        baseline=f"{SEGMENTS_FEW} segments",
        rounds=1,
    )
    search = coldmanifest.Search(server, many)
    yield Gauge(
        name=f"an offset among {many:,} segments, knowing HEAD alone",
        variants={OURS: search.run},
        promises={"ms": Promise(), "page GETs": Promise(hold=2)},
        rounds=ROUNDS,
    )
