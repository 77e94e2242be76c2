"""`tierlog node`: what a node says of itself, and sentences where none does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, serving
from tests.cli.served import starting
from tierlog.cli.node import (
    FAILING_MAX,
    disk_line,
    failing_rows,
    show_age,
    summary,
    tier_line,
    topic_rows,
)

DISK: dict[str, Any] = {
    "path": "/data/log",
    "free_bytes": 70_500_000_000,
    "total_bytes": 270_000_000_000,
    "throttle_below_bytes": 27_000_000_000,
    "refuse_below_bytes": 13_500_000_000,
    "is_refusing": False,
    "throttle_ms": 0,
}
PARTITION = {"segments": 2, "log_start": 5, "log_end": 25, "bytes": 1500}
STATE: dict[str, Any] = {
    "node_id": 3,
    "cluster_id": "c-1",
    "version": "1.2",
    "phase": "serving",
    "fault": None,
    "uptime_s": 62.3,
    "addresses": {"http": "127.0.0.1:8080", "kafka": "127.0.0.1:9092"},
    "store": "file:///store",
    "disk": DISK,
    "connections": {
        "open": 2,
        "accepted": 1234,
        "refused": 0,
        "received_bytes": 1000,
        "sent_bytes": 2_000_000,
    },
    "requests": {
        "Produce": {"requests": 4, "errors": 1, "seconds": 0.01},
        "Fetch": {"requests": 1000, "errors": 0, "seconds": 20.0},
    },
    "topics": [
        {
            "name": name,
            "produced_bytes": 3000,
            "fetched_bytes": 0,
            "partitions": [PARTITION, PARTITION],
        }
        for name in ("orders", "bills")
    ],
}


def answer(state: object, status: str = "200 OK") -> bytes:
    body = json.dumps(state).encode()
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def test_people_see_the_node_its_requests_and_its_topics(tierlog: Cli) -> None:
    with serving(answer(STATE)) as place:
        outcome = tierlog("node", "--http", place)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.lines == [
        "node         3, serving for 1:02",
        "version      1.2",
        "cluster      c-1",
        "addresses    http 127.0.0.1:8080, kafka 127.0.0.1:9092",
        "data         /data/log",
        "store        file:///store",
        "disk         70.5 GB of 270 GB free; writes are slowed below 27.0 GB, refused below "
        "13.5 GB",
        "connections  2 open, 1,234 accepted, 0 refused; 1.0 kB received, 2.0 MB sent",
        "",
        "requests  count  errors  mean ms",
        "Produce       4       1      2.5",
        "Fetch      1000       0     20.0",
        "",
        "topic   partitions  segments  offsets    size  produced  fetched",
        "bills            2         4       40  3.0 kB    3.0 kB      0 B",
        "orders           2         4       40  3.0 kB    3.0 kB      0 B",
    ]


def test_programs_get_the_answer_as_it_came(tierlog: Cli) -> None:
    with serving(answer(STATE)) as place:
        assert json.loads(tierlog("node", "--http", f"http://{place}/", "--json").out) == STATE


def test_a_node_without_topics_and_requests_has_no_tables(tierlog: Cli) -> None:
    with serving(answer({**STATE, "requests": {}, "topics": []})) as place:
        assert len(tierlog("node", "--http", place).lines) == 8


def test_what_is_wrong_is_in_sight() -> None:
    assert "fault        the disk is gone" in summary({**STATE, "fault": "the disk is gone"})
    assert disk_line({**DISK, "is_refusing": True}).endswith("below 13.5 GB: REFUSED NOW")
    assert disk_line({**DISK, "throttle_ms": 40}).endswith("below 13.5 GB: slowed by 40 ms now")


def test_a_node_that_does_not_listen_yet_has_few_numbers() -> None:
    assert summary({**STATE, "connections": {"open": 0}})[-1] == "connections  0 open"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59.9, "0:59"), (3723, "1:02:03"), (86_400, "1 day 0:00"), (273_906, "3 days 4:05:06")],
)
def test_an_age_names_its_days(seconds: float, text: str) -> None:
    assert show_age(seconds) == text


def test_where_nothing_answers_a_sentence_says_what_to_do(tierlog: Cli) -> None:
    outcome = tierlog("node", "--http", "127.0.0.1:1")
    assert (outcome.code, outcome.err) == (
        1,
        "tierlog: nothing answers at 127.0.0.1:1 (connection refused); start a node with `tierlog "
        "serve --http 127.0.0.1:1`, or name another address with --http\n",
    )


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (b"", "speaks no HTTP"),
        (b"\0\0\0\5hello", "speaks no HTTP"),
        (answer(STATE, "404 Not Found"), "is no node of tierlog"),
        (answer([]), "is no node of tierlog"),
        (answer({"status": "ok"}), "is no node of tierlog"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "is no node of tierlog"),
    ],
)
def test_whatever_else_listens_there_is_told_apart(
    tierlog: Cli, said: bytes, complaint: str
) -> None:
    with serving(said) as place:
        outcome = tierlog("node", "--http", place)
    assert outcome.code == 1
    assert outcome.err.startswith(f"tierlog: what answers at {place} {complaint}; give --http")


@pytest.mark.parametrize("place", ["off", "127.0.0.1", "127.0.0.1:0", "::1:8080", "https://x:1"])
def test_an_address_that_is_none_is_a_usage_error(tierlog: Cli, place: str) -> None:
    outcome = tierlog("node", "--http", place)
    assert (outcome.code, outcome.err) == (
        2,
        f"tierlog: --http is '{place}'; it must be HOST:PORT, as 127.0.0.1:8080\n",
    )


def test_it_needs_neither_server_nor_client() -> None:
    script = "import sys, tierlog.cli.node; print([*sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for room in ("server", "broker", "client", "wire", "http"):
        assert f"'tierlog.{room}'" not in ran.stdout


def test_a_real_node_is_shown(tierlog: Cli, tmp_path: Path) -> None:
    with starting(tmp_path) as start:
        ready = start().ready()
        kafka, place = ready[1], ready[2]
        tierlog("topic", "create", "orders", "-p", "3", "--bootstrap", kafka)
        shown = tierlog("node", "--http", place)
        state = json.loads(tierlog("node", "--http", place, "--json").out)
    assert shown.code == 0
    assert shown.lines[0].startswith("node         1, serving for 0:")
    assert f"addresses    http {place}, kafka {kafka}" in shown.lines
    assert shown.lines[-1].split()[:4] == ["orders", "3", "3", "0"]
    assert topic_rows(state)[0]["size"] == "0 B"


TIER: dict[str, Any] = {
    "is_ready": True,
    "trouble": None,
    "uploads": {"uploaded_bytes": 52_000_000, "dropped_bytes": 40_000_000},
    "reads": {"read_bytes": 3_000},
    "requests": {
        "put": {"requests": 1200, "errors": 1},
        "get": {"requests": 34, "errors": 0},
    },
}
COLD = {
    **PARTITION,
    "index": 1,
    "cold_bytes": 26_000_000,
    "upload_lag_ms": 61_000,
    "backlog_bytes": 5000,
    "upload_error": None,
}


def with_tier(*partitions: dict[str, Any], **others: Any) -> dict[str, Any]:
    topic = {**STATE["topics"][0], "partitions": list(partitions)}
    untiered = {**STATE["topics"][0], "name": "local"}
    return {**STATE, "tier": {**TIER, **others}, "topics": [topic, untiered]}


def test_people_see_what_is_in_the_store_and_what_waits_for_it(tierlog: Cli) -> None:
    with serving(answer(with_tier(COLD, {**COLD, "upload_lag_ms": 0}))) as place:
        lines = tierlog("node", "--http", place).lines
    assert (
        "cold tier    52.0 MB uploaded, 40.0 MB dropped locally, 3.0 kB read; 1,234 requests, "
        "1 failed"
    ) in lines
    assert lines[-3:] == [
        "topic   partitions  segments  offsets    size     cold   lag  produced  fetched",
        "local            2         4       40  3.0 kB                   3.0 kB      0 B",
        "orders           2         4       40  3.0 kB  52.0 MB  1:01    3.0 kB      0 B",
    ]
    assert max(map(len, lines[-3:])) <= 80


def test_people_see_why_nothing_is_uploaded() -> None:
    trouble = "uploads wait: the store is away"
    assert tier_line({**TIER, "trouble": trouble}).startswith(f"{trouble}; 52.0 MB uploaded")
    failing = with_tier(COLD, {**COLD, "upload_error": "it diverged"})
    assert failing_rows(failing) == [
        {"not uploaded": "orders-1", "waiting": "5.0 kB", "because": "it diverged"}
    ]
    assert len(failing_rows(with_tier(*([{**COLD, "upload_error": "x"}] * 99)))) == FAILING_MAX
