"""Scenarios: read with clear errors, written without loss."""

import json
import re
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_model import InvalidScenario, Scenario, from_dict, load, plan, scenario
from cost_model.read import (
    as_dict,
    get_input,
    inputs,
    parse,
    parse_input,
    with_input,
)
from cost_model.scenario import SECTIONS, Cluster, Workload
from tests.cost_model.strategies import scenarios

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "cost").glob("*.yaml"))


def test_three_lines_are_a_scenario() -> None:
    made = parse("workload:\n  write: 30 MB/s\n  retention: 7 d\n")
    assert made.workload == Workload(write=30e6, retention=7 * 86_400)
    assert made.cluster == Cluster()


def test_nothing_at_all_is_the_default_scenario() -> None:
    assert parse("") == Scenario()


@pytest.mark.parametrize(
    ("given_", "field", "says"),
    [
        ({"name": ["a"]}, "name", "is not a name"),
        ({"name": {"a": 1}}, "name", "is not a name"),
        ({"name": None}, "name", "is not a name"),
        ({"worklod": {}}, "worklod", "did you mean workload?"),
        ({"workload": {"wrte": "1 MB/s"}}, "workload.wrte", "did you mean write?"),
        ({"workload": {"write": 30}}, "workload.write", "has no unit"),
        ({"workload": {"write": "-30 MB/s"}}, "workload.write", "-30 MB/s is out of bounds"),
        ({"prices": {"kms.key": -1}}, "prices.kms.key", "at least 0 and finite"),
        ({"prices": {"kms.key": float("nan")}}, "prices.kms.key", "at least 0 and finite"),
        (
            {"uncertainty": {"workload.write": {"low": "-3 MB/s", "high": "1 MB/s"}}},
            "uncertainty.workload.write.low",
            "at least 0.001 B/s",
        ),
        (
            {"uncertainty": {"prices.kms.key": {"low": -1, "high": 1}}},
            "uncertainty.prices.kms.key.low",
            "at least 0 and finite",
        ),
        (
            {"uncertainty": {"cluster.disk_free": {"low": 0.5, "high": 1.5}}},
            "uncertainty.cluster.disk_free.high",
            "at most 0.95",
        ),
        ({"workload": {"write": "0 MB/s"}}, "workload.write", "at least 0.001 B/s"),
        ({"workload": {"write": ".nan"}}, "workload.write", "not a number with a unit"),
        ({"workload": {"peak": float("nan")}}, "workload.peak", "out of bounds"),
        ({"workload": {"peak": float("inf")}}, "workload.peak", "out of bounds"),
        ({"workload": {"groups": True}}, "workload.groups", "is not a number"),
        ({"workload": {"partitions": 1.5}}, "workload.partitions", "not a whole number"),
        ({"workload": {"retention": "1 month"}}, "workload.retention", "months differ"),
        ({"workload": "much"}, "workload", "not a set of key: value"),
        ({"cluster": {"instance": "m7g.xlrge"}}, "cluster.instance", "did you mean m7g.xlarge?"),
        ({"cluster": {"instance": "m7g.xlrge"}}, "cluster.instance", "r7g.large, r7g.xlarge"),
        ({"cluster": {"disk": "gp4"}}, "cluster.disk", "did you mean gp"),
        ({"cluster": {"disk_free": 1}}, "cluster.disk_free", "at most 0.95"),
        ({"cluster": {"replicas": 0}}, "cluster.replicas", "at least 1"),
        ({"cluster": {"brokers": 2}}, "cluster.brokers", "fewer brokers than replicas"),
        ({"tiering": {"classes": "STANDRD"}}, "tiering.classes[0].class", "did you mean STANDARD?"),
        ({"tiering": {"classes": 3}}, "tiering.classes", "a list of"),
        (
            {"tiering": {"classes": [{"class": "STANDARD", "after": "1 d"}]}},
            "tiering.classes",
            "age 0",
        ),
        (
            {"tiering": {"classes": [{"class": "STANDARD"}, {"class": "GLACIER_IR"}]}},
            "tiering.classes",
            "must start after",
        ),
        ({"tiering": {"classes": [{"clas": "STANDARD"}]}}, "tiering.classes[0].clas", "class"),
        ({"tiering": {"enabled": "yes"}}, "tiering.enabled", "neither true nor false"),
        ({"tiering": {"local_retention": "8 d"}}, "tiering.local_retention", "retention"),
        (
            {"reads": {"replay_from": "parquet"}, "parquet": {"enabled": False}},
            "reads.replay_from",
            "parquet needs parquet.enabled",
        ),
        (
            {"reads": {"replay_from": "segments"}, "tiering": {"enabled": False}},
            "reads.replay_from",
            "segments needs tiering.enabled",
        ),
        ({"billing": {"region": "eu-west-1"}}, "billing.region", "is for us-east-1"),
        ({"billing": {"gb": "gigabyte"}}, "billing.gb", "known are binary, decimal"),
        ({"prices": {"disk.gp3.storag": 1}}, "prices.disk.gp3.storag", "did you mean"),
        ({"prices": {"disk.gp3.storage": -1}}, "prices.disk.gp3.storage", "not a price"),
        ({"prices": {"disk.gp3.storage": "1"}}, "prices.disk.gp3.storage", "not a price"),
        ({"uncertainty": {"workload.writ": {}}}, "uncertainty.workload.writ", "low and high"),
        (
            {"uncertainty": {"workload.writ": {"low": "1 MB/s", "high": "2 MB/s"}}},
            "workload.writ",
            "did you mean write?",
        ),
        (
            {"uncertainty": {"cluster.disk": {"low": "gp2", "high": "gp3"}}},
            "cluster.disk",
            "has no range",
        ),
        (
            {"uncertainty": {"workload.peak": {"low": 3, "high": 2}}},
            "uncertainty.workload.peak",
            "does not hold",
        ),
        (
            {"uncertainty": {"workload.peak": {"low": 1, "high": 2, "shape": "normal"}}},
            "uncertainty.workload.peak.shape",
            "lognormal",
        ),
    ],
)
def test_a_wrong_input_is_named_with_what_would_be_right(
    given_: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(InvalidScenario) as caught:
        from_dict(given_)
    assert caught.value.field == field
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"\xff\xfe", "not text in UTF-8"), (b"[1, 2]", "not a set of key: value")],
)
def test_a_file_that_is_no_scenario_is_told(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidScenario, match=says):
        load(path)


