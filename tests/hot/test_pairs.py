"""The packed table that both indexes are made of."""

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.hot.pairs import RisingPairs

ENTRY = Struct(">II")
numbers = st.integers(0, 2**32 - 1)
rising = st.sets(numbers, max_size=40).flatmap(
    lambda firsts: st.sets(numbers, min_size=len(firsts), max_size=len(firsts)).map(
        lambda seconds: list(zip(sorted(firsts), sorted(seconds), strict=True))
    )
)


def filled(pairs: list[tuple[int, int]]) -> RisingPairs:
    table = RisingPairs(ENTRY)
    for first, second in pairs:
        table.append(first, second)
    return table


@given(rising)
def test_what_was_appended_is_there_and_survives_its_bytes(pairs: list[tuple[int, int]]) -> None:
    table = filled(pairs)
    again = RisingPairs(ENTRY)
    assert again.load(table.to_bytes())
    for one in (table, again):
        assert [one.pair(number) for number in range(len(one))] == pairs
        assert one.last == (pairs[-1] if pairs else (-1, -1))


@given(rising, numbers, st.sampled_from([0, 1]))
def test_counting_agrees_with_looking_at_every_pair(
    pairs: list[tuple[int, int]], value: int, column: int
) -> None:
    expected = sum(pair[column] <= value for pair in pairs)
    assert filled(pairs).count_at_most(value, column=column) == expected


@given(rising, st.integers(0, 40))
def test_what_is_kept_is_the_beginning_and_goes_on_from_there(
    pairs: list[tuple[int, int]], count: int
) -> None:
    table = filled(pairs)
    table.keep(min(count, len(pairs)))
    assert table.to_bytes() == filled(pairs[:count]).to_bytes()
    assert table.last == filled(pairs[:count]).last


@pytest.mark.parametrize(
    "data",
    [
        b"1234567",
        ENTRY.pack(1, 1) + b"x",
        ENTRY.pack(2, 1) + ENTRY.pack(1, 2),
        ENTRY.pack(1, 2) + ENTRY.pack(2, 1),
        ENTRY.pack(1, 1) + ENTRY.pack(1, 2),
        ENTRY.pack(1, 1) + ENTRY.pack(2, 1),
        ENTRY.pack(5, 5) + ENTRY.pack(0, 0),
    ],
)
def test_bytes_that_do_not_rise_are_not_loaded(data: bytes) -> None:
    table = RisingPairs(ENTRY)
    assert not table.load(data)
    assert len(table) == 0


@pytest.mark.parametrize("pair", [(5, 6), (6, 5), (5, 5), (4, 4)])
def test_a_pair_that_does_not_rise_is_a_mistake_of_the_programmer(pair: tuple[int, int]) -> None:
    table = filled([(5, 5)])
    with pytest.raises(AssertionError):
        table.append(*pair)
