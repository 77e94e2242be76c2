"""The command line as a whole: help, codes, sentences instead of traces."""

import os
import re
import subprocess
import sys

import pytest

from tests.cli.conftest import Cli, serving
from tests.compat.recorder import Recorder

COMMANDS = [
    (),
    ("serve",),
    ("topic",),
    ("topic", "create"),
    ("topic", "list"),
    ("topic", "describe"),
    ("topic", "alter"),
    ("topic", "delete"),
    ("node",),
    ("produce",),
    ("consume",),
]
STORE_COMMANDS = [("store",), ("store", "ls"), ("store", "stat"), ("store", "cat"), ("explain",)]
COST_COMMANDS = [
    ("cost",),
    *(
        ("cost", each)
        for each in (
            "plan",
            "diff",
            "compare",
            "sensitivity",
            "montecarlo",
            "break-even",
            "growth",
            "optimise",
            "estimate",
            "prices",
            "inputs",
            "actual",
            "quote",
        )
    ),
    ("cost", "quote", "replay"),
]
"""They ask no broker."""

HEAVY = ["tierlog.server", "tierlog.hot", "tierlog.wire", "tierlog.client", "tierlog.records"]
HEAVY += ["cost_model", "numpy", "yaml", "altair", "marimo"]


def test_help_imports_neither_server_nor_client() -> None:
    script = (
        "import sys\n"
        "from tierlog.cli import main\n"
        "sys.argv = ['tierlog', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted(sys.modules))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    usage, _, modules = ran.stdout.rpartition("\n[")
    assert usage.startswith("Usage: tierlog")
    assert "'tierlog.cli.app'" in modules
    assert not [name for name in HEAVY if f"'{name}'" in modules]
    assert "'asyncio'" not in modules


@pytest.mark.parametrize("command", COMMANDS + COST_COMMANDS + STORE_COMMANDS, ids=" ".join)
def test_every_command_has_help(tierlog: Cli, command: tuple[str, ...]) -> None:
    outcome = tierlog(*command, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"Usage: tierlog{''.join(f' {word}' for word in command)}")


TALKING = [each for each in COMMANDS if each not in {(), ("serve",), ("topic",), ("node",)}]


@pytest.mark.parametrize("command", TALKING, ids=" ".join)
def test_commands_that_talk_to_a_cluster_take_bootstrap_and_json(
    tierlog: Cli, command: tuple[str, ...]
) -> None:
    shown = tierlog(*command, "--help").out
    assert "--bootstrap HOST:PORT" in shown
    assert "127.0.0.1:9092" in shown
    assert "--json" in shown


@pytest.mark.parametrize(
    "command", [("topic", "list"), ("topic", "create", "t"), ("produce", "t"), ("consume", "t")]
)
def test_where_no_broker_answers_a_sentence_says_what_to_do(
    tierlog: Cli, command: tuple[str, ...]
) -> None:
    outcome = tierlog(*command, "--bootstrap", "127.0.0.1:1")
    assert outcome.code == 1
    assert outcome.err == (
        "tierlog: no broker answers at 127.0.0.1:1 (connection refused); start one with "
        "`tierlog serve`, or name another with --bootstrap\n"
    )


def test_a_port_that_speaks_something_else_is_told_from_one_where_nobody_is(tierlog: Cli) -> None:
    with serving(b"HTTP/1.1 400 Bad Request\r\n\r\n") as place:
        outcome = tierlog("topic", "list", "--bootstrap", place)
    assert outcome.code == 1
    assert outcome.err.startswith(
        f"tierlog: no broker answers at {place} (it speaks HTTP, not Kafka's protocol); "
    )


def test_of_several_addresses_each_has_its_cause(tierlog: Cli) -> None:
    with serving(b"HTTP/1.1 400 Bad Request\r\n\r\n") as place:
        outcome = tierlog("topic", "list", "--bootstrap", f"[::1]:1,{place}")
    assert outcome.err.startswith("tierlog: no broker answers at any address ([::1]:1: ")
    assert f"; {place}: it speaks HTTP, not Kafka's protocol);" in outcome.err


def test_of_several_brokers_one_that_answers_is_enough(cli: Cli, broker: Recorder) -> None:
    several = f"127.0.0.1:1,127.0.0.1:{broker.world.port}"
    assert cli("topic", "create", "t", "--bootstrap", several).code == 0


@pytest.mark.parametrize("place", ["nonsense", "127.0.0.1:0", "127.0.0.1:9092,", "::1:9092"])
def test_a_bootstrap_that_is_no_address_is_a_usage_error(tierlog: Cli, place: str) -> None:
    outcome = tierlog("topic", "list", "--bootstrap", place)
    assert outcome.code == 2
    assert outcome.err.startswith("tierlog: --bootstrap is '")


def test_a_url_is_no_bootstrap_and_hears_what_to_write(tierlog: Cli) -> None:
    outcome = tierlog("topic", "list", "--bootstrap", "http://x:1/")
    assert (outcome.code, outcome.err) == (
        2,
        "tierlog: --bootstrap is 'http://x:1/'; it is no URL: write x:1\n",
    )


def test_the_version_is_printed(tierlog: Cli) -> None:
    assert re.fullmatch(r"tierlog \d+\.\d+\S*\n", tierlog("--version").out)


def test_a_reader_that_has_enough_ends_consume_quietly(broker: Recorder, cli: Cli) -> None:
    broker.world.create("t", 1)
    cli("produce", "t", stdin=b"x" * 100 + b"\n" * 500)
    environment = {**os.environ, "TIERLOG_BOOTSTRAP": f"127.0.0.1:{broker.world.port}"}
    source, sink = os.pipe()
    os.close(source)
    ran = subprocess.run(
        [sys.executable, "-m", "tierlog", "consume", "t"],
        stdout=sink,
        stderr=subprocess.PIPE,
        env=environment,
        check=False,
    )
    os.close(sink)
    assert (ran.returncode, ran.stderr) == (0, b"")
