"""`tierlog explain`, line by line: of a running node, a pretended one, and the bucket alone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, serving
from tests.cli.served import starting
from tests.cli.test_node import answer
from tests.compat.cold import eventually
from tierlog.cli import explain
from tierlog.cli.explain import told
from tierlog.cold.explanation import topic_value
from tierlog.cold.segmentfacts import Rules, StoreHealth

NOW = 1_800_000_000_000
DAY = 86_400_000
RULES = Rules(retention_ms=7 * DAY, local_retention_ms=600_000)


def row(state: str, base: int, end: int, *reasons: dict[str, Any], **others: Any) -> dict[str, Any]:
    known = {
        "state": state,
        "base": base,
        "next_offset": end,
        "segments": 1,
        "pages": 0,
        "bytes": 1000,
    }
    return {**known, "reasons": list(reasons), **others}


def reason(step: str, why: str, **others: Any) -> dict[str, Any]:
    plain = {"at_ms": None, "until_ms": None, "is_due": False, "bytes_left": None, "detail": ""}
    return {"step": step, "why": why, **plain, **others}


WAITS = reason("upload", "store away", at_ms=NOW + 40_000)
ACTIVE = row(
    "active",
    120,
    130,
    reason("roll", "segment.ms", at_ms=NOW + 720_000),
    reason("roll", "segment.bytes", bytes_left=83_000_000),
)


def partition(*rows: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "partition": 0,
        "log_start": 0,
        "local_start": 100,
        "uploaded_end": 100,
        "high_watermark": 130,
        "cold_bytes": 12_100_000_000,
        "retained_bytes": 12_100_000_000,
        "cold_segments": 96,
        "local_bytes": 2000,
        "local_segments": 2,
        "published_ms": NOW,
        "bytes_per_s": None,
        "error": None,
        "fence": None,
        "holds": [],
        "garbage_pages": {"count": 0, "not_before_ms": -1},
        "problems": [],
        "rows": list(rows),
        "next_after": None,
        **others,
    }


def topic(
    *partitions: dict[str, Any], rules: Rules = RULES, store: StoreHealth | None = None
) -> dict[str, Any]:
    health = store or StoreHealth()
    about = topic_value(name="orders", topic_id="0", now_ms=NOW, rules=rules, store=health)
    found = {"partitions": list(partitions), "partition_count": 1, "next_partition": None}
    return json.loads(json.dumps(about | found))  # type: ignore[no-any-return]  # as it comes


def test_people_see_runs_of_segments_and_why_they_are_there(tierlog: Cli) -> None:
    cold = row("dropped", 0, 100, reason("expire", "hold", detail="H"), segments=96)
    health = StoreHealth(away_since_ms=NOW - 60_000, retry_ms=40_000, error="no route")
    shown = topic(partition(cold, row("sealed", 100, 120, WAITS), ACTIVE), store=health)
    with serving(answer(shown)) as place:
        outcome = tierlog("explain", "orders", "--http", place)
    assert (outcome.code, outcome.err) == (0, "")
    first, second, blank, heading, *rows = outcome.lines
    assert first == (
        "orders: kept 7 days; on the disk 10 min after its upload; objects deleted 24 h after they "
        "expired"
    )
    assert re.fullmatch(
        r"the store is away since \d\d:\d\d:\d\d, tried again in 40 s: no route", second
    )
    assert blank == ""
    assert heading.startswith("partition 0: offsets 0-129 · 12.1 GB in the bucket, published ")
    assert heading.endswith(" · 2.0 kB on the disk")
    assert rows[0] == "     0-99  96 segments  1.0 kB  bucket only  hold H until released"
    assert re.fullmatch(
        r"  100-119    1 segment  1.0 kB  disk only    store away since \S+, tried again in 40 s",
        rows[1],
    )
    assert rows[2] == (
        "  120-129    1 segment  1.0 kB  active       rolls in 12 min (segment.ms) or after 83.0 "
        "MB more (segment.bytes)"
    )


def test_a_narrow_terminal_breaks_lines_between_words_and_never_after_a_number() -> None:
    shown = topic(partition(ACTIVE))
    for width in range(50, 121):
        lines = told(shown, shown["partitions"][0], width=width, every=False)
        assert max(map(len, lines)) <= width
        assert not any(line.endswith(("83.0", " 12")) for line in lines)
    (whole,) = told(shown, shown["partitions"][0], width=10_000, every=False)
    assert " ".join(" ".join(lines).split()) == " ".join(whole.split())


def test_of_many_lines_the_oldest_and_the_newest_are_shown() -> None:
    rows = [row("dropped", number, number + 1) for number in range(100)]
    shown = topic(partition(*rows))
    lines = told(shown, shown["partitions"][0], width=80, every=False)
    assert len(lines) == 41
    assert lines[20] == "  ... 60 lines more: --all shows every segment"
    assert (lines[0].split()[0], lines[-1].split()[0]) == ("0-0", "99-99")
    assert len(told(shown, shown["partitions"][0], width=80, every=True)) == 100


def test_what_is_wrong_stands_below_the_segments_once() -> None:
    failed = reason("upload", "failed", at_ms=NOW + 5000, detail="the log is damaged")
    garbage = {"count": 3, "not_before_ms": NOW + DAY}
    shown = topic(
        partition(
            row("sealed", 0, 9, failed),
            error="the log is damaged",
            problems=["page/1 was not read: away"],
            garbage_pages=garbage,
        )
    )
    lines = told(shown, shown["partitions"][0], width=10_000, every=False)
    assert lines[0].endswith("disk only  failed, tried again in 5 s")
    assert lines[1].startswith("  3 pages of the manifest were replaced: deleted from ")
    assert lines[2:] == ["  ! the log is damaged", "  ! page/1 was not read: away"]


@pytest.mark.parametrize(
    ("rules", "line"),
    [
        (Rules(is_tiered=False), "orders: kept for ever, on the disk only (remote.storage.enable"),
        (Rules(expires=False), "orders: compacted; on the disk 10 min after its upload; objects"),
        (
            Rules(copies=False),
            "orders: kept for ever; on the disk 10 min after its upload; remote.",
        ),
        (Rules(retention_bytes=5_000_000_000), "orders: kept up to 5.0 GB; on the disk 10 min"),
    ],
)
def test_the_first_line_says_how_long_things_are_kept(
    tierlog: Cli, rules: Rules, line: str
) -> None:
    with serving(answer(topic(partition(), rules=rules))) as place:
        assert tierlog("explain", "orders", "--http", place).lines[0].startswith(line)


def test_the_bytes_that_retention_counts_are_told_with_their_limit(tierlog: Cli) -> None:
    cold = row("dropped", 0, 9, bytes=3_200_000_000)
    gone = row("expired", 0, 9, bytes=9_900_000_000)
    shown = topic(
        partition(gone, cold, retained_bytes=3_200_000_000),
        rules=Rules(retention_bytes=5_000_000_000),
    )
    with serving(answer(shown)) as place:
        outcome = tierlog("explain", "orders", "--http", place)
    assert "retention.bytes: 3.2 GB of 5.0 GB used" in outcome.out


def test_a_store_that_was_never_heard_of_or_is_refused_is_told(tierlog: Cli) -> None:
    silent = topic(partition(), store=StoreHealth(away_since_ms=-1))
    with serving(answer(silent)) as place:
        assert tierlog("explain", "orders", "--http", place).lines[1] == (
            "the store has not answered yet, tried again in 0 s"
        )
    lost = StoreHealth(away_since_ms=NOW - 60_000, is_state_lost=True, retry_ms=1000, error="gone")
    with serving(answer(topic(partition(), store=lost))) as place:
        assert re.fullmatch(
            r"the store is without cluster/STATE since \d\d:\d\d:\d\d, tried again in 1 s: gone",
            tierlog("explain", "orders", "--http", place).lines[1],
        )
    lies = topic(partition(), store=StoreHealth(refusal="it lies"))
    with serving(answer(lies)) as place:
        assert tierlog("explain", "orders", "--http", place).lines[1] == (
            "nothing is uploaded any more: it lies"
        )


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            answer({"detail": "there is no topic 'x'", "topic": "x"}, "404 Not Found"),
            "tierlog: there is no topic 'x'; `tierlog topic list` shows which there are\n",
        ),
        (
            answer({"detail": "x has partitions 0 to 3, no '9'"}, "404 Not Found"),
            "tierlog: x has partitions 0 to 3, no '9'\n",
        ),
        (
            answer({"detail": "?", "routes": ["/state"]}, "404 Not Found"),
            "tierlog: the node at {place} is older than `tierlog explain`\n",
        ),
        (answer([]), "tierlog: what answers at {place} is no node of tierlog; give --http the "),
        (answer({}, "500 Oh"), "tierlog: what answers at {place} is no node of tierlog; give "),
    ],
)
def test_what_a_node_refuses_is_told_in_its_words(tierlog: Cli, said: bytes, sentence: str) -> None:
    with serving(said) as place:
        outcome = tierlog("explain", "x", "--http", place)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(sentence.format(place=place))


def test_a_bootstrap_names_the_host_to_ask(tierlog: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(address: object, path: str) -> tuple[int, str]:
        asked.append(f"{address}{path}")
        return 200, json.dumps(topic(partition()))

    monkeypatch.setattr(explain, "ask", ask)
    assert tierlog("explain", "a.b", "3", "--bootstrap", "far:9092").code == 0
    assert tierlog("explain", "a", "--bootstrap", "far:9092", "--http", "near:81").code == 0
    assert asked == ["far:8080/explain/a.b/3", "near:81/explain/a?from=0"]


def test_all_goes_on_until_every_partition_and_segment_was_told(
    tierlog: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(_: object, path: str) -> tuple[int, str]:
        asked.append(path)
        is_first = path.endswith("after=0")
        index = int(path.split("/")[3].split("?")[0])
        base = 0 if is_first else 7
        shown = partition(row("dropped", base, base + 1), next_after=7 if is_first else None)
        value = topic(shown | {"partition": index}) | {"partition_count": 2}
        return 200, json.dumps(value)

    monkeypatch.setattr(explain, "ask", ask)
    outcome = tierlog("explain", "t", "--all")
    assert asked == [f"/explain/t/{index}?after={after}" for index in (0, 1) for after in (0, 7)]
    assert [line.split()[0] for line in outcome.lines if line.startswith("  ")] == [
        "0-0",
        "7-7",
    ] * 2
    assert sum(line.startswith("partition") for line in outcome.lines) == 2
    asked.clear()
    only = tierlog("explain", "t", "1", "--all")
    assert asked == [f"/explain/t/1?after={after}" for after in (0, 7)]
    assert sum(line.startswith("partition 1:") for line in only.lines) == 1


def test_a_running_node_and_its_bucket_tell_the_same_of_what_is_cold(
    tierlog: Cli, tmp_path: Path
) -> None:
    with starting(tmp_path) as start:
        ready = start().ready()
        kafka, http, store = ready[1], ready[2], ready[4]
        settings = ("-c", "segment.bytes=20000", "-c", "local.retention.ms=0")
        assert tierlog("topic", "create", "orders", "--bootstrap", kafka, *settings).code == 0
        lines = tmp_path / "lines"
        lines.write_text("".join(f"{number:0100}\n" for number in range(5000)))
        wrote = tierlog("produce", "orders", "--bootstrap", kafka, "--file", str(lines))
        assert (wrote.code, wrote.err) == (0, "")

        def told() -> Any:
            outcome = tierlog("explain", "orders", "--http", http, "--json")
            assert (outcome.code, outcome.err) == (0, "")
            return json.loads(outcome.out)

        def states() -> list[str]:
            return [row["state"] for row in told()["partitions"][0]["rows"]]

        eventually(lambda: states() == ["dropped", "active"], "all but the last segment is cold")
        first, blank, heading, cold, active = tierlog("explain", "orders", "--http", http).lines
        assert first.startswith("orders: kept 7 days; on the disk 0 s after its upload; objects")
        assert blank == ""
        assert heading.startswith("partition 0: offsets 0-4,999 · ")
        assert re.fullmatch(
            r"  +0-[\d,]+ +\d+ segments +\d+ kB  bucket only  expires \d{4}-\d\d-\d\d \d\d:\d\d"
            r"( to \d\d:\d\d)? \(retention.ms\)",
            cold,
        )
        assert re.fullmatch(
            r"  [\d,]+-4,999 +1 segment +[\d.]+ kB  active +rolls in \d+ min \(segment.ms\) or "
            r"(after [\d.]+ k?B more|with the next batch) \(segment.bytes\)",
            active,
        )
        every = tierlog("explain", "orders", "0", "--all", "--http", http).lines[3:]
        rows = told()["partitions"][0]["rows"]
        assert len(every) == rows[0]["segments"] + 1 > 2
        none = tierlog("explain", "orders", "7", "--all", "--http", http)
        assert (none.code, none.out) == (1, "")
        assert none.err == "tierlog: orders has partitions 0 to 0, no '7'\n"
        offline = tierlog("explain", "orders", "--store", store, "--json")
        bucket = json.loads(offline.out)
        assert bucket["source"] == "bucket"
        (alone,) = bucket["partitions"][0]["rows"]
        for name in ("state", "base", "next_offset", "segments", "bytes"):
            assert alone[name] == rows[0][name]
        people = tierlog("explain", "orders", "--store", store).lines
        assert people[1] == "from the bucket alone: what nodes have on their disks is not known"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["t", "--store", "file:///nowhere/at/all"], 1, "there is no folder /nowhere/at/all; name"),
        (["t", "--store", "ftp://x"], 2, "store is 'ftp://x'; it must be file:///path or s3://"),
        (["t", "--http", "x"], 2, "--http is 'x'; it must be HOST:PORT"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_sentence(
    tierlog: Cli, words: list[str], code: int, sentence: str
) -> None:
    outcome = tierlog("explain", *words)
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith(f"tierlog: {sentence}")
