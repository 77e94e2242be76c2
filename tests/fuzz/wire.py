"""Fuzz of the wire codecs: whatever comes in, out comes a message or a `WireError`.

Inputs are sound requests and responses of every API and version with bytes flipped, put in, taken
out, spliced from another message or set to lengths at their extremes, then crowded arrays, random
bytes behind a sound header, and random bytes alone. One input follows from (seed, index), so a
failure is replayed by

    python -m tests.fuzz.wire --seed SEED --index INDEX

Per input: no exception but `WireError`; at most 50 ms of CPU, slow three times over before it
counts (a shared core makes anything slow once); at most `memory_bytes_max` of memory; and the two
readers of Produce come to the same value or the same refusal.
"""

from __future__ import annotations

import argparse
import random
import time
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from tests.wire.produced import agree, by_hand, compiled
from tests.wire.smallest import with_one_large_array
from tests.wire.values import Values, every_version
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type, response_type
from tierlog.wire.errors import WireError
from tierlog.wire.header import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from tierlog.wire.primitives import uvarint
from tierlog.wire.produce import read_produce
from tierlog.wire.schema import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.wire.schema import Message, Struct

CPU_SECONDS_MAX = 0.050
MEMORY_PER_FRAME_BYTE = 64
"""The worst are empty structs of three bytes that become objects and lists of about 160;
tests/wire/test_memory.py looks for worse ones in the schemas."""
MEMORY_BYTES_BASE = 16 * 1024
"""An error with its traceback, a message with its defaults."""

TRACED_EVERY = 2
"""Tracing memory makes decoding several times slower, so every second input is traced."""

CROWD = 1000
"""Elements in the messages whose arrays are large and whose elements are tiny."""

LARGE_CROWD = 5_000
"""As many as must be read within the limit of time. An element of a response costs up to 3 us, of a
request half as much; on a busy machine several times that."""

CORPUS_SEEDS = range(3)

