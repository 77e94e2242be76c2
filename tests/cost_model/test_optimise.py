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
from cost_model.units import GIB
from infra.minio.lifecycle import losing_rules
from tests.cost_model.strategies import scenarios

EXAMPLES = Path(__file__).parents[2] / "examples" / "cost"
NAMED = ["three-lines", "compliance", "clickstream", "replay-heavy", "many-small-topics"]


@pytest.mark.parametrize("name", NAMED)
def test_it_never_loses_to_the_policy_of_a_named_scenario(name: str) -> None:
    found = optimise(load(EXAMPLES / f"{name}.yaml"))
    assert found.bill is not None
    assert found.broken_before == []
    assert found.bill.total <= found.before.total


@pytest.mark.parametrize("name", ["three-lines", "compliance", "replay-heavy"])
def test_it_beats_the_policy_of_a_scenario_that_leaves_something_to_save(name: str) -> None:
    """The others lie in STANDARD for less than it takes to move them, and run no cache that
    costs more than the default."""
    found = optimise(load(EXAMPLES / f"{name}.yaml"))
    assert found.bill is not None
    assert found.bill.total < found.before.total


@pytest.mark.parametrize("name", NAMED)
def test_what_it_says_can_be_applied(name: str) -> None:
    found = optimise(load(EXAMPLES / f"{name}.yaml"))
    assert found.scenario is not None
    for prefix in ("", "prod/"):
        rules = lifecycle(found.scenario, prefix=prefix)["Rules"]
        assert losing_rules(rules, "prod/") == []
    assert found.warnings == []
    assert found.scenario.reads.chunk == load(EXAMPLES / f"{name}.yaml").reads.chunk


def test_a_policy_that_saves_nothing_is_no_change() -> None:
    made = load(EXAMPLES / "many-small-topics.yaml")
    found = optimise(made)
    assert found.scenario is not None
    if found.bill is not None and found.bill.total == found.before.total:
        assert found.scenario == made


LIMITS = st.builds(
    Limits,
    first_byte=st.sampled_from([None, 0.05, 0.3, 1.0, 50_000.0]),
    restore=st.sampled_from([None, 60.0, 3600.0, 1e6]),
    erasure=st.sampled_from([None, 3600.0, 30 * 86_400.0]),
    lag=st.sampled_from([60.0, 600.0, 86_400.0]),
    archives=st.booleans(),
)


def check_the_optimum(scenario: Scenario, limits: Limits) -> None:
    found = optimise(scenario, limits=limits)
    if found.scenario is None or found.bill is None:
        assert found.broken_before or not scenario.tiering.enabled
        return
    assert broken(figures(derive(found.scenario, default_book()), limits), limits) == []
    if not found.broken_before and scenario.tiering.enabled:
        assert found.bill.total <= found.before.total
    rules = lifecycle(found.scenario)["Rules"]
    assert limits.archives or losing_rules(rules, "") == []


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


def test_archives_are_out_unless_they_are_asked_for() -> None:
    made = from_dict({"workload": {"write": "10 MB/s", "retention": "7 years"}})
    archives = {"GLACIER_FLEXIBLE", "DEEP_ARCHIVE"}
    for limits in (None, Limits(first_byte=None), Limits(first_byte=50_000.0)):
        limited = optimise(made, limits=limits)
        assert limited.scenario is not None
        assert not archives & {stage.storage_class for stage in limited.scenario.tiering.classes}
        assert limited.warnings == []
        assert any("DEEP_ARCHIVE: tierlog cannot read it" in each for each in limited.refused)
    free = optimise(made, limits=Limits(first_byte=None, archives=True))
    assert free.scenario is not None
    assert "DEEP_ARCHIVE" in {stage.storage_class for stage in free.scenario.tiering.classes}
    assert any("never asks for a restore" in each for each in free.warnings)
    assert losing_rules(lifecycle(free.scenario)["Rules"], "")


def test_classes_that_no_rule_leads_to_are_a_broken_limit_and_not_the_answer() -> None:
    for classes in ("STANDARD_IA", "DEEP_ARCHIVE"):
        made = from_dict({"workload": {"retention": "1 year"}, "tiering": {"classes": classes}})
        found = optimise(made)
        assert any(classes in each for each in found.broken_before)
        assert found.scenario is not None
        assert found.scenario.tiering.classes[0].storage_class == "STANDARD"


@pytest.mark.parametrize(
    ("repeat", "least", "most"), [(0.0, 80 * GIB, 80 * GIB), (0.9, 500e9, 1000e9)]
)
def test_a_cache_is_bought_where_repeats_pay_and_left_alone_where_none_are_stated(
    repeat: float, least: float, most: float
) -> None:
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


def test_a_limit_that_only_other_chunks_would_keep_is_not_kept_by_what_cannot_be_set() -> None:
    made = from_dict({"reads": {"chunk": "64 KiB"}})
    found = optimise(made, limits=Limits(replay_rate=1e9))
    assert any("GET/s" in each for each in found.broken_before)
    assert found.scenario is None
    assert optimise(from_dict({}), limits=Limits(replay_rate=1e9)).scenario is not None


def test_the_first_byte_waits_for_a_mebibyte_and_not_for_its_chunk() -> None:
    assert optimise(from_dict({}), limits=Limits(first_byte=0.22, express=False)).scenario
    assert not optimise(from_dict({}), limits=Limits(first_byte=0.21, express=False)).scenario


def test_the_answer_comes_as_settings_and_lifecycle_rules() -> None:
    found = optimise(load(EXAMPLES / "compliance.yaml"), limits=Limits(first_byte=1.0))
    assert found.scenario is not None
    settings_ = topic_settings(found.scenario)
    assert settings_["retention.ms"] == str(7 * 365 * 86_400_000)
    assert int(settings_["local.retention.ms"]) >= 600_000
    assert int(settings_["segment.bytes"]) <= 2**30
    assert node_settings(found.scenario)["tierlog.cache.bytes"].isdigit()
    clear, move = lifecycle(found.scenario, prefix="prod/")["Rules"]
    assert clear["Filter"] == {"Prefix": "prod/"}
    assert move["Filter"] == {"And": {"Prefix": "prod/", "ObjectSizeGreaterThan": 131_071}}
    assert move["Transitions"] == [{"Days": 1, "StorageClass": "GLACIER_IR"}]
    assert not any("Expiration" in rule for rule in (clear, move))


def test_it_answers_within_ten_seconds() -> None:
    started = time.process_time()
    optimise(load(EXAMPLES / "compliance.yaml"))
    assert time.process_time() - started < 10
