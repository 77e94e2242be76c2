"""What holds for a topic: defaults, implications, combinations and changes."""

import pytest

from tierlog.config import Change, InvalidConfig, NodeSettings, altered, check_change, topic_config
from tierlog.config.rules import Operation

NODE = NodeSettings()


def refused(overrides: dict[str, str], node: NodeSettings = NODE) -> InvalidConfig:
    with pytest.raises(InvalidConfig) as error:
        topic_config(overrides, node)
    return error.value


def test_a_topic_says_its_own_else_what_the_node_says() -> None:
    node = NodeSettings(log_segment_bytes=4096, log_roll_ms=5000)
    config = topic_config({"segment.bytes": "8192"}, node)
    assert (config.segment_bytes, config.segment_ms) == (8192, 5000)


def test_an_unknown_topic_setting_names_the_nearest_known_one() -> None:
    error = refused({"retention.sm": "1"})
    assert error.sentence == "unknown topic setting retention.sm; did you mean retention.ms?"
    assert refused({"wholly.else": "1"}).sentence == "unknown topic setting wholly.else"


def test_a_nodes_name_on_a_topic_gets_a_hint() -> None:
    assert "a topic's own is segment.bytes" in refused({"log.segment.bytes": "1"}).sentence
    assert "a setting of the node" in refused({"num.partitions": "1"}).sentence


def test_compaction_turns_tiering_and_the_table_off() -> None:
    config = topic_config({"cleanup.policy": "compact"}, NODE)
    assert not config.remote_storage_enable
    assert not config.tierlog_table_enable
    assert not topic_config({"cleanup.policy": "compact,delete"}, NODE).remote_storage_enable


def test_compaction_by_the_nodes_default_turns_tiering_off_too() -> None:
    node = NodeSettings(log_cleanup_policy=frozenset({"compact"}))
    assert not topic_config({}, node).remote_storage_enable


@pytest.mark.parametrize("name", ["remote.storage.enable", "tierlog.table.enable"])
def test_asking_for_compaction_and_tiering_is_refused(name: str) -> None:
    error = refused({"cleanup.policy": "compact", name: "true"})
    assert error.name == name
    assert error.sentence == (
        f"cleanup.policy with compact needs {name}=false, and this asks for true"
    )


def test_a_table_of_an_untiered_topic_is_refused() -> None:
    assert not topic_config({"remote.storage.enable": "false"}, NODE).tierlog_table_enable
    refused({"remote.storage.enable": "false", "tierlog.table.enable": "true"})


def test_a_node_without_tiering_has_untiered_topics_and_refuses_others() -> None:
    node = NodeSettings(remote_log_storage_system_enable=False)
    assert not topic_config({}, node).remote_storage_enable
    error = refused({"remote.storage.enable": "true"}, node)
    assert "remote.log.storage.system.enable=true" in error.sentence


@pytest.mark.parametrize("unit", ["ms", "bytes"])
@pytest.mark.parametrize(("local", "whole"), [("1001", "1000"), ("-1", "1000")])
def test_local_retention_beyond_retention_is_refused(unit: str, local: str, whole: str) -> None:
    error = refused({f"local.retention.{unit}": local, f"retention.{unit}": whole})
    assert error.sentence == (
        f"local.retention.{unit} is {local}; it must be at most retention.{unit} ({whole})"
    )


def test_local_retention_within_retention_is_kept() -> None:
    config = topic_config({"local.retention.ms": "1000", "retention.ms": "1000"}, NODE)
    assert config.local_retention_ms == 1000
    assert topic_config({"retention.ms": "-1"}, NODE).local_retention_ms == 600_000


def test_a_default_of_local_retention_is_cut_to_a_short_retention() -> None:
    config = topic_config({"retention.ms": "1000", "retention.bytes": "2000"}, NODE)
    assert (config.local_retention_ms, config.local_retention_bytes) == (1000, 2000)


def test_local_retention_of_minus_two_is_that_of_both_tiers() -> None:
    config = topic_config({"local.retention.ms": "-2", "local.retention.bytes": "-2"}, NODE)
    assert (config.local_retention_ms, config.local_retention_bytes) == (7 * 86_400_000, -1)


def test_without_tiering_local_retention_is_retention() -> None:
    config = topic_config({"remote.storage.enable": "false", "local.retention.ms": "-1"}, NODE)
    assert config.local_retention_ms == config.retention_ms == 7 * 86_400_000


def test_compaction_lags_must_not_cross() -> None:
    error = refused({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})
    assert error.name == "min.compaction.lag.ms"


def test_compliance_implies_fsync_broker_time_and_tiering_whatever_the_node_says() -> None:
    node = NodeSettings(log_flush_interval_messages=1000, unclean_leader_election_enable=True)
    config = topic_config({"tierlog.compliance": "true"}, node)
    assert config.flush_messages == 1
    assert config.message_timestamp_type == "LogAppendTime"
    assert not config.unclean_leader_election_enable
    assert config.remote_storage_enable


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush.messages", "2"),
        ("message.timestamp.type", "CreateTime"),
        ("unclean.leader.election.enable", "true"),
        ("remote.storage.enable", "false"),
        ("cleanup.policy", "compact"),
    ],
)
def test_compliance_refuses_the_opposite(name: str, value: str) -> None:
    error = refused({"tierlog.compliance": "true", name: value})
    assert error.name == name
    assert "tierlog.compliance=true" in error.sentence


