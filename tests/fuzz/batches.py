"""Fuzz of record batches: whatever comes in, out comes a result or one of our own errors.

Inputs are random bytes, sound batches of every codec with bytes, header fields or lengths changed,
batches whose plain records were changed before they were compressed and sealed, so that the damage
lies deep, and batches of a few bytes that hold thousands of headers. One input follows from (seed,
index) alone, so a failure is replayed by

    python -m tests.fuzz.batches --seed SEED --index INDEX

Per input: no exception but `BatchError`; at most 50 ms of CPU, slow three times over before it
counts (a shared core makes anything slow once); at most `memory_bytes_max` of memory. Over a run:
the process grows by less than 64 MiB.
"""

import argparse
import random
import resource
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.records.batches import altered, some_records
from tests.records.golden import GOLDEN, RECORDS
from tierlog.records.attributes import Codec
from tierlog.records.batch import (
    HEADER_BYTES,
    crc_of,
    iter_batches,
    parse_header,
    patch_offset,
    validate_produced,
    validate_stored,
)
from tierlog.records.compression import compress
from tierlog.records.control import EndMarker, decode_end_marker, encode_end_marker
from tierlog.records.errors import BatchError
from tierlog.records.limits import DEFAULT_LIMITS
from tierlog.records.record import decode_records, encode_batch
from tierlog.records.timestamps import first_record_at_or_after
from tierlog.records.varint import encode_varint
from tierlog.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs

CPU_SECONDS_MAX = 0.050
RESIDENT_GROWTH_BYTES_MAX = 64 * 1024 * 1024
TRACED_EVERY = 4
"""Tracing memory makes decoding fifteen times slower, so every fourth input is traced; what C code
takes, and what the other inputs take, shows in the resident size of the process."""

CROWD = 2_000
"""Headers in one record that are read; more than fifty times as many are refused."""

SIZE_MAX = 1_048_588
DECODED_PER_PLAIN_BYTE = 40
"""A record of 7 plain bytes becomes objects of about 250."""

INTERESTING = (0, 1, 2, 7, 12, 48, 49, 61, 127, 128, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1)
FIELD_SIZES = {
    0: 8,
    8: 4,
    12: 4,
    16: 1,
    17: 4,
    21: 2,
    23: 4,
    27: 8,
    35: 8,
    43: 8,
    51: 2,
    53: 4,
    57: 4,
}
"""Position and size of every header field."""


