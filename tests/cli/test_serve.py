"""`tierlog serve`: the contract of its command line, a line a test, each in its own process."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.served import LIMIT_S, Start, starting
from tierlog.broker.catalogue import Catalogue
from tierlog.cli.serve import ServeOptions, settings_of
from tierlog.config import NodeSettings
from tierlog.env import local_env
from tierlog.server import SWITCH_S, Ready, Server, serve


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as run:
        yield run


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Start]]:
    """The address of a node that all tests of this file may use, and how to start another."""
    with starting(tmp_path_factory.mktemp("running")) as run:
        yield run().ready()[1], run


def test_it_prints_one_ready_line_with_the_bound_addresses_and_sigterm_drains_and_exits_0(
    start: Start, tierlog: Cli, tmp_path: Path
) -> None:
    node = start()
    kafka, http, number, store = node.ready().groups()
    assert http != "off"
    assert not kafka.endswith(":0")
    assert not http.endswith(":0")
    assert (number, store) == ("1", f"file://{tmp_path}/data-store")
    assert tierlog("topic", "create", "t", "-c", "retention.ms=-1", "--bootstrap", kafka).code == 0
    assert tierlog("produce", "t", "--bootstrap", kafka, stdin=b"one\ntwo\n").code == 0
    node.process.send_signal(signal.SIGTERM)
    code, rest, err = node.end()
    assert (code, rest) == (0, "")
    assert "stopping" in err
    kafka = start().ready()[1]
    assert tierlog("consume", "t", "--bootstrap", kafka).lines == ["one", "two"]
    described = tierlog("topic", "describe", "t", "--bootstrap", kafka).lines
    assert "retention.ms  -1     topic" in described


def test_sigterm_neither_seals_nor_uploads(tmp_path: Path, start: Start, tierlog: Cli) -> None:
    """A stop is quick, whatever the store does; the next start goes on with the same segment."""

    def logs() -> list[str]:
        return sorted(path.name for path in (tmp_path / "data").rglob("*.log"))

    node = start()
    kafka = node.ready()[1]
    assert tierlog("topic", "create", "t", "--bootstrap", kafka).code == 0
    assert tierlog("produce", "t", "--bootstrap", kafka, stdin=b"one\ntwo\n").code == 0
    before = logs()
    node.process.send_signal(signal.SIGTERM)
    assert node.end()[0] == 0
    assert logs() == before, "no segment was rolled"
    assert f"{0:020d}.log" in before
    assert not list((tmp_path / "data-store").rglob("*.seg"))
    kafka = start().ready()[1]
    assert tierlog("produce", "t", "--bootstrap", kafka, stdin=b"three\n").code == 0
    assert logs() == before
    assert tierlog("consume", "t", "--bootstrap", kafka).lines == ["one", "two", "three"]


def test_sigint_drains_too_and_http_may_be_off(start: Start) -> None:
    node = start("--http", "off", "--node-id", "7")
    assert node.ready().group(2, 3) == ("off", "7")
    node.process.send_signal(signal.SIGINT)
    code, _, err = node.end()
    assert code == 0
    assert "stopping" in err


SIGNALLED = """
import asyncio, os, signal, sys, uvloop
from tierlog import server

async def main(first, second):
    told = server.stop_signal()
    os.kill(os.getpid(), first)
    await told
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), second)
    await asyncio.sleep(0.05)

for first, second, server.REPEATS_S in {cases}:
    child = os.fork()
    if not child:
        try:
            asyncio.Runner(loop_factory=uvloop.new_event_loop).run(main(first, second))
        except KeyboardInterrupt:
            os._exit(1)
        os._exit(0)
    print(os.waitpid(child, 0)[1] == 0)
