"""`tierlog topic ...` against a broker that keeps what it is told."""

import json

import pytest

from tests.cli.conftest import Cli


def test_topics_are_created_listed_and_deleted(cli: Cli) -> None:
    assert cli("topic", "create", "b", "a", "-p", "3").lines == [
        "created b with 3 partitions",
        "created a with 3 partitions",
    ]
    assert cli("topic", "list").lines == [
        "topic  partitions  replicas",
        "a               3         1",
        "b               3         1",
    ]
    assert cli("topic", "delete", "a", "b").lines == ["deleted a", "deleted b"]
    empty = cli("topic", "list")
    assert (empty.code, empty.out) == (0, "")
    assert empty.err == "there are no topics; `tierlog topic create NAME` makes one\n"


def test_a_topic_that_is_there_is_a_failure_unless_that_is_fine(cli: Cli) -> None:
    cli("topic", "create", "a")
    again = cli("topic", "create", "a")
    assert (again.code, again.err) == (1, "tierlog: there is a topic a already\n")
    assert cli("topic", "create", "a", "--if-not-exists").code == 0


def test_a_dry_run_creates_nothing(cli: Cli) -> None:
    assert cli("topic", "create", "a", "--dry-run").lines == ["could create a with 1 partition"]
    assert json.loads(cli("topic", "list", "--json").out) == []


def test_a_topic_is_described_with_its_offsets_and_settings(cli: Cli) -> None:
    cli("topic", "create", "a", "-p", "2")
    cli("produce", "a", "-p", "1", stdin=b"x\ny\n")
    lines = cli("topic", "describe", "a", "--all").lines
    assert lines[:5] == [
        "a: 2 partitions",
        "partition  leader  replicas  in sync  start  end  offsets",
        "        0       1  1         1            0    0        0",
        "        1       1  1         1            0    2        2",
        "",
    ]
    assert "retention.ms    604800000   default" in lines
    assert cli("topic", "describe", "a").lines[-1] == (
        "every setting has its default; --all shows them"
    )


def test_a_description_in_json_has_the_same(cli: Cli) -> None:
    cli("topic", "create", "a")
    described = json.loads(cli("topic", "describe", "a", "--all", "--json").out)
    assert described["topic"] == "a"
    assert described["partitions"][0]["end"] == 0
    names = {each["setting"] for each in described["settings"]}
    assert names == {"cleanup.policy", "retention.ms", "segment.bytes"}


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "describe", "ordres"),
        ("topic", "alter", "ordres", "--set", "a=b"),
        ("topic", "delete", "ordres"),
        ("produce", "ordres"),
        ("consume", "ordres"),
    ],
)
def test_an_unknown_topic_names_the_nearest_one(cli: Cli, command: tuple[str, ...]) -> None:
    cli("topic", "create", "orders")
    outcome = cli(*command)
    assert outcome.code == 1
    assert outcome.err == "tierlog: there is no topic ordres; did you mean orders?\n"


def test_an_unknown_topic_with_nothing_near_names_the_way_to_make_it(cli: Cli) -> None:
    outcome = cli("consume", "orders")
    assert "there is no topic orders; `tierlog topic create orders` makes one" in outcome.err


def test_settings_are_altered_and_partitions_added(cli: Cli) -> None:
    cli("topic", "create", "a")
    outcome = cli("topic", "alter", "a", "--set", "retention.ms=1=2", "--delete", "x", "-p", "2")
    assert outcome.lines == ["altered a"]
    assert json.loads(cli("topic", "list", "--json").out)[0]["partitions"] == 2


def test_nothing_to_alter_is_a_usage_error(cli: Cli) -> None:
    outcome = cli("topic", "alter", "a")
    assert outcome.code == 2
    assert "nothing to alter; use --set" in outcome.err


@pytest.mark.parametrize("given", ["retention.ms", "=1", "="])
def test_a_setting_is_a_key_and_a_value(cli: Cli, given: str) -> None:
    outcome = cli("topic", "create", "a", "-c", given)
    assert outcome.code == 2
    assert outcome.err == f"tierlog: --config {given} is not of the form key=value\n"


def test_a_value_may_be_empty(cli: Cli) -> None:
    assert cli("topic", "create", "a", "-c", "cleanup.policy=").code == 0


def test_json_reports_what_was_done(cli: Cli) -> None:
    assert json.loads(cli("topic", "create", "a", "--json").out) == {
        "topic": "a",
        "created": True,
        "partitions": 1,
    }
    assert json.loads(cli("topic", "delete", "a", "--json").out) == {"topic": "a", "deleted": True}
