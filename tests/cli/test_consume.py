"""`tierlog consume`: which records, in which form, and when it ends."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from tests.cli.conftest import Cli
from tests.compat import data_answers
from tests.compat.recorder import Recorder
from tests.compat.world import Partition
from tierlog.cli import consume
from tierlog.records.record import Record, encode_batch
from tierlog.types import Offset, TimestampMs
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.fetch import FetchPartition, PartitionData

HOUR = 3_600_000


def append(broker: Recorder, partition: int, *timestamps: int, batch: int = 2) -> None:
    """Records whose values tell partition and timestamp, in batches of that many."""
    for at in range(0, len(timestamps), batch):
        records = [
            Record(Offset(place), TimestampMs(when), b"k", f"{partition}@{when}".encode())
            for place, when in enumerate(timestamps[at : at + batch])
        ]
        broker.world.topics["t"].partitions[partition].append(encode_batch(records))


@pytest.fixture(autouse=True)
def topic(broker: Recorder) -> None:
    broker.world.create("t", 2)
    append(broker, 0, 10, 20, 30, 40, 50)
    append(broker, 1, 15, 25)


ZERO = ["0@10", "0@20", "0@30", "0@40", "0@50"]
ONE = ["1@15", "1@25"]


@contextmanager
def following(broker: Recorder, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`consume t -f` that has begun to wait, in a process of its own: it may never end."""
    command = [sys.executable, "-m", "tierlog", "consume", "t", "-f", *options]
    environment = {**os.environ, "TIERLOG_BOOTSTRAP": f"127.0.0.1:{broker.world.port}"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        try:
            while not any(each.api.name == "FETCH" for each in broker.exchanges):
                assert process.poll() is None
                threading.Event().wait(0.01)
            yield process
        finally:
            process.kill()


def test_without_more_words_everything_is_read_and_then_it_ends(cli: Cli) -> None:
    outcome = cli("consume", "t")
    assert outcome.code == 0
    assert sorted(outcome.lines) == ZERO + ONE
    assert outcome.err == ""


def test_from_the_beginning_is_the_same(cli: Cli) -> None:
    assert sorted(cli("consume", "t", "--from-beginning").lines) == ZERO + ONE


def test_on_a_terminal_the_summary_counts_what_was_printed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what was fetched to find it; as `produce` counts it: keys and values."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    outcome = cli("consume", "t", "-p", "0", "-n", "1")
    assert outcome.err.startswith("1 record (5 B) in ")


def test_an_empty_topic_ends_at_once(cli: Cli, broker: Recorder) -> None:
    broker.world.create("empty", 3)
    outcome = cli("consume", "empty")
    assert (outcome.code, outcome.out) == (0, "")


def test_a_partition_keeps_its_order(cli: Cli) -> None:
    assert cli("consume", "t", "-p", "0").lines == ZERO
    assert sorted(cli("consume", "t", "-p", "0", "-p", "1").lines) == ZERO + ONE


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ("beginning", ZERO),
        ("0", ZERO),
        ("3", ["0@40", "0@50"]),
        ("5", []),
        ("99", []),
        ("end", []),
        ("-1", ["0@50"]),
        ("-3", ["0@30", "0@40", "0@50"]),
        ("-99", ZERO),
    ],
)
def test_an_offset_to_start_from_also_within_a_batch(
    cli: Cli, offset: str, expected: list[str]
) -> None:
    assert cli("consume", "t", "-p", "0", "--offset", offset).lines == expected


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_it_ends_after_the_count(cli: Cli, count: int) -> None:
    assert len(cli("consume", "t", "-n", str(count)).lines) == count


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (("--since", "@20"), ["0@20", "0@30", "0@40", "0@50", "1@25"]),
        (("--until", "@30"), ["0@10", "0@20", "1@15", "1@25"]),
        (("--since", "@15", "--until", "@40"), ["0@20", "0@30", "1@15", "1@25"]),
        (("--since", "1h"), []),
        (("--until", "now"), ZERO + ONE),
        (("--until", "1970-01-01T00:00:00.050Z"), ["0@10", "0@20", "0@30", "0@40", *ONE]),
    ],
)
def test_times_at_both_ends(cli: Cli, times: tuple[str, ...], expected: list[str]) -> None:
    assert sorted(cli("consume", "t", *times).lines) == expected


