"""The cost model against a node: requests and bytes that it forecasts, beside those counted.

A node on a folder takes a topic, seals and uploads it, and a real consumer reads all of it from the
store once. What the node asked of its store in between is the truth; what it asks for when it
starts and when topics are made is not part of either. The ratio is forecast / counted: 1 is right.
"""

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size
from cost_model.calibrate import Run, forecast
from tests.cli.served import run as tierlog
from tests.cli.served import starting

PARTITIONS = 4
SEGMENTS = 8
"""Of each partition."""
TOPIC = "calibration"
VALUE = bytes(1000)
PATIENCE_S = 120.0
COUNTED, MODEL = "counted", "cost model"
FIGURES = ("PUTs", "bytes written", "objects", "GETs", "bytes read")


def comparisons(size: Size) -> Iterator[Gauge]:
    segment = max(size.data_bytes // PARTITIONS // SEGMENTS, 64 << 10)
    found = counted(size.scratch, segment=segment)
    run = Run(
        bytes=found.pop("bytes"),
        partitions=PARTITIONS,
        segment=found.pop("segment"),
        seconds=found.pop("seconds"),
    )
    said = forecast(run)

    def truth() -> Figures:
        return found

    def model() -> Figures:
        return {name: said[name] for name in FIGURES}

    yield Gauge(
        name="a topic uploaded and replayed once",
        variants={COUNTED: truth, MODEL: model},
        promises=dict.fromkeys(FIGURES, Promise()),
        baseline=COUNTED,
        rounds=1,
        note=f"{PARTITIONS} partitions, {SEGMENTS} segments of {segment:,} bytes each",
    )


def counted(folder: Path, *, segment: int) -> dict[str, float]:
    with starting(folder) as start:
        ready = start("--store", f"file://{folder}/store").ready()
        kafka, http = ready[1], ready[2]
        # Local copies go as soon as the store has them; segments are sealed when they are full, and
        # the last of each once nothing comes any more. No table: it is forecast by itself.
        configs = [
            f"segment.bytes={segment}",
            "local.retention.ms=1000",
            "flush.messages=1000000",
            "tierlog.table.enable=false",
        ]
        words = [word for one in configs for word in ("--config", one)]
        _tierlog(folder, kafka, "topic", "create", TOPIC, "-p", str(PARTITIONS), *words)
        before = _asked(http)
        began = time.perf_counter()
        _produce(kafka, segment * SEGMENTS // (len(VALUE) + 20))
        seconds = time.perf_counter() - began
        _tierlog(folder, kafka, "topic", "alter", TOPIC, "--set", "segment.ms=1000")
        _wait_cold(http)
        written = _asked(http)
        parts = _partitions(http)
        size, segments = (sum(one[key] for one in parts) for key in ("cold_bytes", "cold_segments"))
        _read(kafka, {one["index"]: one["high_watermark"] for one in parts})
        reader = next(
            one for one in _state(http)["tier"]["clients"] if one["client"] == "calibration-reader"
        )
    return {
        "bytes": size,
        "segment": size / segments,
        "seconds": seconds,
        "PUTs": written["puts"] - before["puts"],
        "bytes written": written["bytes"] - before["bytes"],
        "objects": segments,
        "GETs": reader["gets"],
        "bytes read": reader["get_bytes"],
    }


def _tierlog(folder: Path, kafka: str, *words: str) -> None:
    done = tierlog(*words, "--bootstrap", kafka, cwd=folder)
    assert done.code == 0, done.err


def _state(http: str) -> Any:
    with urllib.request.urlopen(f"http://{http}/state", timeout=10) as answer:
        return json.load(answer)


def _partitions(http: str) -> list[dict[str, int]]:
    topics = _state(http)["topics"]
    found: list[dict[str, int]] = next(one["partitions"] for one in topics if one["name"] == TOPIC)
    return found


def _asked(http: str) -> dict[str, int]:
    kinds = _state(http)["tier"]["requests"]
    writes = [kinds.get(name, {"requests": 0, "bytes": 0}) for name in ("put", "part")]
    return {
        "puts": sum(one["requests"] for one in writes),
        "bytes": sum(one["bytes"] for one in writes),
    }


def _produce(kafka: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 50, "compression.type": "none"})
    for number in range(records):
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, value=VALUE, partition=partition)
        if number % 100 == 0:
            producer.flush(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0


def _wait_cold(http: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        parts = _partitions(http)
        if all(one["uploaded_end"] == one["local_start"] == one["high_watermark"] for one in parts):
            return
        time.sleep(0.2)
    raise AssertionError(f"not in the store: {parts}")


def _read(kafka: str, ends: dict[int, int]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "calibration",
            "client.id": "calibration-reader",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in ends])
    left = sum(ends.values())
    deadline = time.monotonic() + PATIENCE_S
    while left > 0 and time.monotonic() < deadline:
        left -= len([one for one in consumer.consume(10_000, 1.0) if one.error() is None])
    consumer.close()
    assert left <= 0, f"{left} records were not read"
