"""What clients are told about settings: value, source, synonyms, type."""

from tierlog.config import (
    ConfigEntry,
    ConfigSource,
    ConfigType,
    NodeSettings,
    Synonym,
    describe_node,
    describe_topic,
)

DEFAULT = ConfigSource.DEFAULT
STATIC = ConfigSource.STATIC_BROKER
TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG


def of_topic(name: str, overrides: dict[str, str], node: NodeSettings) -> ConfigEntry:
    return {each.name: each for each in describe_topic(overrides, node)}[name]


def of_node(name: str, node: NodeSettings) -> ConfigEntry:
    return {each.name: each for each in describe_node(node)}[name]


def test_the_numbers_are_those_of_kafka() -> None:
    assert [int(each) for each in ConfigSource] == [1, 2, 3, 4, 5]
    assert (int(TOPIC), int(STATIC), int(DEFAULT)) == (1, 4, 5)
    assert (int(ConfigType.BOOLEAN), int(ConfigType.LONG), int(ConfigType.LIST)) == (1, 5, 7)


def test_a_setting_that_nobody_set_is_a_default() -> None:
    entry = of_topic("segment.bytes", {}, NodeSettings())
    assert (entry.value, entry.source) == ("134217728", DEFAULT)
    assert entry.type is ConfigType.INT
    assert not entry.is_read_only
    assert not entry.is_sensitive
    assert "sealed" in entry.documentation
    assert entry.synonyms == (Synonym("log.segment.bytes", "134217728", DEFAULT),)


def test_the_nodes_value_shows_as_static_and_the_topics_own_wins_over_it() -> None:
    node = NodeSettings(log_segment_bytes=4096)
    entry = of_topic("segment.bytes", {}, node)
    assert (entry.value, entry.source) == ("4096", STATIC)
    entry = of_topic("segment.bytes", {"segment.bytes": "8192"}, node)
    assert (entry.value, entry.source) == ("8192", TOPIC)
    assert entry.synonyms == (
        Synonym("segment.bytes", "8192", TOPIC),
        Synonym("log.segment.bytes", "4096", STATIC),
        Synonym("log.segment.bytes", "134217728", DEFAULT),
    )


def test_a_value_that_another_setting_implies_shows_as_it_holds() -> None:
    entry = of_topic("remote.storage.enable", {"cleanup.policy": "compact"}, NodeSettings())
    assert (entry.value, entry.source) == ("false", DEFAULT)
    node = NodeSettings(log_flush_interval_messages=5)
    entry = of_topic("flush.messages", {"tierlog.compliance": "true"}, node)
    assert (entry.value, entry.source) == ("1", DEFAULT)


def test_a_setting_without_a_nodes_name_has_only_its_own() -> None:
    assert of_topic("tierlog.compliance", {}, NodeSettings()).synonyms == ()
    entry = of_topic("tierlog.compliance", {"tierlog.compliance": "true"}, NodeSettings())
    assert entry.synonyms == (Synonym("tierlog.compliance", "true", TOPIC),)
    assert entry.source is TOPIC


def test_an_override_shows_as_it_was_written() -> None:
    entry = of_topic("cleanup.policy", {"cleanup.policy": "delete,compact"}, NodeSettings())
    assert entry.value == "delete,compact"
    assert entry.type is ConfigType.LIST


def test_a_nodes_settings_are_all_there_sorted_and_read_only() -> None:
    entries = describe_node(NodeSettings(num_partitions=4))
    names = [each.name for each in entries]
    assert names == sorted(names)
    assert all(each.is_read_only for each in entries)
    entry = of_node("num.partitions", NodeSettings(num_partitions=4))
    assert (entry.value, entry.source) == ("4", STATIC)
    assert entry.synonyms == (
        Synonym("num.partitions", "4", STATIC),
        Synonym("num.partitions", "1", DEFAULT),
    )


def test_text_that_is_not_set_has_no_value() -> None:
    assert of_node("advertise", NodeSettings()).value is None
    assert of_node("auto.create.topics.enable", NodeSettings()).value == "true"