EXTREMES = (
    b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\x7f\xff", b"\x80\x00",
    b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x0f\x42\x40",
    uvarint(128), uvarint(16_384), uvarint(1_000_001), uvarint(0x7FFFFFFF), uvarint(0xFFFFFFFF),
    b"\xff\xff\xff\xff\xff\xff",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Input:
    """A frame, and what it is given to: `api` is None for requests, whose header names the API."""

    frame: bytes
    api: ApiKey | None = None
    version: int = 0


@dataclass(slots=True)
class Stats:
    """What a run saw; `failures` is empty when all is well."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    worst_multiple: float = 0.0
    failures: list[str] = field(default_factory=list)


def memory_bytes_max(frame: bytes) -> int:
    """The bound that we state."""
    return MEMORY_BYTES_BASE + MEMORY_PER_FRAME_BYTE * len(frame)


# Inputs


@lru_cache(maxsize=1)
def corpus() -> list[tuple[type[Message], int]]:
    return list(every_version())


@lru_cache(maxsize=4096)
def sound(kind: type[Message], version: int, seed: int) -> bytes:
    """A sound frame of this message."""
    return framed(Values(seed).message(kind, version), version, correlation_id=seed)


def framed(message: Struct, version: int, *, correlation_id: int) -> bytes:
    if isinstance(message, Request):
        parts = encode_request(message, version, correlation_id=correlation_id, client_id="fuzz")
    else:
        assert isinstance(message, Response)
        parts = encode_response(message, version, correlation_id=correlation_id)
    return b"".join(parts)[4:]


def make_input(seed: int, index: int) -> Input:
    """The input with this number, always the same. Numbers go round every API and version."""
    rng = random.Random(f"{seed}:{index}")
    kind, version = corpus()[index % len(corpus())]
    frame = sound(kind, version, rng.choice(CORPUS_SEEDS))
    draw = rng.random()
    if draw < 0.002:
        made = crowded(rng, kind, version, LARGE_CROWD)
    elif draw < 0.02:
        made = rng.randbytes(rng.choice((0, 1, 9, 40, 400)))
    elif draw < 0.04:
        made = crowded(rng, kind, version, CROWD)
    elif draw < 0.12:
        made = _random_body(rng, frame)
    else:
        made = mutated(rng, frame)
    if issubclass(kind, Request):
        return Input(made)
    return Input(made, ApiKey(kind.api_key), version)


def crowded(rng: random.Random, kind: type[Message], version: int, count: int) -> bytes:
    messages = list(with_one_large_array(kind, version, count)) or [
        Values(0).message(kind, version)
    ]
    frame = framed(rng.choice(messages), version, correlation_id=0)
    return frame if rng.random() < 0.5 else mutated(rng, frame)


def _random_body(rng: random.Random, frame: bytes) -> bytes:
    size = rng.choice((1, 10, 100, 1000))
    if rng.random() < 0.5:
        return frame[:15] + rng.randbytes(size)
    # Few distinct bytes make long runs of tiny elements.
    return frame[:15] + bytes(rng.choices((0, 1, 2, 127, 128, 255), k=size))


def mutated(rng: random.Random, frame: bytes) -> bytes:
    data = bytearray(frame)
    for _ in range(rng.choice((1, 1, 2, 4))):
        rng.choice(MUTATIONS)(rng, data)
    return bytes(data)


def flip(rng: random.Random, data: bytearray) -> None:
    if data:
        data[_place(rng, data)] ^= 1 << rng.randrange(8)


def _put_in(rng: random.Random, data: bytearray) -> None:
    place = _place(rng, data)
    data[place:place] = rng.choice((*EXTREMES, rng.randbytes(4)))


def _set_extreme(rng: random.Random, data: bytearray) -> None:
    place, extreme = _place(rng, data), rng.choice(EXTREMES)
    data[place : place + len(extreme)] = extreme


def _take_out(rng: random.Random, data: bytearray) -> None:
    place = _place(rng, data)
    del data[place : place + rng.choice((1, 1, 2, 4, 16))]


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _repeat(rng: random.Random, data: bytearray) -> None:
    place = _place(rng, data)
    data[place:place] = data[place : place + rng.choice((1, 2, 8, 30))] * rng.choice((1, 5, 200))


def _splice(rng: random.Random, data: bytearray) -> None:
    kind, version = rng.choice(corpus())
    other = sound(kind, version, 0)
    start, place = rng.randrange(len(other)), _place(rng, data)
    data[place:place] = other[start : start + rng.choice((4, 20, 100))]


def _place(rng: random.Random, data: bytearray) -> int:
    """Somewhere, mostly behind the API key and version, which lead to the codec."""
    first = 4 if rng.random() < 0.95 and len(data) > 4 else 0
    return rng.randrange(first, max(len(data), first + 1))


MUTATIONS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    flip, flip, _put_in, _set_extreme, _set_extreme, _take_out, _cut, _repeat, _splice,
)  # fmt: skip


# Examination


def examine(given: Input) -> str:
    """Decode one input; what came of it, in a word."""
    if given.api is None:
        outcome = _attempt(lambda: decode_request(given.frame))
        _attempt(lambda: _read_produce(given.frame))
        return outcome
    api = given.api
    return _attempt(lambda: decode_response(api, given.version, given.frame))


def _attempt(decode: Callable[[], object]) -> str:
    try:
        decode()
    except WireError as error:
        return type(error).__name__
    return "accepted"


def _read_produce(frame: bytes) -> None:
    """The hand-written reader, over every Produce request, sound or not."""
    header, position = read_request_header(frame)
    if header.api_key == ApiKey.PRODUCE:
        read_produce(header.api_version, frame, position)


def _differs(stats: Stats, given: Input) -> str | None:
    """Where the two readers of Produce do not come to the same value or the same refusal."""
    if given.api is not None:
        return None
    try:
        header, position = read_request_header(given.frame)
    except WireError:
        return None
    if header.api_key != ApiKey.PRODUCE:
        return None
    ours = by_hand(header.api_version, given.frame, position)
    theirs = compiled(header.api_version, given.frame, position)
    stats.outcomes["Produce compared"] += 1
    return None if agree(ours, theirs) else f"is {ours!r:.200} by hand, {theirs!r:.200} compiled"


def run(seed: int, count: int, *, first: int = 0) -> Stats:
    """Examine `count` inputs. Stops at the first failure, whose sentence says how to replay it."""
    stats = Stats()
    for index in range(first, first + count):
        given = make_input(seed, index)
        stats.inputs += 1
        try:
            wrong = _too_slow(stats, given)
            if index % TRACED_EVERY == 0:
                wrong = wrong or _too_greedy(stats, given)
            wrong = wrong or _differs(stats, given)
        except Exception as error:  # noqa: BLE001  # any other exception is what we look for
            wrong = f"raised {error!r}"
        if wrong:
            stats.failures.append(_sentence(seed, index, given, wrong))
            return stats
    return stats


def _too_slow(stats: Stats, given: Input) -> str | None:
    spent, outcome = _timed(given)
    stats.outcomes[outcome] += 1
    if spent > CPU_SECONDS_MAX / 10:
        spent = min(spent, *(_timed(given)[0] for _ in range(2)))
    stats.slowest_s = max(stats.slowest_s, spent)
    return f"took {spent:.3f} s of CPU" if spent > CPU_SECONDS_MAX else None


def _timed(given: Input) -> tuple[float, str]:
    started = time.process_time()
    outcome = examine(given)
    return time.process_time() - started, outcome


def _too_greedy(stats: Stats, given: Input) -> str | None:
    tracemalloc.start(1)
    try:
        examine(given)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    over = max(0, peak - MEMORY_BYTES_BASE)
    stats.worst_multiple = max(stats.worst_multiple, over / max(1, len(given.frame)))
    return f"took {peak} bytes of memory" if peak > memory_bytes_max(given.frame) else None


def _sentence(seed: int, index: int, given: Input, what: str) -> str:
    side = "request" if given.api is None else f"{given.api.name} v{given.version} response"
    return (
        f"input {index} of seed {seed}, a {side}, {what}\n  input: {given.frame.hex()}\n"
        f"  replay: python -m tests.fuzz.wire --seed {seed} --index {index}"
    )


def warm_up() -> None:
    """Compile every codec, so that the first input of each is not charged for it."""
    for api in ApiKey:
        for version in request_type(api).versions:
            for kind in (request_type(api), response_type(api)):
                for seed in CORPUS_SEEDS:
                    frame = sound(kind, version, seed)
                    examine(Input(frame, None if issubclass(kind, Request) else api, version))


def main(count: int, *, seed: int = 1, first: int = 0) -> int:
    """Run, print what was seen, and return the exit code."""
    warm_up()
    stats = run(seed, count, first=first)
    print(
        f"wire: {stats.inputs} inputs of seed {seed}, slowest {stats.slowest_s * 1000:.1f} ms of "
        f"CPU, worst memory {stats.worst_multiple:.1f} x the frame, {len(stats.failures)} failures"
    )
    for outcome, times in sorted(stats.outcomes.items()):
        print(f"  {outcome:50} {times:9,}")
    for failure in stats.failures:
        print(failure)
    return 1 if stats.failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fuzz the wire codecs.")
    parser.add_argument("--count", type=int, default=70_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--index", type=int, help="examine this input alone")
    chosen = parser.parse_args()
    if chosen.index is None:
        raise SystemExit(main(chosen.count, seed=chosen.seed))
    raise SystemExit(main(1, seed=chosen.seed, first=chosen.index))