def test_text_that_is_not_yaml_names_the_line() -> None:
    with pytest.raises(InvalidScenario, match="not YAML in line 2"):
        parse("a: 1\nb: ]\n")


@settings(max_examples=40, deadline=None)
@given(scenarios())
def test_a_scenario_round_trips_through_json_and_yaml(made: Scenario) -> None:
    assert from_dict(json.loads(json.dumps(as_dict(made)))) == made
    assert parse(yaml.safe_dump(as_dict(made))) == made


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_round_trips(path: Path) -> None:
    made = load(path)
    assert made.name == path.stem
    assert from_dict(as_dict(made)) == made


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


def test_keyword_arguments_make_a_scenario_too() -> None:
    made = scenario(workload={"write": "1 GB/d"}, cluster={"replicas": 2})
    assert (made.workload.write, made.cluster.replicas) == (1e9 / 86_400, 2)
    with pytest.raises(InvalidScenario, match=r"workload\.write"):
        Workload(write=-1.0)


@pytest.mark.parametrize("path", inputs())
def test_every_numeric_input_can_be_read_and_set_by_its_path(path: str) -> None:
    value = get_input(Scenario(), path)
    if value is not None:
        assert with_input(Scenario(), path, value) == Scenario()


def test_inputs_are_set_as_the_command_line_writes_them() -> None:
    assert parse_input("workload.write", "30MB/s") == 30e6
    assert parse_input("workload.partitions", "12") == 12
    assert parse_input("prices.kms.key", "2.5") == 2.5
    assert parse_input("tiering.classes", "GLACIER_IR")[0].storage_class == "GLACIER_IR"
    with pytest.raises(InvalidScenario, match="unknown input"):
        parse_input("work.write", "1")


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("billing.region", "mars", "the price book is for us-east-1"),
        ("cluster.instance", "abacus", "has no price; known are"),
        ("cluster.disk", "floppy", "known are gp2, gp3"),
        ("workload.groups", float("nan"), "out of bounds; at least 0"),
        ("workload.retention", -3600.0, "-1 h is out of bounds; at least"),
        ("prices.kms.key", -1.0, "at least 0 and finite"),
    ],
)
def test_what_a_file_may_not_say_cannot_be_set_either(path: str, value: Any, says: str) -> None:
    with pytest.raises(InvalidScenario, match=re.escape(says)) as told:
        with_input(Scenario(), path, value)
    assert told.value.field == path


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["1 MB/s", "7 d", "1 GiB", "-1 d", "0 B", "1e400 MB", "gp3", "STANDARD"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(
        st.sampled_from(["class", "after", "low", "high", "x"]), st.integers(), max_size=2
    ),
)
KEYS = [(name, each.name) for name, kind in SECTIONS.items() for each in fields(kind)]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), JUNK), min_size=1, max_size=3))
def test_junk_is_refused_or_has_a_bill(
    changes: list[tuple[tuple[str, str], Any]],
) -> None:
    given_: dict[str, Any] = {}
    for (section, name), value in changes:
        given_.setdefault(section, {})[name] = value
    with suppress(InvalidScenario):
        assert plan(from_dict(given_)).total >= 0


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["prices", "uncertainty", "workload", "name", "x"]), JUNK)
def test_junk_at_the_top_is_refused_or_has_a_bill(key: str, value: Any) -> None:
    with suppress(InvalidScenario):
        assert plan(from_dict({key: value})).total > 0
