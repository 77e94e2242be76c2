"""A node's settings from command line, environment and file: who wins, and what is refused."""

import tomllib
from typing import Any

import pytest

from tierlog.config import InvalidConfig, NodeSettings, load_node_settings


def refused(**given: Any) -> str:
    with pytest.raises(InvalidConfig) as error:
        load_node_settings(**given)
    return error.value.sentence


def test_nothing_given_is_every_default() -> None:
    assert load_node_settings() == NodeSettings()


def test_set_beats_environment_beats_file_beats_default() -> None:
    sets = ["log.segment.bytes=1024"]
    environ = {"TIERLOG_LOG_SEGMENT_BYTES": "2048", "TIERLOG_NUM_PARTITIONS": "2"}
    file = {"log.segment.bytes": 4096, "num.partitions": 3, "log.roll.ms": 4}
    settings = load_node_settings(sets=sets, environ=environ, file=file)
    assert (settings.log_segment_bytes, settings.num_partitions) == (1024, 2)
    assert (settings.log_roll_ms, settings.default_replication_factor) == (4, 1)


def test_options_stand_for_settings() -> None:
    settings = load_node_settings(
        options={"data": "/d", "node.id": "7", "http": "off"}, environ={"TIERLOG_DATA": "/e"}
    )
    assert (settings.data, settings.node_id, settings.http_address) == ("/d", 7, None)


def test_the_last_set_wins() -> None:
    assert load_node_settings(sets=["num.partitions=2", "num.partitions=3"]).num_partitions == 3


def test_a_value_may_hold_an_equals_sign() -> None:
    assert load_node_settings(sets=["s3.endpoint=http://h/?a=b"]).s3_endpoint == "http://h/?a=b"


@pytest.mark.parametrize(
    "text",
    [
        '"log.segment.bytes" = 4096\n"log.preallocate" = true',
        "log.segment.bytes = 4096\nlog.preallocate = true",
        "[log]\nsegment.bytes = 4096\npreallocate = true",
        "[log.segment]\nbytes = 4096\n[log]\npreallocate = 'true'",
    ],
)
def test_tables_and_dotted_keys_of_a_file_mean_the_same(text: str) -> None:
    settings = load_node_settings(file=tomllib.loads(text))
    assert settings.log_segment_bytes == 4096
    assert settings.log_preallocate


def test_a_list_of_a_file_may_be_a_list() -> None:
    settings = load_node_settings(file={"log": {"cleanup": {"policy": ["compact", "delete"]}}})
    assert settings.log_cleanup_policy == {"compact", "delete"}


def test_our_own_settings_need_the_prefix_once_in_the_environment() -> None:
    for variable in ("TIERLOG_HANDSHAKE_TIMEOUT_MS", "TIERLOG_TIERLOG_HANDSHAKE_TIMEOUT_MS"):
        settings = load_node_settings(environ={variable: "5"})
        assert settings.tierlog_handshake_timeout_ms == 5


def test_variables_of_others_are_left_alone() -> None:
    environ = {
        "HOME": "/root",
        "TIERLOG_BOOTSTRAP": "127.0.0.1:9092",
        "TIERLOG_CACHE": "/somewhere/else",
        "TIERLOG_KAFKA_CACHE": "/somewhere/else",
        "TIERLOG_SERVICE_HOST": "10.0.0.1",
        "TIERLOG_PORT": "tcp://10.0.0.1:9092",
        "TIERLOG_PORT_9092_TCP_ADDR": "10.0.0.1",
    }
    assert load_node_settings(environ=environ) == NodeSettings()


