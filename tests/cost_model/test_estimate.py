"""Capacity: exact figures beside those of the specification's page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_model import InvalidScenario
from cost_model.estimate import estimate, like_the_page

DAY = 86_400


def test_the_exact_figures_behind_the_first_example() -> None:
    found = estimate(messages_s=5e8 / DAY, message_bytes=1000, groups=3, replicas=3)
    assert found.messages_s == pytest.approx(5787.037)
    assert found.peak_messages_s == pytest.approx(17361.11)
    assert found.write / 2**20 == pytest.approx(5.519, abs=1e-3)
    assert found.retained == pytest.approx(3.5e12)
    assert found.retained / 2**40 == pytest.approx(3.183, abs=1e-3)  # "3.3 TB" mixes units.
    assert found.consume / 2**20 == pytest.approx(16.56, abs=0.01)  # "16.5" is 3 x a rounded 5.5.


def test_the_pages_formula_gives_one_broker_and_three_replicas_need_three() -> None:
    printed = like_the_page(
        messages_day=5e8, message_bytes=1000, groups=3, retention_days=7, replicas=3
    )
    assert printed.brokers_by_formula == 1  # The page shows 2; no reading of its formula does.
    assert estimate(messages_s=5e8 / DAY, message_bytes=1000, replicas=3).brokers == 3


def test_the_second_example_broker_by_broker() -> None:
    found = estimate(messages_s=1e6, message_bytes=1000, groups=100, replicas=3, brokers=30)
    assert found.write_per_broker == pytest.approx(33.33e6, rel=1e-3)
    assert found.consume_per_broker == pytest.approx(3.333e9, rel=1e-3)
    assert found.replicated == pytest.approx(1.8144e15)


@given(st.floats(0, 1e9), st.integers(1, 7), st.none() | st.integers(1, 50))
def test_never_fewer_brokers_than_replicas(rate: float, replicas: int, given_: int | None) -> None:
    found = estimate(messages_s=rate, message_bytes=100, replicas=replicas, brokers=given_)
    assert found.brokers >= replicas


def test_the_broker_rule_does_not_round_up_what_is_whole() -> None:
    assert estimate(messages_s=200e3, message_bytes=1000, replicas=3, peak=3).brokers == 9


def test_figures_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidScenario, match="message_bytes"):
        estimate(messages_s=1, message_bytes=float("nan"))
    with pytest.raises(InvalidScenario, match="replicas"):
        estimate(messages_s=1, message_bytes=1, replicas=0)