"""


def test_a_repeated_signal_does_not_cut_the_drain_short_but_a_late_sigint_does() -> None:
    term, interrupt = int(signal.SIGTERM), int(signal.SIGINT)
    goes_on = {
        (term, term, 0.0): True,
        (interrupt, term, 0.0): True,
        (interrupt, interrupt, 60.0): True,
        (interrupt, interrupt, 0.0): False,
        (term, interrupt, 0.0): False,
    }
    ended = subprocess.run(
        [sys.executable, "-c", SIGNALLED.format(cases=list(goes_on))],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert ended.stdout.split() == [str(each) for each in goes_on.values()]


async def test_a_signal_during_the_start_ends_it_and_lets_go_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = NodeSettings(data=str(tmp_path / "data"), listen="127.0.0.1:0", http="off")
    ready: list[Ready] = []

    async def told_while_loading(_: Catalogue) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(Catalogue, "load", told_while_loading)
        async with asyncio.timeout(LIMIT_S):
            await serve(settings, on_ready=ready.append)
    assert ready == []
    server = Server(local_env(), settings)
    await server.start()
    await server.stop()


async def test_threads_get_the_interpreter_soon_while_a_node_serves(tmp_path: Path) -> None:
    settings = NodeSettings(data=str(tmp_path / "data"), listen="127.0.0.1:0", http="off")
    before, seen = sys.getswitchinterval(), []

    def ready(_: Ready) -> None:
        seen.append(sys.getswitchinterval())
        os.kill(os.getpid(), signal.SIGTERM)

    async with asyncio.timeout(LIMIT_S):
        await serve(settings, on_ready=ready)
    assert seen == [pytest.approx(SWITCH_S)]
    assert SWITCH_S < before == sys.getswitchinterval()


def test_a_second_start_on_the_same_directory_exits_1_without_a_ready_line(
    running: tuple[str, Start],
) -> None:
    code, out, err = running[1]().end()
    assert (code, out) == (1, "")
    assert re.fullmatch(r"tierlog: /\S+/data\S* is in use by another [^\n]*\n", err)


def test_an_address_in_use_exits_1_and_is_named(running: tuple[str, Start]) -> None:
    kafka, start = running
    code, out, err = start("--data", "other", "--listen", kafka).end()
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith(f"tierlog: {kafka} is in use; stop what listens")


def test_a_setting_that_the_broker_refuses_is_told_in_its_words(
    running: tuple[str, Start], tierlog: Cli
) -> None:
    there = ("--bootstrap", running[0])
    outcome = tierlog("topic", "create", "refused", "-c", "retention.sm=1", *there)
    assert outcome.code == 1
    assert "was not created: unknown topic setting retention.sm" in outcome.err
    assert "did you mean retention.ms?" in outcome.err
    tierlog("topic", "create", "there", *there)
    outcome = tierlog("topic", "alter", "there", "--set", "segment.bytes=1", *there)
    assert outcome.code == 1
    assert "was not altered: segment.bytes is 1; it must lie in [1024," in outcome.err


def test_a_record_that_the_broker_refuses_ends_produce_with_a_count(
    running: tuple[str, Start], tierlog: Cli
) -> None:
    there = ("--bootstrap", running[0])
    tierlog("topic", "create", "small", "-c", "max.message.bytes=300", *there)
    outcome = tierlog("produce", "small", *there, stdin=b"x" * 400 + b"\n")
    assert outcome.code == 1
    assert outcome.err.startswith("tierlog: small did not take a record: ")
    assert outcome.err.endswith("; 0 were written\n")
    assert outcome.out == ""


def test_an_address_of_another_machine_exits_1_and_is_named(start: Start) -> None:
    elsewhere = ("--listen", "192.0.2.1:9092", "--set", "listener.insecure=true")
    code, out, err = start(*elsewhere).end()
    assert (code, out) == (1, "")
    assert err.endswith("tierlog: 192.0.2.1:9092 is not an address of this machine\n")


def test_a_data_path_that_cannot_be_exits_1_and_is_named(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in ("file", "file/below"):
        code, out, err = start("--data", path).end()
        assert (code, out) == (1, "")
        assert re.fullmatch(rf"tierlog: {tmp_path}/file\S*: Not a directory\n", err)


def test_an_unknown_key_exits_2_with_the_nearest_known_name(tierlog: Cli) -> None:
    outcome = tierlog("serve", "--set", "log.segmant.bytes=1")
    assert (outcome.code, outcome.out) == (2, "")
    assert "did you mean log.segment.bytes?" in outcome.err


def test_an_unknown_option_exits_2(tierlog: Cli) -> None:
    assert tierlog("serve", "--lissten", "x").code == 2
    assert tierlog("served").code == 2
    assert tierlog("topic", "list", "--nope").code == 2


def test_a_topic_name_in_set_gets_a_hint(tierlog: Cli) -> None:
    outcome = tierlog("serve", "--set", "segment.bytes=1048576")
    assert outcome.code == 2
    assert "the node's default for it is log.segment.bytes" in outcome.err


def test_a_listener_for_other_machines_exits_2_and_says_what_to_do(tierlog: Cli) -> None:
    outcome = tierlog("serve", "--listen", "0.0.0.0:9092")
    assert outcome.code == 2
    assert "--set listener.insecure=true" in outcome.err


def test_a_store_that_cannot_be_one_exits_2(tierlog: Cli, tmp_path: Path) -> None:
    outcome = tierlog("serve", "--store", "ftp://x")
    assert (outcome.code, outcome.out) == (2, "")
    assert "store is 'ftp://x'; it must be" in outcome.err
    (tmp_path / "link").symlink_to(tmp_path)
    for folder in ("data", "data/store", "data/../data", "link/data/store"):
        store = f"file://{tmp_path}/{folder}"
        outcome = tierlog("serve", "--data", str(tmp_path / "data"), "--store", store)
        assert outcome.code == 2
        assert "must lie side by side" in outcome.err


def test_a_file_that_cannot_be_read_exits_2(tierlog: Cli, tmp_path: Path) -> None:
    assert "No such file" in tierlog("serve", "--config", str(tmp_path / "none.toml")).err
    bad = tmp_path / "bad.toml"
    bad.write_text("a = = b")
    outcome = tierlog("serve", "--config", str(bad))
    assert outcome.code == 2
    assert outcome.err.startswith(f"tierlog: {bad}: ")


def test_set_then_environment_then_file_then_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "node.toml"
    file.write_text("num.partitions = 2\nlog.roll.ms = 2\n[log.segment]\nbytes = 2048\n")
    monkeypatch.setenv("TIERLOG_NUM_PARTITIONS", "3")
    monkeypatch.setenv("TIERLOG_LOG_ROLL_MS", "3")
    settings = settings_of(ServeOptions(config=file, sets=("num.partitions=4",)))
    assert (settings.num_partitions, settings.log_roll_ms) == (4, 3)
    assert (settings.log_segment_bytes, settings.message_max_bytes) == (2048, 1_048_588)


def test_the_defaults_are_those_of_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = settings_of(ServeOptions())
    assert settings.data == f"{tmp_path}/tierlog-data"
    assert settings.store == f"file://{tmp_path}/tierlog-data-store"
    assert (settings.listen, settings.http) == ("127.0.0.1:9092", "127.0.0.1:8080")
    assert (settings.advertise, settings.node_id) == ("", 1)
    assert not settings.tierlog_new_cluster


def test_every_option_reaches_its_setting() -> None:
    settings = settings_of(
        ServeOptions(
            data="/d",
            store="s3://bucket/prefix",
            listen="127.0.0.1:1",
            http="off",
            advertise="example.org:2",
            node_id=3,
            new_cluster=True,
            sets=("s3.endpoint=http://127.0.0.1:9000",),
        )
    )
    assert (settings.data, settings.store) == ("/d", "s3://bucket/prefix")
    assert (settings.listen, settings.http) == ("127.0.0.1:1", "off")
    assert (settings.advertise, settings.node_id) == ("example.org:2", 3)
    assert settings.tierlog_new_cluster
    assert settings.s3_endpoint == "http://127.0.0.1:9000"