@dataclass(slots=True)
class Stats:
    """What a run saw; `failures` is empty when all is well."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    largest_peak_bytes: int = 0
    resident_growth_bytes: int = 0
    failures: list[str] = field(default_factory=list)


def memory_bytes_max(data: bytes) -> int:
    """The bound that we state: by the input where nothing is compressed, else by the limits."""
    codec = data[22] & 7 if len(data) > HEADER_BYTES else 0
    plain = DEFAULT_LIMITS.inflated_bytes_max(len(data)) if codec else len(data)
    return 64 * 1024 + DECODED_PER_PLAIN_BYTE * plain


def corpus() -> list[bytes]:
    marker = EndMarker(commit=False, coordinator_epoch=3)
    batches = [
        *GOLDEN.values(),
        encode_end_marker(
            marker,
            producer_id=ProducerId(1),
            producer_epoch=ProducerEpoch(1),
            timestamp=TimestampMs(9),
        ),
        encode_batch([], last_offset=Offset(3)),
        encode_batch(some_records(40), log_append_time=TimestampMs(77)),
        encode_batch([some_records(90)[i] for i in (3, 17, 80)], codec=Codec.LZ4),
        *(encode_batch(some_records(200, value=bytes(20)), codec=codec) for codec in Codec),
    ]
    return [bytes(batch) for batch in batches]


CORPUS = corpus()
PLAIN = bytes(encode_batch([*RECORDS, *[r._replace(offset=Offset(r.offset + 3)) for r in RECORDS]]))


def make_input(seed: int, index: int) -> bytes:
    """The input with this number, always the same."""
    rng = random.Random(f"{seed}:{index}")
    if rng.random() < 0.01:  # rare, since each costs as much as a hundred others
        return bytes(_crowded(rng))
    make = rng.choice((_random_bytes, _mutated, _mutated, _mutated, _damaged_deep, _damaged_deep))
    return bytes(make(rng))


def _random_bytes(rng: random.Random) -> bytearray:
    data = bytearray(rng.randbytes(rng.choice((0, 11, 60, 61, 62, 100, 300, 2000))))
    if len(data) > HEADER_BYTES and rng.random() < 0.7:
        # Sealed, so that the bytes are not turned away at the door.
        return altered(data, length=len(data) - 12, magic=2, attributes=rng.randrange(8))
    return data


def _mutated(rng: random.Random) -> bytearray:
    data = bytearray(rng.choice(CORPUS))
    for _ in range(rng.randrange(1, 4)):
        rng.choice((_flip, _flip, _set_field, _set_field, _cut, _repeat, _append))(rng, data)
    return _maybe_sealed(rng, data)


def _damaged_deep(rng: random.Random) -> bytearray:
    payload = bytearray(PLAIN[HEADER_BYTES:])
    for _ in range(rng.randrange(1, 4)):
        rng.choice((_flip, _flip, _flip, _cut, _repeat))(rng, payload)
    codec = rng.choice(list(Codec))
    data = bytearray(PLAIN[:HEADER_BYTES]) + compress(codec, payload)
    return altered(data, length=len(data) - 12, attributes=codec)


def _crowded(rng: random.Random) -> bytearray:
    """Headers without number in a few bytes: as many as 50 ms read four times, or far too many."""
    count = rng.choice((1, 64, CROWD, 60 * CROWD, 250 * CROWD))
    times = rng.randrange(1, 5) if count < CROWD else 1
    payload = b"".join(_record_of_headers(count, place) for place in range(times))
    codec = rng.choice((Codec.GZIP, Codec.LZ4, Codec.ZSTD))
    data = bytearray(PLAIN[:HEADER_BYTES]) + compress(codec, payload)
    data = altered(
        data,
        length=len(data) - 12,
        attributes=codec,
        record_count=times,
        last_offset_delta=times - 1,
    )
    if rng.random() < 0.3:
        _flip(rng, data)
    return _maybe_sealed(rng, data)


def _record_of_headers(count: int, place: int) -> bytes:
    """By hand: the encoder would make every header, and the run measures memory."""
    head = b"\0\0" + encode_varint(place) + b"\x01\x01" + encode_varint(count)
    body = head + b"\0\x01" * count
    return encode_varint(len(body)) + body


def _maybe_sealed(rng: random.Random, data: bytearray) -> bytearray:
    if len(data) < HEADER_BYTES or rng.random() < 0.25:
        return data
    length = parse_header(data).length if rng.random() < 0.2 else len(data) - 12
    return altered(data, length=length)


def _flip(rng: random.Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((rng.randrange(256), 0, 0x7F, 0x80, 0xFF))


def _set_field(rng: random.Random, data: bytearray) -> None:
    at = rng.choice(list(FIELD_SIZES))
    size = FIELD_SIZES[at]
    if len(data) >= HEADER_BYTES:
        number = rng.choice(INTERESTING) * rng.choice((1, -1)) % 256**size
        data[at : at + size] = number.to_bytes(size)


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _repeat(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.randrange(1, 40)]
    data[start:start] = piece * rng.randrange(1, 20)


def _append(rng: random.Random, data: bytearray) -> None:
    data += rng.choice((rng.randbytes(rng.randrange(1, 99)), rng.choice(CORPUS)))


def examine(data: bytes) -> Counter[str]:
    """Everything that reads batches, over one input."""
    outcomes: Counter[str] = Counter()
    for name, read in READERS.items():
        try:
            read(data)
            outcomes[f"{name}: read"] += 1
        except BatchError as error:
            outcomes[f"{name}: {type(error).__name__}"] += 1
    return outcomes


def _produce(data: bytes) -> None:
    batch = memoryview(bytearray(data))
    validate_produced(batch, SIZE_MAX)
    patch_offset(batch, Offset(5), LeaderEpoch(1))
    # What may be produced is sound once stored.
    header = validate_stored(batch)
    assert header.crc == crc_of(batch)


def _markers(data: bytes) -> None:
    for record in decode_records(data):
        decode_end_marker(record)


READERS: dict[str, Callable[[bytes], object]] = {
    "parse_header": parse_header,
    "validate_produced": _produce,
    "validate_stored": lambda data: validate_stored(memoryview(data)),
    "iter_batches": lambda data: list(iter_batches(data)),
    "decode_records": decode_records,
    "decode_records dense": lambda data: decode_records(data, dense=True),
    "first_record_at_or_after": lambda data: first_record_at_or_after(data, TimestampMs(77)),
    "decode_end_marker": _markers,
}


def run(seed: int, count: int, *, first: int = 0) -> Stats:
    """Examine `count` inputs. Stops at the first failure, whose sentence says how to replay it."""
    stats = Stats()
    resident = _resident_bytes()
    for index in range(first, first + count):
        data = make_input(seed, index)
        stats.inputs += 1
        try:
            wrong = _too_slow(stats, data)
            if index % TRACED_EVERY == 0:
                wrong = wrong or _too_greedy(stats, data)
        except Exception as error:  # noqa: BLE001  (any other exception is what we look for)
            wrong = f"raised {error!r}"
        if wrong:
            stats.failures.append(_sentence(seed, index, data, wrong))
            return stats
    stats.resident_growth_bytes = _resident_bytes() - resident
    if stats.resident_growth_bytes > RESIDENT_GROWTH_BYTES_MAX:
        stats.failures.append(f"the process grew by {stats.resident_growth_bytes} bytes")
    return stats


def _too_slow(stats: Stats, data: bytes) -> str | None:
    spent, outcomes = _timed(data)
    stats.outcomes += outcomes
    if spent > CPU_SECONDS_MAX / 10:
        spent = min(spent, *(_timed(data)[0] for _ in range(2)))
    stats.slowest_s = max(stats.slowest_s, spent)
    return f"took {spent:.3f} s of CPU" if spent > CPU_SECONDS_MAX else None


def _timed(data: bytes) -> tuple[float, Counter[str]]:
    started = time.process_time()
    outcomes = examine(data)
    return time.process_time() - started, outcomes


def _too_greedy(stats: Stats, data: bytes) -> str | None:
    tracemalloc.start(1)
    try:
        examine(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    stats.largest_peak_bytes = max(stats.largest_peak_bytes, peak)
    return f"took {peak} bytes of memory" if peak > memory_bytes_max(data) else None


def _resident_bytes() -> int:
    """The most that the process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _sentence(seed: int, index: int, data: bytes, what: str) -> str:
    return (
        f"input {index} of seed {seed} {what}\n  input: {data.hex()}\n"
        f"  replay: python -m tests.fuzz.batches --seed {seed} --index {index}"
    )


def main(count: int, *, seed: int = 1, first: int = 0) -> int:
    """Run, print what was seen, and return the exit code."""
    stats = run(seed, count, first=first)
    print(
        f"batches: {stats.inputs} inputs of seed {seed}, slowest {stats.slowest_s * 1000:.1f} ms "
        f"of CPU, largest peak {stats.largest_peak_bytes / 1024:.0f} KiB, process grew by "
        f"{stats.resident_growth_bytes / 1024:.0f} KiB, {len(stats.failures)} failures"
    )
    for outcome, times in sorted(stats.outcomes.items()):
        print(f"  {outcome:50} {times:9,}")
    for failure in stats.failures:
        print(failure)
    return 1 if stats.failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fuzz record batches.")
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--index", type=int, help="examine this input alone")
    chosen = parser.parse_args()
    if chosen.index is None:
        raise SystemExit(main(chosen.count, seed=chosen.seed))
    raise SystemExit(main(1, seed=chosen.seed, first=chosen.index))
