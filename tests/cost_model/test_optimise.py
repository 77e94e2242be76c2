"""The optimiser: never breaks a limit, never loses to what was there."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_model import Scenario, from_dict, load
from cost_model.derive import derive
from cost_model.limits import Limits, broken, figures
from cost_model.optimise import optimise
from cost_model.policy import lifecycle, node_settings, topic_settings
from cost_model.prices import default_book
from tests.cost_model.strategies import scenarios

EXAMPLES = Path(__file__).parents[2] / "examples" / "cost"
NAMED = ["three-lines", "compliance", "clickstream", "replay-heavy", "many-small-topics"]


@pytest.mark.parametrize("name", NAMED)
def test_it_beats_the_policy_of_a_named_scenario(name: str) -> None:
    found = optimise(load(EXAMPLES / f"{name}.yaml"), limits=Limits(first_byte=1.0))
    assert found.bill is not None
    assert found.bill.total < found.before.total


LIMITS = st.builds(
    Limits,
    first_byte=st.sampled_from([None, 0.05, 0.3, 1.0, 50_000.0]),
    restore=st.sampled_from([None, 60.0, 3600.0, 1e6]),
    erasure=st.sampled_from([None, 3600.0, 30 * 86_400.0]),
    lag=st.sampled_from([60.0, 600.0, 86_400.0]),
)


def check_the_optimum(scenario: Scenario, limits: Limits) -> None:
    found = optimise(scenario, limits=limits)
    if found.scenario is None or found.bill is None:
        assert found.broken_before or not scenario.tiering.enabled
        return
    assert broken(figures(derive(found.scenario, default_book()), limits), limits) == []
    if not found.broken_before and scenario.tiering.enabled:
        assert found.bill.total <= found.before.total


@settings(max_examples=8, deadline=None)
@given(scenarios(), LIMITS)
def test_it_never_breaks_a_limit_and_never_costs_more(scenario: Scenario, limits: Limits) -> None:
    check_the_optimum(scenario, limits)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(scenarios(), LIMITS)
def test_it_keeps_limits_and_price_in_a_long_search(scenario: Scenario, limits: Limits) -> None:
    check_the_optimum(scenario, limits)


def test_five_years_within_100_ms_are_possible_only_in_express() -> None:
    made = from_dict({"workload": {"write": "10 MB/s", "retention": "5 years"}})
    found = optimise(made, limits=Limits(first_byte=0.1))
    assert found.scenario is not None
    assert [stage.storage_class for stage in found.scenario.tiering.classes] == ["EXPRESS_ONE_ZONE"]
    assert any(each.startswith("STANDARD:") for each in found.refused)
    assert found.broken_before
    without = optimise(made, limits=Limits(first_byte=0.1, express=False))
    assert without.scenario is None
    assert without.bill is None


def test_archives_are_out_under_any_limit_in_milliseconds_and_in_without_one() -> None:
    made = from_dict({"workload": {"write": "10 MB/s", "retention": "7 years"}})
    limited = optimise(made, limits=Limits(first_byte=1.0))
    assert limited.scenario is not None
    names = {stage.storage_class for stage in limited.scenario.tiering.classes}
    assert not names & {"GLACIER_FLEXIBLE", "DEEP_ARCHIVE"}
    free = optimise(made)
    assert free.scenario is not None
    assert "DEEP_ARCHIVE" in {stage.storage_class for stage in free.scenario.tiering.classes}


@pytest.mark.parametrize(("repeat", "least", "most"), [(0.0, 0, 0), (0.9, 500e9, 1000e9)])
def test_a_cache_is_bought_only_where_it_pays(repeat: float, least: float, most: float) -> None:
    made = from_dict(
        {
            "workload": {"write": "50 MB/s", "retention": "5 years"},
            "parquet": {"enabled": False},
            "cluster": {"brokers": 8},
            "reads": {
                "replay": "500 TB",
                "replay_from": "segments",
                "hot_set": "500 GB",
                "repeat": repeat,
            },
        }
    )
    found = optimise(made, limits=Limits(first_byte=1.0))
    assert found.scenario is not None
    assert least <= found.scenario.reads.cache * 8 <= most


def test_a_limit_on_the_first_byte_asks_for_small_chunks() -> None:
    made = from_dict({"reads": {"replay": "10 TB"}})
    tight = optimise(made, limits=Limits(first_byte=0.24, express=False))
    loose = optimise(made, limits=Limits(first_byte=1.0, express=False))
    assert tight.scenario is not None
    assert loose.scenario is not None
    assert tight.scenario.reads.chunk < loose.scenario.reads.chunk


def test_a_replay_that_must_be_fast_asks_for_chunks_that_a_prefix_can_serve() -> None:
    made = from_dict({"reads": {"chunk": "64 KiB"}})
    limits = Limits(replay_rate=1e9)
    found = optimise(made, limits=limits)
    assert any("GET/s" in each for each in found.broken_before)
    assert found.scenario is not None
    assert 1e9 / found.scenario.reads.chunk <= 5500


def test_the_answer_comes_as_settings_and_lifecycle_rules() -> None:
    found = optimise(load(EXAMPLES / "compliance.yaml"), limits=Limits(first_byte=1.0))
    assert found.scenario is not None
    settings_ = topic_settings(found.scenario)
    assert settings_["retention.ms"] == str(7 * 365 * 86_400_000)
    assert int(settings_["local.retention.ms"]) >= 600_000
    assert int(settings_["segment.bytes"]) <= 2**30
    assert node_settings(found.scenario)["tierlog.cache.bytes"].isdigit()
    (rule,) = lifecycle(found.scenario, prefix="prod/")["Rules"]
    assert rule["Filter"] == {"Prefix": "prod/"}
    # Written once and never moved is the cheapest; the rule has to say so all the same.
    assert rule["Transitions"] == [{"Days": 0, "StorageClass": "GLACIER_IR"}]
    assert "Expiration" not in rule


def test_it_answers_within_ten_seconds() -> None:
    started = time.process_time()
    optimise(load(EXAMPLES / "compliance.yaml"))
    assert time.process_time() - started < 10