def test_a_late_record_outside_the_times_is_left_out(cli: Cli, broker: Recorder) -> None:
    append(broker, 0, 60, 5, 70)
    assert cli("consume", "t", "-p", "0", "--since", "@50").lines == ["0@50", "0@60", "0@70"]


def test_a_record_before_the_time_is_shown_also_behind_a_later_one(
    cli: Cli, broker: Recorder
) -> None:
    """Timestamps are the producer's: nothing makes them rise."""
    append(broker, 0, 60, 5, 70, 6)
    expected = ["0@10", "0@20", "0@5", "0@6"]
    assert cli("consume", "t", "-p", "0", "--until", "@30").lines == expected


@pytest.mark.parametrize("time", ["99999w", "1900-01-01", "0001-01-01", "1969-12-31T23:59:59.999Z"])
def test_since_a_time_before_1970_is_since_the_beginning(cli: Cli, time: str) -> None:
    outcome = cli("consume", "t", "-p", "0", "--since", time)
    assert (outcome.code, outcome.lines) == (0, ZERO)


def test_a_timestamp_beyond_the_calendar_is_shown_as_a_number(cli: Cli, broker: Recorder) -> None:
    append(broker, 1, 10**17)
    outcome = cli("consume", "t", "-p", "1", "-o", "-1", "--meta")
    assert outcome.lines == [f"1\t2\t@{10**17}\t1@{10**17}"]


def test_half_a_character_in_json_is_printed_as_it_was_written(cli: Cli) -> None:
    cli("produce", "t", "-p", "1", stdin=b'"\\ud800"\n')
    last = ("-p", "1", "-o", "-1", "--value-format", "json")
    assert cli("consume", "t", *last).lines == ['"\\ud800"']
    assert json.loads(cli("consume", "t", *last, "--json").out)["value"] == "\ud800"


def test_an_offset_beyond_the_end_is_said(cli: Cli) -> None:
    outcome = cli("consume", "t", "--offset", "3")
    assert (outcome.code, outcome.lines) == (0, ["0@40", "0@50"])
    assert outcome.err == "partition 1 ends at offset 2\n"
    assert cli("consume", "t", "-p", "0", "--offset", "5").err == "", (
        "the end itself is no surprise"
    )


def test_following_from_beyond_the_end_waits_until_the_log_is_there(
    cli: Cli, broker: Recorder
) -> None:
    with following(broker, "-p", "1", "-o", "4", "-n", "1") as process:
        cli("produce", "t", "-p", "1", stdin=b"two\nthree\nfour\n")
        assert process.communicate(timeout=30) == (
            b"four\n",
            b"partition 1 ends at offset 2; waiting for offset 4\n",
        )


def test_following_starts_at_the_end_and_waits(cli: Cli, broker: Recorder) -> None:
    with following(broker, "-n", "1", "-p", "0") as process:
        cli("produce", "t", "-p", "0", stdin=b"new\n")
        assert process.communicate(timeout=30) == (b"new\n", b"")
    assert process.returncode == 0


def test_following_from_the_beginning_reads_what_is_there_first(cli: Cli) -> None:
    outcome = cli("consume", "t", "-f", "--from-beginning", "-p", "0", "-n", "5")
    assert outcome.lines == ZERO


def test_keys_headers_and_places_on_request(cli: Cli) -> None:
    cli("produce", "t", "-p", "1", "-k", "key", "-H", "a=1", "-H", "b=2", stdin=b"v\n")
    last = ("-p", "1", "--offset", "-1")
    assert cli("consume", "t", *last, "-K", " -> ").lines == ["key -> v"]
    assert cli("consume", "t", *last, "--headers").lines == ["a=1,b=2\tv"]
    partition, offset, time, value = cli("consume", "t", *last, "--meta").lines[0].split("\t")
    assert (partition, offset, value) == ("1", "2", "v")
    assert time.startswith("20")


