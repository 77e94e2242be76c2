"""`tierlog group ...` against a real node: list, describe, lag, reset, delete."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.cli.conftest import Cli, Outcome
from tests.cli.served import run, starting
from tests.compat.cold import eventually

LIMIT_S = 60
TIMES = [1_600_000_000_000 + 60_000 * number for number in range(10)]


class Node:
    def __init__(self, kafka: str, http: str) -> None:
        self.kafka = kafka
        self.http = http


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with starting(tmp_path_factory.mktemp("node")) as start:
        # The first rebalance need not wait for others here.
        served = start("--set", "group.initial.rebalance.delay.ms=0")
        ready = served.ready()
        yield Node(ready[1], ready[2])


@pytest.fixture
def group(node: Node, tierlog: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    monkeypatch.setenv("TIERLOG_BOOTSTRAP", node.kafka)
    monkeypatch.setenv("TIERLOG_HTTP", node.http)

    def call(*words: str) -> Outcome:
        return tierlog("group", *words)

    return call


@pytest.fixture
def topic(
    request: pytest.FixtureRequest, node: Node, tierlog: Cli, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Of the test's name: ten records in partition 0, a minute apart, none in partition 1."""
    monkeypatch.setenv("TIERLOG_BOOTSTRAP", node.kafka)
    name = str(request.node.name)[:60]
    # Records of 2020 would expire at once.
    made = tierlog("topic", "create", name, "-p", "2", "--set", "retention.ms=-1")
    assert made.code == 0, made.err
    lines = [json.dumps({"value": "x", "timestamp": at, "partition": 0}).encode() for at in TIMES]
    wrote = tierlog("produce", name, "--input", "json", stdin=b"\n".join(lines) + b"\n")
    assert wrote.code == 0, wrote.err
    return name


def offsets_of(group: Callable[..., Outcome], name: str) -> dict[int, int]:
    found = json.loads(group("describe", name, "--json").out)
    return {one["partition"]: one["committed"] for one in found["offsets"]}


