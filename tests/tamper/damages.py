"""What may happen to a bucket behind tierlog's back, drawn at random.

A damage names the keys that it hit. It hits what somebody needs: what is garbage, or below the log
start, may rot. Of gzip's header one byte is left alone that says which operating system wrote it,
and that nobody reads.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

from tests.tamper.bucket import PLACES, PREFIX, TestBucket
from tierlog.cold.clusterstate import decode_state, encode_state
from tierlog.cold.codec import decode_head
from tierlog.cold.layout import HEAD, STATE
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Doomed

GZIP_SYSTEM = 9


@dataclass(frozen=True, slots=True)
class Damage:
    name: str
    keys: tuple[str, ...]
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.detail} of {' and '.join(self.keys)}"


Deed: TypeAlias = Callable[[TestBucket, Random, list[str]], Coroutine[Any, Any, Damage | None]]


def bytes_of(bucket: TestBucket, key: str) -> bytes:
    return bucket.store.shelf.items[key].data


async def put(bucket: TestBucket, key: str, data: bytes) -> None:
    await bucket.store.put(key, BytesBody(data))


def place_in(key: str, data: bytearray, rng: Random) -> int:
    place = rng.randrange(len(data))
    if place == GZIP_SYSTEM and key.endswith((HEAD, STATE)):
        return place - 1
    return place


async def flip(bucket: TestBucket, rng: Random, keys: list[str]) -> Damage:
    key = rng.choice(keys)
    data = bytearray(bytes_of(bucket, key))
    place, bit = place_in(key, data, rng), rng.randrange(8)
    data[place] ^= 1 << bit
    await put(bucket, key, bytes(data))
    return Damage("flip", (key,), f"bit {bit} of byte {place}")


async def smear(bucket: TestBucket, rng: Random, keys: list[str]) -> Damage | None:
    """A run of bytes is replaced by others, as a bad sector or a wrong block would."""
    key = rng.choice(keys)
    data = bytearray(bytes_of(bucket, key))
    start = place_in(key, data, rng)
    stop = min(len(data), start + rng.randint(1, 64))
    fresh = rng.choice((bytes(stop - start), rng.randbytes(stop - start)))
    if data[start:stop] == fresh or start <= GZIP_SYSTEM < stop:
        return None
    data[start:stop] = fresh
    await put(bucket, key, bytes(data))
    return Damage("smear", (key,), f"bytes {start} to {stop}")


async def truncate(bucket: TestBucket, rng: Random, keys: list[str]) -> Damage:
    key = rng.choice(keys)
    data = bytes_of(bucket, key)
    size = rng.choice((0, len(data) - 1, rng.randrange(len(data))))
    await put(bucket, key, data[:size])
    return Damage("truncate", (key,), f"to {size} of {len(data)} bytes")


async def lengthen(bucket: TestBucket, rng: Random, keys: list[str]) -> Damage:
    key = rng.choice(keys)
    more = rng.randbytes(rng.randint(1, 40))
    await put(bucket, key, bytes_of(bucket, key) + more)
    return Damage("lengthen", (key,), f"by {len(more)} bytes")


async def drop(bucket: TestBucket, rng: Random, keys: list[str]) -> Damage:
    key = rng.choice(keys)
    await bucket.store.delete([Doomed(key)])
    return Damage("drop", (key,))


async def swap(bucket: TestBucket, rng: Random, keys: list[str]) -> Damage:
    """Two of a kind, or any two."""
    one = rng.choice(keys)
    kind = one.rsplit("/", 2)[-2:][0]
    alike = [key for key in keys if key != one and key.rsplit("/", 2)[-2:][0] == kind]
    others = alike if alike and rng.random() < 0.7 else [key for key in keys if key != one]
    other = rng.choice(others)
    first, second = bytes_of(bucket, one), bytes_of(bucket, other)
    await put(bucket, one, second)
    await put(bucket, other, first)
    return Damage("swap", (one, other))


async def roll_back(bucket: TestBucket, rng: Random, _: list[str]) -> Damage | None:
    """HEAD as it was before something that is published now."""
    place = rng.choice(PLACES)
    key = bucket.keys(place).head
    now = bucket.head(place)
    heads = {data: decode_head(data, key=key) for data in bucket.heads[place]}
    # What lies behind a skip does not begin where the older one ends.
    older = [
        data
        for data, head in heads.items()
        if head.next_offset < now.next_offset and head.skips == now.skips
    ]
    if not older:
        return None
    data = rng.choice(older)
    await put(bucket, key, data)
    return Damage("roll back", (key,), f"to version {heads[data].version}")


async def roll_state_back(bucket: TestBucket, rng: Random, _: list[str]) -> Damage | None:
    """STATE as it was before a topic was made, or before it got its last partition."""
    key = PREFIX + STATE
    now = decode_state(bytes_of(bucket, key))
    topic_id = rng.choice(sorted(now.topics))
    topics = dict(now.topics)
    topic = topics.pop(topic_id)
    if topic.partitions > 1 and rng.random() < 0.5:
        topics[topic_id] = replace(topic, partitions=topic.partitions - 1)
    older = replace(now, version=now.version - 1, nonce="older", topics=topics)
    await put(bucket, key, encode_state(older))
    return Damage("roll STATE", (key,), f"to before {topic.name} was as it is")


DEEDS: tuple[Deed, ...] = (
    *(flip, flip, flip, smear, truncate, lengthen),
    *(drop, drop, swap, swap, roll_back, roll_back, roll_state_back),
)