@pytest.mark.parametrize(
    "wish", [{"remote.storage.enable": "false"}, {"cleanup.policy": "compact"}]
)
def test_tiering_of_a_living_topic_cannot_be_turned_off(wish: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match="cannot be turned off") as refused:
        check_change(topic_config({}, NODE), topic_config(wish, NODE))
    assert "create another topic with remote.storage.enable=false" in refused.value.sentence
    assert "object store" not in refused.value.sentence, "nothing is there yet"


def test_tiering_of_a_living_topic_can_be_turned_on() -> None:
    before = topic_config({"remote.storage.enable": "false"}, NODE)
    check_change(before, topic_config({}, NODE))


@pytest.mark.parametrize(("new", "allowed"), [("2000", True), ("-1", True), ("999", False)])
def test_retention_of_a_compliance_topic_grows_only(new: str, allowed: bool) -> None:
    strict = {"tierlog.compliance": "true", "retention.ms": "1000"}
    before, after = (topic_config({**strict, "retention.ms": each}, NODE) for each in ("1000", new))
    if allowed:
        check_change(before, after)
        return
    with pytest.raises(InvalidConfig, match="may grow and never shrink: 1000 to 999"):
        check_change(before, after)


def test_retention_without_end_of_a_compliance_topic_gets_no_end() -> None:
    before = topic_config({"tierlog.compliance": "true", "retention.ms": "-1"}, NODE)
    with pytest.raises(InvalidConfig, match="never shrink"):
        check_change(before, topic_config({"tierlog.compliance": "true"}, NODE))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"local.retention.ms": "0"}, "local.retention.ms"),
        ({"local.retention.ms": "599999"}, "local.retention.ms"),
        ({"local.retention.ms": "4000", "retention.ms": "5000"}, "local.retention.ms"),
        ({"local.retention.bytes": "0"}, "local.retention.bytes"),
        ({"local.retention.bytes": "7", "retention.bytes": "8"}, "local.retention.bytes"),
    ],
)
def test_a_compliance_topic_keeps_the_window_in_which_the_store_is_repaired(
    settings: dict[str, str], name: str
) -> None:
    error = refused({"tierlog.compliance": "true", **settings})
    assert error.name == name
    assert "tierlog.compliance=true needs" in error.sentence
    assert "repaired from the disk" in error.sentence
    topic_config(settings, NODE)  # Others may.


@pytest.mark.parametrize(
    "settings",
    [
        {"local.retention.ms": "600000"},
        {"local.retention.ms": "-1", "retention.ms": "-1"},
        {"local.retention.ms": "-2", "retention.ms": "5000"},
        {"local.retention.ms": "5000", "retention.ms": "5000"},
        {"local.retention.bytes": "-2", "retention.bytes": "8"},
        {"retention.ms": "5000", "retention.bytes": "8"},
    ],
)
def test_a_compliance_topic_may_keep_more_and_what_expires_anyway(settings: dict[str, str]) -> None:
    topic_config({"tierlog.compliance": "true", **settings}, NODE)


def test_a_nodes_default_does_not_shorten_a_compliance_topics_window() -> None:
    node = NodeSettings(log_local_retention_ms=0, log_local_retention_bytes=1)
    config = topic_config({"tierlog.compliance": "true"}, node)
    assert (config.local_retention_ms, config.local_retention_bytes) == (600_000, -1)


def test_compliance_is_for_ever() -> None:
    with pytest.raises(InvalidConfig, match="for ever"):
        check_change(topic_config({"tierlog.compliance": "true"}, NODE), topic_config({}, NODE))


def test_set_and_delete_change_overrides_and_leave_the_given_ones_alone() -> None:
    overrides = {"segment.bytes": "4096", "retention.ms": "1"}
    changes = [Change("segment.bytes", "delete"), Change("retention.ms", "set", "2")]
    assert altered(overrides, changes) == {"retention.ms": "2"}
    assert overrides == {"segment.bytes": "4096", "retention.ms": "1"}


def test_deleting_what_was_never_set_is_no_error() -> None:
    assert altered({}, [Change("segment.bytes", "delete")]) == {}


@pytest.mark.parametrize(
    ("present", "op", "value", "result"),
    [
        (None, "append", "compact", "delete,compact"),
        ("compact", "append", "delete", "compact,delete"),
        ("compact", "append", "compact", "compact"),
        ("compact,delete", "subtract", "delete", "compact"),
        ("compact", "subtract", "delete", "compact"),
        (None, "subtract", "delete", ""),
    ],
)
def test_append_and_subtract_edit_a_list(
    present: str | None, op: Operation, value: str, result: str
) -> None:
    overrides = {} if present is None else {"cleanup.policy": present}
    assert altered(overrides, [Change("cleanup.policy", op, value)]) == {"cleanup.policy": result}
    topic_config({"cleanup.policy": result}, NODE)


@pytest.mark.parametrize("op", ["append", "subtract"])
def test_append_and_subtract_are_for_lists_only(op: Operation) -> None:
    with pytest.raises(InvalidConfig, match=r"segment\.bytes is not a list"):
        altered({}, [Change("segment.bytes", op, "1")])


@pytest.mark.parametrize("op", ["set", "append", "subtract"])
def test_a_change_needs_a_value(op: Operation) -> None:
    with pytest.raises(InvalidConfig, match="needs a value"):
        altered({}, [Change("cleanup.policy", op)])


def test_an_unknown_name_cannot_be_changed_nor_one_twice() -> None:
    with pytest.raises(InvalidConfig, match="unknown topic setting"):
        altered({}, [Change("cleanup.polic", "delete")])
    with pytest.raises(InvalidConfig, match="twice"):
        altered({}, [Change("retention.ms", "set", "1"), Change("retention.ms", "delete")])