@pytest.mark.parametrize(
    ("given", "expected_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.ms": "4", "log.retention.hours": "2", "log.retention.minutes": "3"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_of_two_spellings_of_retention_the_finer_wins(
    given: dict[str, str], expected_ms: int
) -> None:
    assert load_node_settings(file=given).log_retention_ms == expected_ms
    assert load_node_settings(file=dict(reversed(given.items()))).log_retention_ms == expected_ms


def test_roll_hours_are_taken_and_milliseconds_win() -> None:
    assert load_node_settings(sets=["log.roll.hours=1"]).log_roll_ms == 3_600_000
    assert load_node_settings(sets=["log.roll.ms=5", "log.roll.hours=1"]).log_roll_ms == 5


def test_between_places_the_place_decides_and_not_the_spelling() -> None:
    settings = load_node_settings(sets=["log.retention.hours=1"], file={"log.retention.ms": 5})
    assert settings.log_retention_ms == 3_600_000


def test_an_unknown_key_names_the_nearest_known_one_and_its_place() -> None:
    expected = "unknown setting log.segmnt.bytes; did you mean log.segment.bytes? (from --set)"
    assert refused(sets=["log.segmnt.bytes=1"]) == expected
    sentence = refused(environ={"TIERLOG_LOG_SEGMENTS_BYTES": "1"})
    assert "did you mean log.segment.bytes?" in sentence
    assert sentence.endswith("(from the environment, TIERLOG_LOG_SEGMENTS_BYTES)")
    assert refused(file={"num": {"partition": 1}}).endswith("(from the configuration file)")


def test_a_topic_settings_name_gets_a_hint() -> None:
    assert refused(sets=["segment.bytes=1"]).startswith(
        "segment.bytes is a topic setting; the node's default for it is log.segment.bytes"
    )
    assert "set it on a topic" in refused(sets=["tierlog.compliance=true"])


def test_kafkas_name_for_a_thing_of_another_shape_gets_a_hint() -> None:
    assert "here it is data" in refused(sets=["log.dirs=/x"])
    assert "here it is listen" in refused(file={"listeners": "PLAINTEXT://:9092"})


def test_a_bad_value_says_where_it_was_read() -> None:
    assert refused(environ={"TIERLOG_NUM_PARTITIONS": "many"}) == (
        "num.partitions is 'many'; it must be a whole number "
        "(from the environment, TIERLOG_NUM_PARTITIONS)"
    )
    assert "it must lie in [1," in refused(sets=["log.roll.hours=0"])
    assert "a whole number" in refused(sets=["log.roll.hours=soon"])
    assert "key=value" in refused(sets=["num.partitions"])


@pytest.mark.parametrize("host", ["0.0.0.0:9092", "[::]:9092", "10.1.2.3:9092", "example.org:9092"])
@pytest.mark.parametrize("name", ["listen", "http"])
def test_a_listener_for_other_machines_needs_consent(name: str, host: str) -> None:
    sentence = refused(options={name: host})
    assert sentence.startswith(f"{name} is {host}, which other machines can reach")
    assert "--set listener.insecure=true" in sentence
    load_node_settings(options={name: host}, sets=["listener.insecure=true"])


@pytest.mark.parametrize("host", ["127.0.0.1:0", "localhost:9092", "[::1]:9092", "127.9.9.9:1"])
def test_a_listener_on_loopback_needs_none(host: str) -> None:
    assert str(load_node_settings(options={"listen": host}).listen_address) == host


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("9092", "HOST:PORT"),
        (":9092", "HOST:PORT"),
        ("127.0.0.1:", "its port must be a number in [0, 65535]"),
        ("127.0.0.1:65536", "its port must be"),
        ("127.0.0.1:-1", "its port must be"),
        ("::1:9092", "in brackets"),
        ("PLAINTEXT://127.0.0.1:9092", "in brackets"),
        ("a b:1", "HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused(text: str, complaint: str) -> None:
    assert complaint in refused(options={"listen": text})


def test_what_no_client_can_connect_to_is_not_advertised() -> None:
    assert "no client can connect to" in refused(options={"advertise": "0.0.0.0:9092"})
    assert "its port must be a number in [1," in refused(options={"advertise": "127.0.0.1:0"})
    settings = load_node_settings(options={"advertise": "kafka.example.org:9092"})
    assert str(settings.advertise_address) == "kafka.example.org:9092"
