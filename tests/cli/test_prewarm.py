"""`tierlog prewarm` against a node with a cold topic, and sentences where it cannot."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.compat.cold import Place, create_cold, wait_cold
from tierlog.cli.failure import Refused
from tierlog.cli.prewarm import (
    NOTHING,
    SPANS_CHARACTERS_MAX,
    added,
    check_order,
    parse_size,
    requests_of,
    summary,
)

DONE = {
    "bytes": 3_000_000,
    "here_bytes": 1_000_000,
    "loaded_bytes": 1_500_000,
    "left_bytes": 0,
    "gets": 4,
    "usd": 0.0000016,
    "done": True,
    "error": None,
}


def test_the_summary_says_what_it_took_and_what_did_not_fit() -> None:
    (line,) = summary(DONE, dry_run=False).splitlines()
    assert line == ("loaded 1.5 MB with 4 GETs, $0.000002; 1.0 MB of 3.0 MB were cached before")
    first, rest = summary({**DONE, "left_bytes": 500_000}, dry_run=True).splitlines()
    assert first.startswith("would load 1.5 MB")
    assert rest.startswith("500 kB did not fit")


@pytest.mark.parametrize(
    ("text", "size"), [("12", 12), ("500MB", 500_000_000), ("1.5 KiB", 1536), ("2gib", 2 << 30)]
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-5", "5 tb", "1e9"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse_size(text)


def test_many_spans_go_in_as_many_requests_as_it_takes() -> None:
    spans = {each: (10**17, 10**17 + each) for each in range(5000)}
    pieces = list(requests_of(spans))
    assert max(map(len, pieces)) <= SPANS_CHARACTERS_MAX
    assert ",".join(pieces) == ",".join(f"{n}:{a}-{b}" for n, (a, b) in spans.items())
    assert list(requests_of({3: (1, 2)})) == ["3:1-2"]


def test_what_several_requests_took_is_added_up() -> None:
    both = added(added(NOTHING, DONE), {**DONE, "left_bytes": 7, "error": "503"})
    assert both == {
        "bytes": 6_000_000,
        "here_bytes": 2_000_000,
        "loaded_bytes": 3_000_000,
        "left_bytes": 7,
        "gets": 8,
        "usd": pytest.approx(0.0000032),
        "done": True,
        "error": "503",
    }


@pytest.mark.parametrize(
    ("start", "end"),
    [("5", "3"), ("5", "5"), ("-3", "-5"), ("end", "beginning"), ("1h", "2h"), ("@9", "@8")],
)
def test_a_range_that_ends_before_it_begins_is_refused(start: str, end: str) -> None:
    with pytest.raises(Refused, match="is not before"):
        check_order(start, end, now_ms=10**12)


@pytest.mark.parametrize(
    ("start", "end"), [("3", "5"), ("-5", "-3"), ("2h", "1h"), ("5", "1h"), ("5", "-3")]
)
def test_what_may_make_sense_is_let_through(start: str, end: str) -> None:
    check_order(start, end, now_ms=10**12)


@pytest.mark.compat
def test_a_cold_topic_is_priced_loaded_and_then_read_without_a_get(
    tmp_path: Path, tierlog: Cli
) -> None:
    with Place(name="folder").running(tmp_path) as node:
        create_cold(node.address, "orders")
        at = ("--bootstrap", node.address)
        lines = b"".join(b"%060d\n" % number for number in range(200))
        assert tierlog("produce", "orders", *at, stdin=lines).code == 0
        wait_cold(node, "orders")
        words = ("prewarm", "orders", *at, "--http", node.http, "--json")
        priced = json.loads(tierlog(*words, "--dry-run").out)
        assert priced["loaded_bytes"] > 200 * 60
        assert priced["usd"] == pytest.approx(priced["gets"] * 0.0000004)
        loaded = json.loads(tierlog(*words).out)
        assert loaded == {**priced, "done": True}
        assert len(tierlog("consume", "orders", *at).lines) == 200
        clients = {one["client"]: one for one in node.state()["tier"]["clients"]}
        assert clients["(prewarm)"]["gets"] == priced["gets"]
        assert clients["tierlog-cli"]["gets"] == 0
        backwards = tierlog(*words, "--from", "5", "--to", "3")
        assert (backwards.code, backwards.out) == (2, "")
        behind = tierlog(*words, "--from", "150", "--to", "-100")
        assert (behind.code, behind.out) == (1, "")
        assert "is behind --to -100 in every partition" in behind.err
        again = tierlog(*words[:-1], "--from", "0", "--to", "5m")
        assert again.out.startswith("loaded 0")
        assert "cold reader" in tierlog("node", "--http", node.http).out
        missing = tierlog(*words, "--partition", "9")
        assert (missing.code, missing.out) == (1, "")
        assert "has no partition 9" in missing.err
        unread = tierlog(*words, "--from", "yesterday")
        assert unread.code == 2
