"""Partitioners: the same partition that every other client would choose."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierlog.records.partitioners import Keyed, RoundRobin, Sticky, murmur2, partition_of_key


def signed(number: int) -> int:
    """As Java would print it."""
    return number - 2**32 if number >= 2**31 else number


@pytest.mark.parametrize(
    ("key", "java"),
    [
        # The values of Kafka's own unit test of Utils.murmur2.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_what_java_gives(key: bytes, java: int) -> None:
    assert signed(murmur2(key)) == java
    assert murmur2(memoryview(bytearray(key))) == murmur2(key)


def test_murmur2_of_nothing_is_known() -> None:
    assert signed(murmur2(b"")) == 275646681


@pytest.mark.parametrize(
    ("key", "of_10", "of_12", "of_1000"),
    [
        # Worked out by hand from the hashes above: Java clears the sign bit, which adds 2^31 to a
        # negative one, and takes the remainder. All but the last hash are negative.
        (b"21", 0, 0, 340),
        (b"foobar", 6, 6, 166),
        (b"a-little-bit-long-string", 2, 8, 112),
        (b"a-little-bit-longer-string", 9, 11, 819),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", 7, 5, 677),
        (b"abc", 7, 3, 107),
    ],
)
def test_a_key_goes_to_the_partition_that_java_chooses(
    key: bytes, of_10: int, of_12: int, of_1000: int
) -> None:
    assert [partition_of_key(key, count) for count in (10, 12, 1000)] == [of_10, of_12, of_1000]


@given(key=st.binary(max_size=40), count=st.integers(1, 1000))
def test_a_negative_hash_still_names_a_partition(key: bytes, count: int) -> None:
    assert partition_of_key(key, count) == (signed(murmur2(key)) & 0x7FFFFFFF) % count


@pytest.mark.compat
@settings(deadline=None)  # the first example pays for importing two clients
@given(key=st.binary(max_size=100) | st.text(max_size=30).map(str.encode))
def test_murmur2_agrees_with_kafka_python_and_aiokafka(key: bytes) -> None:
    from tests.records.oracles import aiokafka_murmur2, kafka_python_murmur2

    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF
    assert murmur2(key) == aiokafka_murmur2(key) & 0xFFFFFFFF


def test_round_robin_visits_every_partition_in_turn() -> None:
    chooser = RoundRobin()
    assert [chooser.choose(b"same key", 3) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert chooser.choose(None, 1) == 0


def test_sticky_stays_until_a_batch_is_completed_and_then_moves() -> None:
    chooser = Sticky(random.Random(1))
    first = chooser.choose(None, 8)
    assert {chooser.choose(None, 8) for _ in range(100)} == {first}
    chooser.batch_completed(8)
    assert chooser.choose(None, 8) != first


def test_sticky_spreads_batches_over_all_partitions() -> None:
    chooser = Sticky(random.Random(2))
    chosen: Counter[int] = Counter()
    for _ in range(4000):
        chosen[chooser.choose(None, 4)] += 1
        chooser.batch_completed(4)
    assert set(chosen) == {0, 1, 2, 3}
    assert min(chosen.values()) > 800


def test_sticky_leaves_a_partition_that_lost_its_leader() -> None:
    chooser = Sticky(random.Random(3))
    first = chooser.choose(None, 3)
    others = [partition for partition in range(3) if partition != first]
    assert chooser.choose(None, 3, others) in others
    assert chooser.choose(None, 3, []) in range(3)


def test_sticky_has_nowhere_to_move_from_a_single_partition() -> None:
    chooser = Sticky(random.Random(4))
    assert chooser.choose(None, 1) == 0
    chooser.batch_completed(1)
    assert chooser.choose(None, 1) == 0


def test_keyed_hashes_keys_and_sticks_without_one() -> None:
    chooser = Keyed(random.Random(5))
    assert chooser.choose(b"foobar", 10) == partition_of_key(b"foobar", 10)
    assert chooser.choose(b"", 10) == partition_of_key(b"", 10)
    first = chooser.choose(None, 10)
    assert {chooser.choose(None, 10) for _ in range(50)} == {first}
    chooser.batch_completed(10)
    assert chooser.choose(None, 10) != first
