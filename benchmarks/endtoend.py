"""From send to receive through real clients: librdkafka produces and consumes, a process each.

    python -m benchmarks.endtoend consume|produce --port PORT --topic TOPIC --rate R ...

The producer sends records by the clock with `linger.ms=0`; each carries the moment it was due, on
the clock that all processes of a machine share. The consumer subtracts. So a producer, a broker or
a consumer that stalls cannot hide it. What is sent in the first
`--warm` seconds is not counted: clients connect.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import tools

VALUE_BYTES = 1024
WARM_S = 1.0
PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Milliseconds from due to received."""

    p50_ms: float
    p99_ms: float
    count: int


def measure(
    port: int, topic: str, *, rate: float, seconds: float, acks: str = "1", warm_s: float = WARM_S
) -> Latency:
    """Run both clients against a new topic with one partition."""
    how = ["--port", str(port), "--topic", topic, "--rate", str(rate)]
    how += ["--seconds", str(seconds), "--warm", str(warm_s), "--acks", acks]
    consumer = _client("consume", *how)
    try:
        _expect(consumer, "ready")
        producer = _client("produce", *how)
        try:
            sent = json.loads(_line(producer))
            seen = json.loads(_line(consumer))
        finally:
            _end(producer)
    finally:
        _end(consumer)
    if sent["failed"] or seen["count"] != sent["count"]:
        raise tools.RunFailed(f"sent {sent}, but received {seen}")
    return Latency(p50_ms=seen["p50_ms"], p99_ms=seen["p99_ms"], count=seen["count"])


def _client(role: str, *how: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.endtoend", role, *how]
    root = Path(__file__).parent.parent
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise tools.RunFailed("a client of the end-to-end measurement ended without a word")
    return line


def _expect(process: "subprocess.Popen[str]", word: str) -> None:
    if (line := _line(process).strip()) != word:
        raise tools.RunFailed(f"a client said {line!r} in place of {word!r}")


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        try:
            process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout:
        process.stdout.close()


# In the processes


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endtoend", description=__doc__)
    parser.add_argument("role", choices=("consume", "produce"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm", type=float, default=WARM_S)
    parser.add_argument("--acks", default="1")
    args = parser.parse_args(argv)
    (produce if args.role == "produce" else consume)(args)
    return 0


def wanted(args: argparse.Namespace) -> int:
    return int(args.rate * (args.warm + args.seconds))


def produce(args: argparse.Namespace) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{args.port}",
            "linger.ms": 0,
            "acks": args.acks,
            "socket.nagle.disable": True,
        }
    )
    failed = 0

    def delivered(error: object, _: object) -> None:
        nonlocal failed
        failed += error is not None

    rest = bytes(VALUE_BYTES - 8)
    interval_ns = int(1e9 / args.rate)
    due = time.monotonic_ns()
    count = wanted(args)
    for _ in range(count):
        due += interval_ns
        if (left := due - time.monotonic_ns()) > 0:
            producer.poll(0)
            time.sleep(left / 1e9)  # Not a busy wait: the server needs the core.
        producer.produce(
            args.topic, due.to_bytes(8, "big") + rest, partition=0, on_delivery=delivered
        )
    left_over = producer.flush(PATIENCE_S)
    print(json.dumps({"count": count, "failed": failed + left_over}), flush=True)


def consume(args: argparse.Namespace) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{args.port}",
            "group.id": "end-to-end",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
            "socket.nagle.disable": True,
        }
    )
    consumer.assign([TopicPartition(args.topic, 0, 0)])
    consumer.poll(0.1)
    print("ready", flush=True)
    count = wanted(args)
    took: list[int] = []
    deadline = time.monotonic() + args.warm + args.seconds + PATIENCE_S
    while len(took) < count and time.monotonic() < deadline:
        first = consumer.poll(0.5)
        if first is not None:
            took.append(time.monotonic_ns() - _due_of(first))
            rest = consumer.consume(1000, timeout=0)  # Whatever came with it.
            now = time.monotonic_ns()
            took += [now - _due_of(message) for message in rest]
    consumer.close()
    print(json.dumps({"count": len(took), **percentiles(took[int(args.rate * args.warm) :])}))


def _due_of(message: Any) -> int:
    if message.error():
        raise SystemExit(f"the consumer was told: {message.error()}")
    return int.from_bytes(message.value()[:8], "big")


def percentiles(took_ns: Sequence[int]) -> dict[str, float]:
    ranked = sorted(took_ns) or [0]
    return {
        "p50_ms": ranked[len(ranked) // 2] / 1e6,
        "p99_ms": ranked[int(len(ranked) * 0.99)] / 1e6,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
