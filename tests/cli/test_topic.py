"""`tierlog topic ...` against a broker that keeps what it is told."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.compat import data_answers, recorder
from tests.compat.recorder import Handler, Recorder
from tests.compat.world import World
from tierlog.client import EARLIEST, EARLIEST_LOCAL, LAST_TIERED
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.header import decode_request
from tierlog.wire.messages.create_partitions import CreatePartitionsRequest
from tierlog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tierlog.wire.schema import Response


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


def test_a_description_shows_where_the_offsets_lie(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("topic", "create", "a", "-p", "2")
    cli("produce", "a", "-p", "1", stdin=b"x\ny\nz\n")
    place = data_answers._place

    def tiered(partition: Any, timestamp: int) -> tuple[int, int]:
        in_store = {LAST_TIERED: 1, EARLIEST_LOCAL: 1}
        if partition.end and timestamp in in_store:
            return -1, in_store[timestamp]
        return place(partition, timestamp)

    monkeypatch.setattr(data_answers, "_place", tiered)
    assert cli("topic", "describe", "a").lines[4:8] == [
        "",
        "partition  in the store  on the disk",
        "        0                [0, 0)",
        "        1  [0, 2)        [1, 3)",
    ]
    rows = json.loads(cli("topic", "describe", "a", "--json").out)["partitions"]
    places = [[row[key] for key in ("cold_start", "cold_end", "local_start")] for row in rows]
    assert places == [[None, None, 0], [0, 2, 1]]


def test_a_broker_that_knows_no_tiers_is_described_without_them(cli: Cli, broker: Recorder) -> None:
    cli("topic", "create", "a")
    row = broker._registry._rows[ApiKey.LIST_OFFSETS]
    handler = recorder.HANDLERS[ApiKey.LIST_OFFSETS]

    def answer(world: World, request: Any, version: int) -> Response | None:
        response = handler(world, request, version)
        if request.topics[0].partitions[0].timestamp < EARLIEST:
            response.topics[0].partitions[0].error_code = ErrorCode.UNSUPPORTED_VERSION  # type: ignore[union-attr]  # it is there, or the test fails
        return response

    broker._registry._rows[ApiKey.LIST_OFFSETS] = replace(row, handler=answer)
    (row,) = json.loads(cli("topic", "describe", "a", "--json").out)["partitions"]
    assert (row["end"], row["cold_end"], row["local_start"]) == (0, None, None)
    assert len(cli("topic", "describe", "a").lines) == 5


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


@pytest.mark.parametrize("option", ["--set", "--config", "-c"])
def test_a_setting_has_the_same_option_at_creation_and_later(cli: Cli, option: str) -> None:
    assert cli("topic", "create", "a", option, "retention.ms=1").lines[0].startswith("created a")
    assert cli("topic", "alter", "a", option, "retention.ms=2").lines == ["altered a"]
    assert cli("topic", "alter", "a", option, "x").code == 2


RESULTS = {ApiKey.CREATE_PARTITIONS: "results", ApiKey.INCREMENTAL_ALTER_CONFIGS: "responses"}


def refusal(api: ApiKey, *, when_checked: bool) -> Handler:
    """An answer that refuses, either when asked to check only or when asked to do it."""
    handler = recorder.HANDLERS[api]

    def answer(world: World, request: Any, version: int) -> Response | None:
        response = handler(world, request, version)
        if request.validate_only is when_checked:
            (one,) = getattr(response, RESULTS[api])
            one.error_code, one.error_message = ErrorCode.INVALID_CONFIG, "not so"
        return response

    return answer


def refuse(broker: Recorder, api: ApiKey, *, when_checked: bool) -> None:
    row = broker._registry._rows[api]
    broker._registry._rows[api] = replace(row, handler=refusal(api, when_checked=when_checked))


def altered(broker: Recorder) -> list[tuple[str, bool]]:
    """The requests that change a topic, and whether they only check."""
    requests = [decode_request(each.request)[1] for each in broker.exchanges]
    return [
        (type(each).__name__.removesuffix("Request"), each.validate_only)
        for each in requests
        if isinstance(each, CreatePartitionsRequest | IncrementalAlterConfigsRequest)
    ]


BOTH = ("topic", "alter", "a", "--set", "retention.ms=1", "-p", "2")


def test_refused_settings_leave_the_partitions_alone(cli: Cli, broker: Recorder) -> None:
    cli("topic", "create", "a")
    refuse(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, when_checked=True)
    outcome = cli(*BOTH)
    assert (outcome.code, outcome.err) == (1, "tierlog: topic a was not altered: not so\n")
    assert altered(broker) == [("IncrementalAlterConfigs", True)]


def test_refused_partitions_leave_the_settings_alone(cli: Cli, broker: Recorder) -> None:
    cli("topic", "create", "a")
    refuse(broker, ApiKey.CREATE_PARTITIONS, when_checked=False)
    outcome = cli(*BOTH)
    assert (outcome.code, outcome.err) == (1, "tierlog: topic a was not altered: not so\n")
    assert altered(broker) == [("IncrementalAlterConfigs", True), ("CreatePartitions", False)]


def test_where_only_half_could_be_done_that_half_is_named(cli: Cli, broker: Recorder) -> None:
    cli("topic", "create", "a")
    refuse(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, when_checked=False)
    outcome = cli(*BOTH)
    assert outcome.code == 1
    assert outcome.err == (
        "tierlog: topic a has 2 partitions now, its settings were not altered: not so\n"
    )


@pytest.mark.parametrize("verb", ["delete", "describe"])
def test_who_would_not_fill_a_topic_is_not_told_to_make_it(cli: Cli, verb: str) -> None:
    assert cli("topic", verb, "nope").err == (
        "tierlog: there is no topic nope; `tierlog topic list` shows which there are\n"
    )


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
