"""The tables: each line is sound in itself, and node and topic fit together."""

import dataclasses

import pytest

from tierlog.config import InvalidConfig, NodeSettings, TopicConfig, topic_config
from tierlog.config.definition import ConfigType, Definition, definitions_of

TOPIC = definitions_of(TopicConfig)
NODE = definitions_of(NodeSettings)
LINES = {f"topic {name}": TOPIC[name] for name in TOPIC} | {
    f"node {name}": NODE[name] for name in NODE
}

KAFKA_4_TOPIC_SETTINGS = """
cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
delete.retention.ms file.delete.delay.ms flush.messages flush.ms
follower.replication.throttled.replicas index.interval.bytes leader.replication.throttled.replicas
local.retention.bytes local.retention.ms max.compaction.lag.ms max.message.bytes
message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable retention.bytes
retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms
unclean.leader.election.enable
"""


def test_every_topic_setting_of_kafka_is_known_and_the_rest_is_ours() -> None:
    ours = {name for name in TOPIC if name.startswith("tierlog.")}
    assert set(TOPIC) - ours == set(KAFKA_4_TOPIC_SETTINGS.split())
    words = "compliance owner table.enable upload.lag.max.ms"
    assert ours == {f"tierlog.{word}" for word in words.split()}


@pytest.mark.parametrize("table", [TopicConfig, NodeSettings])
def test_the_attribute_is_the_name_with_underscores(table: type) -> None:
    for field in dataclasses.fields(table):
        assert field.name == field.metadata["definition"].attribute


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_default_is_valid_and_reads_back_from_its_text(line: Definition) -> None:
    assert line.parse(line.text(line.default) or "") == line.default
    assert line.documentation.endswith(".")


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_the_type_of_the_default_is_the_type_that_clients_are_told(line: Definition) -> None:
    python = {
        ConfigType.BOOLEAN: bool,
        ConfigType.STRING: str,
        ConfigType.INT: int,
        ConfigType.LONG: int,
        ConfigType.DOUBLE: float,
        ConfigType.LIST: frozenset,
    }
    assert type(line.default) is python[line.type]


def test_a_topic_that_says_nothing_on_a_node_that_says_nothing_has_the_defaults_of_the_table() -> (
    None
):
    assert topic_config({}, NodeSettings()) == TopicConfig()


def test_our_defaults_are_those_of_the_design() -> None:
    config = TopicConfig()
    assert config.remote_storage_enable
    assert (config.segment_bytes, config.segment_ms) == (128 << 20, 3_600_000)
    assert (config.local_retention_ms, config.local_retention_bytes) == (600_000, -1)
    assert (config.retention_ms, config.retention_bytes) == (7 * 86_400_000, -1)
    assert config.flush_messages == 1
    assert config.tierlog_upload_lag_max_ms == 3_600_000
    assert config.tierlog_table_enable
    assert not config.tierlog_compliance
    assert config.cleanup_policy == {"delete"}
    assert config.max_message_bytes == 1_048_588
    assert config.min_insync_replicas == 1


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("segment.bytes", "1023", "segment.bytes is 1023; it must lie in [1024, 1073741824]"),
        ("segment.bytes", "128MiB", "a whole number of bytes, without a unit"),
        ("segment.bytes", "1_000_000", "a whole number of bytes, without a unit"),
        ("segment.bytes", "", "segment.bytes is ''; it must be a whole number of bytes"),
        ("segment.bytes", "٣٣٣٣٣", "a whole number of bytes"),
        ("retention.ms", "7d", "a whole number of milliseconds, without a unit"),
        ("retention.ms", "-2", "retention.ms is -2; it must lie in [-1, 9223372036854775807]"),
        ("retention.ms", "9223372036854775808", "it must lie in"),
        ("retention.ms", "9" * 5000, "a whole number of milliseconds"),
        ("local.retention.ms", "-3", "it must lie in [-2, "),
        ("min.insync.replicas", "0", "it must lie in [1, 2147483647]"),
        ("min.insync.replicas", "1.5", "it must be a whole number"),
        ("preallocate", "yes", "preallocate is 'yes'; it must be true or false"),
        ("min.cleanable.dirty.ratio", "1.1", "it must lie in [0.0, 1.0]"),
        ("min.cleanable.dirty.ratio", "nan", "it must lie in [0.0, 1.0]"),
        ("min.cleanable.dirty.ratio", "half", "it must be a number"),
        ("message.timestamp.type", "createtime", "one of CreateTime, LogAppendTime"),
        ("cleanup.policy", "delete,burn", "it must be one of compact, delete"),
        ("compression.type", "brotli", "one of uncompressed, zstd, lz4, snappy, gzip, producer"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_what_would_do(
    name: str, text: str, sentence: str
) -> None:
    with pytest.raises(InvalidConfig) as refused:
        topic_config({name: text}, NodeSettings())
    assert refused.value.name == name
    assert sentence in refused.value.sentence


def test_values_are_read_as_kafka_reads_them() -> None:
    config = topic_config(
        {
            "preallocate": " TRUE ",
            "segment.bytes": " +2048 ",
            "cleanup.policy": "delete, compact,delete",
            "min.cleanable.dirty.ratio": "1e-1",
        },
        NodeSettings(),
    )
    assert config.preallocate
    assert config.segment_bytes == 2048
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.min_cleanable_dirty_ratio == 0.1


def test_a_node_out_of_range_cannot_be_built() -> None:
    with pytest.raises(InvalidConfig, match=r"^num\.partitions is 0; it must lie in"):
        NodeSettings(num_partitions=0)
    with pytest.raises(InvalidConfig, match="must lie in"):
        dataclasses.replace(NodeSettings(), log_segment_bytes=1)


def test_a_batch_that_fits_no_request_is_refused_as_a_setting() -> None:
    with pytest.raises(InvalidConfig, match="a batch must fit into a request"):
        NodeSettings(message_max_bytes=200 << 20)
    with pytest.raises(InvalidConfig, match="it must hold one request"):
        NodeSettings(queued_max_request_bytes=1 << 20)


def test_more_replicas_than_there_are_nodes_are_refused_as_a_setting() -> None:
    with pytest.raises(InvalidConfig, match=r"factor is 3; this node is alone.* it must be 1$"):
        NodeSettings(default_replication_factor=3)


def test_the_disk_watermark_is_the_larger_of_bytes_and_share_and_slowing_comes_first() -> None:
    node = NodeSettings()
    assert node.disk_refuse_below(10 << 30) == 2 << 30
    assert node.disk_refuse_below(1000 << 30) == 50 << 30
    assert node.disk_throttle_below(1000 << 30) == 100 << 30
    off = NodeSettings(tierlog_disk_free_min_bytes=0, tierlog_disk_free_min_ratio=0.0)
    assert off.disk_throttle_below(1 << 40) == 0
