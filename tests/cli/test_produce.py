"""`tierlog produce`: what lines become, and what is said about it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.compat.recorder import Recorder
from tests.compat.world import World
from tierlog.cli import produce
from tierlog.records.attributes import Codec
from tierlog.records.batch import iter_batches
from tierlog.records.record import Record, decode_records
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tierlog.wire.schema import Response


def records(broker: Recorder, topic: str, partition: int = 0) -> list[Record]:
    log = bytes(broker.world.topics[topic].partitions[partition].log)
    return [record for at, _ in iter_batches(log) for record in decode_records(log[at:])]


def values(broker: Recorder, topic: str) -> list[bytes | None]:
    return [each.value for each in records(broker, topic)]


@pytest.fixture(autouse=True)
def topic(broker: Recorder) -> None:
    broker.world.create("t", 1)


def test_each_line_is_a_record_and_the_last_may_lack_its_newline(
    cli: Cli, broker: Recorder
) -> None:
    outcome = cli("produce", "t", stdin=b"one\n\n tw\xffo \r\nthree")
    assert outcome.code == 0
    assert values(broker, "t") == [b"one", b"", b" tw\xffo \r", b"three"]
    assert outcome.out.startswith("wrote to t, partition 0, offsets 0 to 3: 4 records (15 B) in ")
    assert outcome.err == ""


def test_nothing_to_read_is_nothing_written(cli: Cli, broker: Recorder) -> None:
    assert cli("produce", "t").out.startswith("wrote to t: 0 records (0 B) in")
    assert values(broker, "t") == []


def test_a_file_is_read_in_place_of_stdin(cli: Cli, broker: Recorder, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a\nb\n")
    cli("produce", "t", "--file", str(file), stdin=b"not this\n")
    assert values(broker, "t") == [b"a", b"b"]


def test_a_file_that_is_not_there_is_named(cli: Cli) -> None:
    outcome = cli("produce", "t", "--file", "/no/such/file")
    assert (outcome.code, outcome.err) == (1, "tierlog: /no/such/file: No such file or directory\n")


def test_a_directory_in_place_of_a_file_is_named(cli: Cli, tmp_path: Path) -> None:
    outcome = cli("produce", "t", "--file", str(tmp_path))
    assert (outcome.code, outcome.err) == (1, f"tierlog: {tmp_path}: Is a directory\n")


def test_keys_stand_before_the_separator(cli: Cli, broker: Recorder) -> None:
    cli("produce", "t", "-K", "::", stdin=b"k::v::w\n::x\n")
    assert [(each.key, each.value) for each in records(broker, "t")] == [
        (b"k", b"v::w"),
        (b"", b"x"),
    ]


def test_a_line_without_its_key_ends_the_command_and_what_stood_before_is_written(
    cli: Cli, broker: Recorder
) -> None:
    outcome = cli("produce", "t", "-K", ":", stdin=b"k:v\nnone\nl:w\n")
    assert outcome.code == 1
    assert outcome.err == "tierlog: line 2: there is no ':' between a key and a value\n"
    assert ": 1 record (2 B) in" in outcome.out
    assert values(broker, "t") == [b"v"]


def test_one_key_and_headers_for_all(cli: Cli, broker: Recorder) -> None:
    cli("produce", "t", "-k", "k", "-H", "a=1", "-H", "a=x=y", "-H", "b=", stdin=b"v\n")
    (record,) = records(broker, "t")
    assert record.key == b"k"
    assert record.headers == (("a", b"1"), ("a", b"x=y"), ("b", b""))


def test_keys_and_values_may_be_written_in_hex_and_base64(cli: Cli, broker: Recorder) -> None:
    formats = ("--key-format", "hex", "--value-format", "base64")
    cli("produce", "t", "-K", ":", *formats, stdin=b"ff00:/w==\n")
    assert [(each.key, each.value) for each in records(broker, "t")] == [(b"\xff\x00", b"\xff")]
    outcome = cli("produce", "t", "--value-format", "json", stdin=b"{}\n{\n")
    assert outcome.err == "tierlog: line 2: '{' is not JSON\n"


def test_json_input_carries_everything(cli: Cli, broker: Recorder) -> None:
    lines = [
        {"key": "k", "value": {"a": 1}, "headers": {"h": "1"}, "timestamp": 5},
        {"key_b64": "/w==", "value": None},
        {"value_hex": "00ff", "offset": 17, "topic": "elsewhere"},
    ]
    stdin = "\n".join(json.dumps(each) for each in lines).encode()
    assert cli("produce", "t", "--input", "json", stdin=stdin).code == 0
    first, second, third = records(broker, "t")
    assert (first.key, first.value, first.headers) == (b"k", b'{"a":1}', (("h", b"1"),))
    assert first.timestamp == 5
    assert (second.key, second.value) == (b"\xff", None)
    assert (third.key, third.value) == (None, b"\x00\xff")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"[]", "not a JSON object with key, value and headers"),
        (b"x", "not JSON"),
        (b'{"value":"x","partition":7}', "t has no partition 7"),
        (b'{"value":"x","partition":"0"}', "partition must be a whole number"),
        (b'{"value":"x","timestamp":1e30}', "timestamp must be a whole number"),
        (b'{"value":"x","timestamp":9223372036854775808}', "timestamp must be a whole number"),
        (b'{"value_b64":"!"}', "'!' is not base64"),
        (b'{"value":"x","headers":7}', "headers must be a map"),
        (b'{"valu":"x"}', "'valu' is unknown; did you mean value?"),
        (b'{"value":"x","ttl":1}', "'ttl' is unknown; there are value, value_b64, value_hex, key,"),
        (b'{"key":"k"}', 'there is no value; for none write "value": null'),
        (b'{"value":"\\ud800"}', "value holds \\ud800, half of a character"),
        (b'{"key":"\\ud800","value":1}', "key holds \\ud800, half of a character"),
        (b'{"value":1,"\\ud800":1}', "'\\ud800' is unknown"),
    ],
)
def test_json_that_is_no_record_is_refused_by_its_line(
    cli: Cli, line: bytes, complaint: str
) -> None:
    outcome = cli("produce", "t", "--input", "json", stdin=b'{"value":"ok"}\n' + line + b"\n")
    assert outcome.code == 1
    assert f"line 2: {complaint}" in outcome.err


def test_consumed_json_can_be_produced_again_byte_by_byte(cli: Cli, broker: Recorder) -> None:
    broker.world.create("copy", 1)
    odd = b'{"key_b64":"/w==","value":"v","headers":[{"key":"h","value_b64":"/w=="}],"timestamp":9}'
    cli("produce", "t", "--input", "json", stdin=odd + b'\n{"value":null}\n{"value":"x"}\n')
    cli("produce", "copy", "--input", "json", stdin=cli("consume", "t", "--json").out.encode())
    assert records(broker, "copy") == records(broker, "t")


def refuse(broker: Recorder, *, times: int) -> None:
    """The broker lacks a replica for so many requests, then takes them."""
    row = broker._registry._rows[ApiKey.PRODUCE]
    left = iter(range(times))

    def answer(world: World, request: Any, version: int) -> Response | None:
        if next(left, None) is None:
            return row.handler(world, request, version)
        (topic,) = request.topic_data
        refusal = PartitionProduceResponse(
            index=0, error_code=ErrorCode.NOT_ENOUGH_REPLICAS, base_offset=-1, log_start_offset=0
        )
        named = TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[refusal]
        )
        return ProduceResponse(responses=[named])

    broker._registry._rows[ApiKey.PRODUCE] = replace(row, handler=answer)


LACK = "fewer replicas are in sync than required; nothing was written"


def test_who_waits_hears_once_what_is_tried_again(cli: Cli, broker: Recorder) -> None:
    refuse(broker, times=3)
    outcome = cli("produce", "t", stdin=b"v\n")
    assert outcome.code == 0
    assert outcome.err == f"t-0 takes no records now ({LACK}); trying for 30 s\n"
    assert values(broker, "t") == [b"v"]


def test_it_gives_up_when_the_time_of_the_other_commands_is_over(
    cli: Cli, broker: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "DEADLINE_S", 0.4)
    refuse(broker, times=1_000)
    outcome = cli("produce", "t", stdin=b"v\n")
    assert outcome.code == 1
    assert outcome.err.endswith(f"tierlog: t did not take a record: {LACK}; 0 were written\n")


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_every_codec_and_acks(cli: Cli, broker: Recorder, codec: Codec, acks: str) -> None:
    outcome = cli("produce", "t", "-z", codec.name.lower(), "--acks", acks, stdin=b"v\n" * 10)
    assert outcome.code == 0
    assert ": 10 records (10 B)" in outcome.out


def test_a_partition_of_ones_own_choice(cli: Cli, broker: Recorder) -> None:
    broker.world.create("wide", 4)
    outcome = cli("produce", "wide", "-p", "3", "--json", stdin=b"a\nb\n")
    assert json.loads(outcome.out) == {
        "topic": "wide",
        "records": 2,
        "bytes": 2,
        "partitions": [{"partition": 3, "first_offset": 0, "last_offset": 1}],
    }
    assert "wide has no partition 4" in cli("produce", "wide", "-p", "4", stdin=b"a\n").err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--acks", "2"), "--acks 2 is none of: all, 1, 0"),
        (("-z", "rar"), "--compression rar is none of: none, gzip, snappy, lz4, zstd"),
        (("--input", "xml"), "--input xml is neither lines nor json"),
        (("-H", "nothing"), "--header nothing is not of the form name=value"),
        (("-k", "a", "-K", ":"), "use one of --key and --key-separator"),
        (("-K", ""), "--key-separator is empty"),
        (("--input", "json", "-K", ":"), "leave --key-separator out"),
        (("-k", "x", "--key-format", "hex"), "--key 'x' is not hex"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(
    cli: Cli, options: tuple[str, ...], complaint: str
) -> None:
    outcome = cli("produce", "t", *options)
    assert outcome.code == 2
    assert complaint in outcome.err
