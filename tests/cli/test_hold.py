"""`tierlog hold` against a node with a cold topic, and sentences where it cannot."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, serving
from tests.cli.test_node import answer
from tests.compat.cold import Place, create_cold, wait_cold
from tierlog.cli import hold
from tierlog.cli.hold import missing, new_id, offsets

PLACED = {"partition": 0, "start": 5, "end": None, "error": None, "is_retriable": False}
AWAY = {"partition": 1, "start": None, "end": None, "error": "away", "is_retriable": True}


def test_offsets_are_shown_with_their_end_if_they_have_one() -> None:
    assert offsets(PLACED) == "5 on"
    assert offsets(PLACED | {"end": 90}) == "5-89"
    assert offsets(AWAY) == ""


def test_what_is_missing_is_told_with_what_helps() -> None:
    again = "run it again with --id x"
    assert missing([PLACED], "x", "placed", again) is None
    assert missing([PLACED, AWAY], "x", "placed", again) == (
        "hold x was not placed on 1 of 2 partitions; once the store answers, run it again with "
        "--id x: what is done stays done"
    )
    for_good = AWAY | {"is_retriable": False}
    assert missing([for_good], "x", "placed", again) == "hold x was not placed on 1 of 1 partitions"


def test_a_release_that_is_not_done_is_told_by_partition(tierlog: Cli) -> None:
    said = {"detail": "?", "topic": "t", "id": "x", "partitions": [PLACED, AWAY]}
    with serving(answer(said, "503 Service Unavailable")) as place:
        outcome = tierlog("hold", "release", "t", "x", "--http", place)
    assert outcome.code == 1
    assert outcome.lines == [
        "hold x on t",
        "partition  offsets  result",
        "        0  5 on     released",
        "        1           not released: away",
    ]
    assert outcome.err == (
        "tierlog: hold x was not released on 1 of 2 partitions; once the store answers, run it "
        "again: what is done stays done\n"
    )


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (answer({"detail": "there is no topic 'x'"}, "404 Not Found"), "there is no topic 'x'\n"),
        (
            answer({"detail": "?", "routes": ["/state"]}, "404 Not Found"),
            "the node at {place} is older than `tierlog hold`\n",
        ),
        (answer([]), "what answers at {place} is no node of tierlog; give --http the "),
    ],
)
def test_what_a_node_refuses_is_told_in_its_words(tierlog: Cli, said: bytes, sentence: str) -> None:
    with serving(said) as place:
        outcome = tierlog("hold", "list", "x", "--http", place)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("tierlog: " + sentence.format(place=place))


def test_a_list_says_what_is_left_out_and_what_is_not_known(
    tierlog: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"topic": "t", "partition": 0, "id": "x", "start": 5, "end": None, "reason": "why"}
    body: dict[str, Any] = {
        "holds": [row | {"is_placed": False}],
        "left_out": 3,
        "unknown": ["u-1"],
    }
    monkeypatch.setattr(hold, "ask", lambda *_, **__: (200, json.dumps(body)))
    outcome = tierlog("hold", "list")
    assert outcome.lines[1] == "t              0  x   5 on     why (not known to be placed)"
    assert "and 3 more" in outcome.err
    assert "what is held of u-1 is not known yet" in outcome.err


def test_ids_are_new_each_time() -> None:
    assert new_id() != new_id()
    assert new_id().startswith("hold-")


@pytest.mark.compat
def test_a_hold_is_placed_seen_kept_and_released(tmp_path: Path, tierlog: Cli) -> None:
    with Place(name="folder").running(tmp_path) as node:
        create_cold(node.address, "orders")
        at, http = ("--bootstrap", node.address), ("--http", node.http)
        lines = b"".join(b"%060d\n" % number for number in range(200))
        assert tierlog("produce", "orders", *at, stdin=lines).code == 0
        wait_cold(node, "orders")
        assert tierlog("hold", "list", *http).err == "nothing is on hold\n"
        words = ("hold", "place", "orders", *at, *http, "--reason", "an audit", "--id", "audit-1")
        placed = tierlog(*words, "--from", "10")
        assert (placed.code, placed.lines[0]) == (0, "hold audit-1 on orders")
        assert placed.lines[2].split() == ["0", "10", "on", "placed"]
        again = tierlog(*words, "--from", "10", "--json")
        assert json.loads(again.out)["is_done"] is True
        other = tierlog(*words, "--from", "0")
        assert (other.code, "there is a hold audit-1 already" in other.out) == (1, True)
        assert "audit-1  10 on    an audit" in tierlog("hold", "list", "orders", *http).out
        shown = tierlog("explain", "orders", *http).out
        assert "on hold: audit-1" in shown
        assert "hold audit-1 until released" in shown
        refused = tierlog("topic", "delete", "orders", "--yes", *at)
        assert (refused.code, "POLICY_VIOLATION" in refused.err) == (1, True)
        by_time = ("--from", "1d", "--to", "now", "--json")
        timed = tierlog(*words[:-1], "audit-2", *by_time)
        (row,) = json.loads(timed.out)["partitions"]
        assert (row["start"], row["end"]) == (0, 200)
        for bad in (("--from", "-5"), ("--to", "2999-01-01"), ("--from", "yesterday")):
            assert tierlog(*words, *bad).code == 2
        assert "has no partition 9" in tierlog(*words, "--partition", "9").err
        assert "there is no topic none" in tierlog(*words[:2], "none", *words[3:]).err
        assert "has no hold 'nope'" in tierlog("hold", "release", "orders", "nope", *http).err
        for one in ("audit-1", "audit-2"):
            assert tierlog("hold", "release", "orders", one, *http).code == 0
        assert tierlog("topic", "delete", "orders", "--yes", *at).code == 0