@pytest.mark.parametrize(
    ("form", "line"),
    [("hex", "3140323a"), ("base64", "MUAyOg=="), ("utf8", "1@2:"), ("json", "1@2:")],
)
def test_values_in_every_format(cli: Cli, form: str, line: str) -> None:
    cli("produce", "t", "-p", "1", stdin=b"1@2:\n")
    last = ("-p", "1", "--offset", "-1")
    assert cli("consume", "t", *last, "--value-format", form).lines == [line]


def test_json_lines_hold_everything(cli: Cli) -> None:
    lines = cli("consume", "t", "-p", "1", "--json").lines
    assert json.loads(lines[0]) == {
        "topic": "t",
        "partition": 1,
        "offset": 0,
        "timestamp": 15,
        "key": "k",
        "value": "1@15",
        "headers": [],
    }
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--offset", "x"), "--offset x is none of: N, beginning, end, -N"),
        (("--since", "soon"), "'soon' is not a time"),
        (("--since", "1h", "--until", "2h"), "--since 1h is not before --until 2h"),
        (("--since", "1h", "--offset", "1"), "use one of --from-beginning, --offset and --since"),
        (("-f", "--until", "now"), "-f waits for ever and --until ends"),
        (("-n", "0"), "Invalid value for '--count'"),
        (("--value-format", "xml"), "xml"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(
    cli: Cli, options: tuple[str, ...], complaint: str
) -> None:
    outcome = cli("consume", "t", *options)
    assert outcome.code == 2
    assert complaint in outcome.err


def test_a_partition_that_is_not_there_is_named(cli: Cli) -> None:
    outcome = cli("consume", "t", "-p", "2")
    assert outcome.code == 1
    assert outcome.err == "tierlog: t has no partition 2; it has 0 to 1\n"


def test_a_damaged_batch_is_a_failure_with_a_sentence(cli: Cli, broker: Recorder) -> None:
    broker.world.topics["t"].partitions[1].log[-1] ^= 1
    outcome = cli("consume", "t", "-p", "1")
    assert outcome.code == 1
    assert outcome.err.startswith("tierlog: ")
    assert "Traceback" not in outcome.err


# Errors


@contextmanager
def refusing(code: ErrorCode, *, partition: int = 0, times: int = 10**9) -> Iterator[None]:
    """The broker answers so many fetches of the partition with this error."""
    really, left = data_answers._fetched, times

    def fetched(found: Partition | None, asked: FetchPartition, version: int) -> PartitionData:
        nonlocal left
        answer = really(found, asked, version)
        if asked.partition == partition and left > 0:
            left -= 1
            answer.error_code, answer.records = code, b""
        return answer

    with patch.object(data_answers, "_fetched", fetched):
        yield


def test_damaged_records_end_it_with_a_sentence_at_once(cli: Cli) -> None:
    with refusing(ErrorCode.CORRUPT_MESSAGE):
        outcome = cli("consume", "t", "-p", "0", "--offset", "2")
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.startswith("tierlog: the records of t-0 at offset 2 are damaged")
    assert len(outcome.err.splitlines()) == 1


def test_after_some_seconds_of_errors_it_says_what_it_waits_for(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "SILENT_S_MAX", 0.0)
    with refusing(ErrorCode.KAFKA_STORAGE_ERROR, times=3):
        outcome = cli("consume", "t", "-p", "0")
    assert (outcome.code, outcome.lines) == (0, ZERO)
    (line,) = outcome.err.splitlines()
    assert line.startswith("still trying, the last answer was KAFKA_STORAGE_ERROR (56): t-0 at ")
    assert "object store" in line


def test_an_error_that_passes_soon_needs_no_words(cli: Cli) -> None:
    with refusing(ErrorCode.KAFKA_STORAGE_ERROR, times=1):
        outcome = cli("consume", "t")
    assert (outcome.code, sorted(outcome.lines), outcome.err) == (0, ZERO + ONE, "")


def test_the_records_of_other_partitions_do_not_wait_for_one_in_trouble(cli: Cli) -> None:
    with refusing(ErrorCode.KAFKA_STORAGE_ERROR):
        outcome = cli("consume", "t", "-n", "2")
    assert (outcome.code, outcome.lines) == (0, ONE)