def member(node: Node, name: str, topic: str) -> Consumer:
    """One that has joined."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.kafka,
            "group.id": name,
            "client.id": "somebody",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
    )
    consumer.subscribe([topic])
    until = time.monotonic() + LIMIT_S
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < until, "it did not join"
    return consumer


WAYS: list[tuple[list[str], int]] = [
    (["--to-earliest"], 0),
    (["--to-latest"], 10),
    (["--to-offset", "7"], 7),
    (["--to-offset", "700"], 10),
    (["--shift-by", "-2"], 3),
    (["--shift-by", "3"], 8),
    (["--shift-by", "-100"], 0),
    (["--to-datetime", f"@{TIMES[4]}"], 4),
    (["--to-datetime", f"@{TIMES[4] + 1}"], 5),
    (["--to-datetime", "2020-09-13T12:30:00Z"], 4),
    (["--by-duration", "1m"], 10),
    (["--by-duration", "5000w"], 0),
]


def test_a_group_is_reset_in_every_way(topic: str, group: Callable[..., Outcome]) -> None:
    for number, (way, wanted) in enumerate(WAYS):
        name = f"{topic}-{number}"
        assert group("reset", name, "--topic", topic, "--to-offset", "5", "--execute").code == 0
        assert offsets_of(group, name) == {0: 5, 1: 0}, "clamped where there are no records"
        done = group("reset", name, "--topic", f"{topic}:0", *way, "--execute")
        assert done.code == 0, done.err
        assert offsets_of(group, name)[0] == wanted, way


def test_nothing_is_changed_unless_one_says_so(topic: str, group: Callable[..., Outcome]) -> None:
    group("reset", topic, "--topic", topic, "--to-offset", "5", "--execute")
    shown = group("reset", topic, "--to-earliest")
    assert shown.lines[1].split() == [topic, "0", "5", "0", "-5", "10"]
    assert "nothing was changed: --execute does it" in shown.err
    assert group("reset", topic, "--to-earliest", "--dry-run").out == shown.out
    assert offsets_of(group, topic)[0] == 5
    both = group("reset", topic, "--to-earliest", "--dry-run", "--execute")
    assert (both.code, "say one of them" in both.err) == (2, True)
    value = json.loads(group("reset", topic, "--to-earliest", "--json").out)
    assert not value["executed"]
    assert value["partitions"][0] == {
        "topic": topic,
        "partition": 0,
        "committed": 5,
        "new": 0,
        "wanted": 0,
        "start": 0,
        "end": 10,
    }


def test_a_group_with_members_is_neither_reset_nor_deleted(
    topic: str, node: Node, group: Callable[..., Outcome]
) -> None:
    consumer = member(node, topic, topic)
    try:
        refused = group("reset", topic, "--topic", topic, "--to-earliest", "--execute")
        assert refused.code == 1
        assert f"group {topic} has a member: somebody at 127.0.0.1." in refused.err
        assert "stop them" in refused.err
        assert "stop them first" in group("delete", topic, "-y").err
        described = group("describe", topic)
        assert described.lines[0] == f"{topic}: Stable, 1 member, classic, assignor range"
        assert f"{topic}-0,1" in described.out
    finally:
        consumer.close()
    assert group("reset", topic, "--topic", topic, "--to-earliest", "--execute").code == 0
    assert group("delete", topic, "-y").lines == [f"deleted {topic}"]
    assert topic not in group("list").out


def test_a_reset_says_what_it_could_not_do(topic: str, group: Callable[..., Outcome]) -> None:
    words = ["reset", topic, "--topic", f"{topic}:0"]
    far = group(*words, "--to-offset", "99999999", "--execute")
    assert f"{topic}-0 has offsets 0 to 10, not 99999999: 10 is taken" in far.err
    back = group(*words, "--shift-by", "-15", "--json")
    assert f"{topic}-0 has offsets 0 to 10, not -5: 0 is taken" in back.err
    (row,) = json.loads(back.out)["partitions"]
    assert (row["wanted"], row["new"]) == (-5, 0)
    assert "is taken" not in group(*words, "--to-offset", "4").err


@pytest.mark.parametrize("words", [["reset", "--to-latest"], ["describe"], ["delete", "-y"]])
def test_a_group_has_a_name(words: list[str], group: Callable[..., Outcome]) -> None:
    refused = group(words[0], "", *words[1:])
    assert refused.code == 2
    assert "GROUP is empty" in refused.err


def test_list_and_describe_tell_the_lag(topic: str, group: Callable[..., Outcome]) -> None:
    assert group("reset", topic, "--topic", f"{topic}:0", "--to-offset", "4", "--execute").code == 0

    def listed() -> dict[str, Any]:
        rows = json.loads(group("list", "--json").out)
        return next(one for one in rows if one["group"] == topic)

    eventually(lambda: listed()["records"] == 6, "the next look at the lag")
    assert listed()["seconds"] > 3e7, "they were written in 2020"
    shown = group("list")
    assert shown.lines[0].split()[-2:] == ["records", "behind"]
    (line,) = (one for one in shown.lines if one.startswith(topic))
    assert " 6 " in line
    described = json.loads(group("describe", topic, "--json").out)
    (row,) = described["offsets"]
    assert (row["lag"], row["is_local_left_known"], row["retention_left_s"]) == (6, False, None)
    assert row["bytes"] > 0
    assert row["seconds"] > 3e7
    assert described["group_lag"]["records"] == 6
    head, line = group("describe", topic).lines[-2:]
    for column in ("bytes", "behind", "trend", "caught up in", "off disk in", "expires in"):
        assert column in head
    assert line.split()[-2:] == ["?", "stays"]


def test_list_and_describe_go_on_where_http_does_not_answer(
    topic: str, group: Callable[..., Outcome], tmp_path: Path
) -> None:
    assert group("reset", topic, "--topic", f"{topic}:0", "--to-offset", "4", "--execute").code == 0
    for words in (["list"], ["describe", topic]):
        shown = group(*words, "--http", "127.0.0.1:1")
        assert shown.code == 0
        assert "lag is not known: nothing answers at 127.0.0.1:1" in shown.err
        assert topic in shown.out
        assert "behind" not in shown.out
    listed = json.loads(group("list", "--json", "--http", "127.0.0.1:1").out)
    assert {one["records"] for one in listed} == {None}
    with starting(tmp_path) as start:
        other = start().ready()[2]
        shown = group("list", "--http", other)
    assert shown.code == 0
    assert f"the node at {other} is one of another cluster" in shown.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["reset", "g"], 2, "say where to: --to-datetime"),
        (["reset", "g", "--to-earliest", "--to-latest"], 2, "say one of them"),
        (["reset", "g", "--to-datetime", "tomorrow"], 2, "is not a time"),
        (["reset", "g", "--by-duration", "long"], 2, "is not a length of time"),
        (["reset", "g", "--to-latest", "--topic", "a:b"], 2, "write it as orders or orders:0,2"),
        (["reset", "nobody-knows", "--to-latest"], 1, "there is no group nobody-knows"),
        (["reset", "g", "--to-latest", "--topic", "no-topic"], 1, "there is no topic no-topic"),
        (["describe", "nobody-knows"], 1, "there is no group nobody-knows"),
        (["delete", "nobody-knows", "-y"], 1, "there is no group nobody-knows"),
        (["delete", "g"], 1, "say --yes"),
        (["lag", "nobody-knows"], 1, "no group 'nobody-knows' has committed"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    words: list[str], code: int, says: str, group: Callable[..., Outcome]
) -> None:
    ended = group(*words)
    assert ended.code == code
    assert says in ended.err
    assert ended.err.startswith("tierlog: ")


def test_a_partition_that_is_not_there_is_refused(
    topic: str, group: Callable[..., Outcome]
) -> None:
    ended = group("reset", topic, "--to-latest", "--topic", f"{topic}:7")
    assert f"{topic} has partitions 0 to 1, no 7" in ended.err
    shifted = group("reset", topic, "--shift-by", "1", "--topic", topic)
    assert "there is nothing to shift" in shifted.err


def test_lag_is_told_for_all_and_for_one(topic: str, group: Callable[..., Outcome]) -> None:
    group("reset", topic, "--topic", f"{topic}:0", "--to-offset", "4", "--execute")
    value = lag_when(group, topic, lambda one: one["records"] == 6)
    (one,) = value["partitions"]
    assert (one["committed"], one["end"], one["records"], one["lost"]) == (4, 10, 6, 0)
    assert one["seconds"] == pytest.approx((value["at_ms"] - TIMES[4]) / 1000)
    shown = group("lag", topic)
    assert shown.lines[0].startswith(f"{topic} at ")
    assert "6 records" in shown.lines[0]
    assert shown.lines[2].split()[:4] == ["topic", "partition", "committed", "end"]
    rows = {line.split()[0]: line.split() for line in group("lag").lines}
    assert rows[topic][1] == "6"
    caught_up = group("reset", topic, "--to-latest", "--execute")
    assert caught_up.code == 0
    lag_when(group, topic, lambda one: one["records"] == 0)
    assert "caught up" in group("lag", topic).lines[0]


def lag_when(
    group: Callable[..., Outcome], name: str, happened: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The numbers are some seconds old."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        ended = group("lag", name, "--json")
        if ended.code == 0:
            value: dict[str, Any] = json.loads(ended.out)
            if happened(value):
                return value
        time.sleep(0.2)
    raise AssertionError(f"it did not come to pass: {ended}")


def test_watch_ends_when_the_group_has_caught_up(
    topic: str, node: Node, group: Callable[..., Outcome], tmp_path: Path
) -> None:
    group("reset", topic, "--topic", f"{topic}:0", "--to-earliest", "--execute")
    lag_when(group, topic, lambda one: one["records"] == 10)
    words = ["group", "lag", topic, "--watch", "--every", "1", "--until-caught-up", "--json"]
    watching = subprocess.Popen(
        [sys.executable, "-m", "tierlog", *words, "--http", node.http],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    with watching:
        first = json.loads(watching.stdout.readline())
        assert first["records"] == 10
        group("reset", topic, "--to-latest", "--execute")
        rest, _ = watching.communicate(timeout=LIMIT_S)
    assert json.loads(rest.splitlines()[-1])["records"] == 0
    assert watching.returncode == 0


def test_watch_draws_over_itself_on_a_terminal(
    topic: str, node: Node, group: Callable[..., Outcome]
) -> None:
    group("reset", topic, "--topic", f"{topic}:0", "--to-earliest", "--execute")
    lag_when(group, topic, lambda one: one["records"] == 10)
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        [sys.executable, "-m", "tierlog", "group", "lag", topic, "-w", "--http", node.http],
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        seen = b""
        until = time.monotonic() + LIMIT_S
        while seen.count(b"\x1b[H\x1b[J") < 2 and time.monotonic() < until:
            if select.select([ours], [], [], 1.0)[0]:
                seen += os.read(ours, 65536)
        assert seen.count(b"\x1b[H\x1b[J") >= 2
        assert b"10 records" in seen
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=LIMIT_S) == 1
    finally:
        watching.kill()
        watching.wait()
        os.close(ours)


def test_help_of_every_command_says_what_it_does(tmp_path: Path) -> None:
    for name in ("list", "describe", "lag", "reset", "delete"):
        shown = run("group", name, "--help", cwd=tmp_path)
        assert shown.code == 0
        assert "--json" in shown.out
        assert "[[" not in shown.out
