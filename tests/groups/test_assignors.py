"""Server-side assignors: every partition one owner, no owner who did not ask; and what each of them
promises beyond that."""

from unittest.mock import patch

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given, settings

from tests.groups.plain_uniform import plain_uniform
from tierlog.groups import assign_uniform
from tierlog.groups.assigning import Shares, Subscriber
from tierlog.groups.assignors import ASSIGNORS, Assignor

A, B, C = (bytes([number]) * 16 for number in range(3))
TOPICS = [A, B, C]


def members(**topics: list[bytes]) -> dict[str, Subscriber]:
    return {name: Subscriber(frozenset(one)) for name, one in topics.items()}


def again(before: dict[str, Subscriber], shares: Shares) -> dict[str, Subscriber]:
    return {name: one._replace(had=shares.get(name, frozenset())) for name, one in before.items()}


def numbers(shares: Shares, topic: bytes = A) -> dict[str, list[int]]:
    return {
        name: sorted(number for known, number in share if known == topic)
        for name, share in shares.items()
    }


subscribers = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5", "m6"]),
    st.builds(
        Subscriber,
        st.frozensets(st.sampled_from(TOPICS), max_size=3),
        st.frozensets(st.tuples(st.sampled_from(TOPICS), st.integers(0, 12)), max_size=12),
    ),
    max_size=6,
)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), max_size=3)


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(subscribers, counts)
@settings(max_examples=100, deadline=None)
def test_every_partition_has_one_owner_who_subscribes_to_it(
    assign: Assignor, people: dict[str, Subscriber], topics: dict[bytes, int]
) -> None:
    shares = assign(people, topics)
    assert shares.keys() == people.keys()
    owned = sorted(spot for share in shares.values() for spot in share)
    assert owned == sorted(
        (topic, number)
        for topic, count in topics.items()
        if any(topic in one.topics for one in people.values())
        for number in range(count)
    )
    for name, share in shares.items():
        assert {topic for topic, _ in share} <= people[name].topics


# Uniform


@given(subscribers, counts, st.frozensets(st.sampled_from(TOPICS), min_size=1))
@settings(max_examples=100, deadline=None)
def test_uniform_differs_by_one_at_most_and_moves_no_more_than_that_takes(
    people: dict[str, Subscriber], topics: dict[bytes, int], wanted: frozenset[bytes]
) -> None:
    alike = {name: one._replace(topics=wanted) for name, one in people.items()}
    shares = ASSIGNORS["uniform"](alike, topics)
    sizes = [len(share) for share in shares.values()]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert ASSIGNORS["uniform"](again(alike, shares), topics) == shares


@pytest.mark.parametrize("orders_max", [0, 1, 16])
@given(subscribers, counts)
@settings(max_examples=200, deadline=None)
def test_uniform_finds_what_looking_at_everybody_finds_where_subscriptions_differ(
    orders_max: int, people: dict[str, Subscriber], topics: dict[bytes, int]
) -> None:
    assume(len({one.topics.intersection(topics) for one in people.values()}) > 1)
    with patch.object(assign_uniform, "ORDERS_MAX", orders_max):
        assert ASSIGNORS["uniform"](people, topics) == plain_uniform(people, topics)


def test_uniform_takes_from_those_who_have_more_when_somebody_comes() -> None:
    assign = ASSIGNORS["uniform"]
    first = assign(members(m1=[A], m2=[A]), {A: 6})
    people = again(members(m1=[A], m2=[A], m0=[A]), first)
    second = assign(people, {A: 6})
    assert sorted(map(len, second.values())) == [2, 2, 2]
    assert second["m1"] < first["m1"]
    assert second["m2"] < first["m2"]


def test_uniform_moves_nothing_of_those_who_stay_when_somebody_goes() -> None:
    assign = ASSIGNORS["uniform"]
    first = assign(members(m1=[A, B], m2=[A, B], m3=[A, B]), {A: 4, B: 4})
    second = assign(again(members(m1=[A, B], m2=[A, B]), first), {A: 4, B: 4})
    assert all(second[name] > first[name] for name in ("m1", "m2"))
    assert sorted(map(len, second.values())) == [4, 4]


def test_uniform_gives_to_the_least_loaded_where_subscriptions_differ() -> None:
    shares = ASSIGNORS["uniform"](members(m1=[A, B], m2=[B], m3=[A]), {A: 4, B: 2})
    assert sorted(map(len, shares.values())) == [2, 2, 2]


def test_uniform_evens_out_what_was_uneven_where_subscriptions_differ() -> None:
    people = members(m1=[A, B], m2=[A])
    people["m1"] = people["m1"]._replace(had=frozenset((A, number) for number in range(6)))
    shares = ASSIGNORS["uniform"](people, {A: 6, B: 2})
    assert sorted(map(len, shares.values())) == [4, 4]


# Range


def test_range_gives_runs_and_one_more_to_the_first() -> None:
    shares = ASSIGNORS["range"](members(m1=[A], m2=[A], m3=[A]), {A: 7})
    assert numbers(shares) == {"m1": [0, 1, 2], "m2": [3, 4], "m3": [5, 6]}


def test_range_brings_partitions_of_the_same_number_together() -> None:
    shares = ASSIGNORS["range"](members(m2=[A, B], m1=[A, B]), {A: 4, B: 4})
    assert numbers(shares, A) == numbers(shares, B) == {"m1": [0, 1], "m2": [2, 3]}


def test_range_keeps_the_place_of_a_static_member_that_comes_back() -> None:
    first = ASSIGNORS["range"](
        {"m1": Subscriber(frozenset([A])), "m2": Subscriber(frozenset([A]), instance_id="a")},
        {A: 2},
    )
    second = ASSIGNORS["range"](
        {"m1": Subscriber(frozenset([A])), "m0": Subscriber(frozenset([A]), instance_id="a")},
        {A: 2},
    )
    assert first["m2"] == second["m0"]
    assert first["m1"] == second["m1"]


def test_range_leaves_some_without_where_there_are_too_few() -> None:
    shares = ASSIGNORS["range"](members(m1=[A], m2=[A], m3=[A]), {A: 2})
    assert numbers(shares) == {"m1": [0], "m2": [1], "m3": []}
