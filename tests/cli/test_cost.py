"""`tierlog cost ...`: what it prints, and how it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.minio.lifecycle import losing_rules
from tests.cli.conftest import Cli
from tierlog.cli.cost_views import folded

EXAMPLES = Path(__file__).parents[2] / "examples" / "cost"
PRICES = Path(__file__).parents[2] / "cost_model" / "data" / "prices.json"
THREE_LINES = str(EXAMPLES / "three-lines.yaml")
COMPLIANCE = str(EXAMPLES / "compliance.yaml")


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text("workload:\n  write: 30 MB/s\n  retention: 30 d\n")
    return path


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_has_a_bill_whose_parts_make_its_total(tierlog: Cli, path: Path) -> None:
    outcome = tierlog("cost", "plan", "-f", str(path), "--json")
    assert outcome.code == 0
    bill = json.loads(outcome.out)["bill"]
    parts = sum(float(group["usd_month"]) for group in bill["groups"])
    assert parts == pytest.approx(float(bill["usd_month"]))
    assert float(bill["usd_month"]) > 0


def test_three_lines_are_enough_for_a_bill(tierlog: Cli) -> None:
    outcome = tierlog("cost", "plan", "-f", THREE_LINES)
    assert outcome.code == 0
    assert outcome.lines[0].startswith("three-lines: $")
    assert outcome.lines[1].startswith("a month of 730 h; a GB of 2**30 bytes; prices of 20")
    assert outcome.lines[3].startswith("network ")
    assert "confidence A" in outcome.out


def test_explain_shows_every_line_with_its_source(tierlog: Cli) -> None:
    shown = tierlog("cost", "plan", "-f", THREE_LINES, "--explain").out
    assert "x $0.023 = $" in shown
    assert "[A, infracost, 2026-11-16]" in shown
    assert "https://github.com/infracost" in shown


def test_set_changes_inputs(tierlog: Cli, scenario: Path) -> None:
    def total(*sets: str) -> float:
        arguments = [word for each in sets for word in ("--set", each)]
        out = tierlog("cost", "plan", "-f", str(scenario), "--json", *arguments).out
        return float(json.loads(out)["bill"]["usd_month"])

    assert total("workload.write=60 MB/s") > total()
    assert total("tiering.classes=GLACIER_IR") < total()
    assert total("prices.transfer.cross_zone=0", "cluster.replicas=2") < total()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "workload.writ=1"], "workload.writ: unknown input; did you mean write?"),
        (["--set", "workload.write"], "is not of the form input=value"),
        (["--set", "workload.write=30"], "workload.write: 30 has no unit"),
        (["--set", "cluster.instance=x9"], "cluster.instance: 'x9' has no price"),
        (["--prices", THREE_LINES], "is not a price book"),
    ],
)
def test_a_wrong_input_is_a_usage_error_with_a_sentence(
    tierlog: Cli, scenario: Path, words: list[str], says: str
) -> None:
    outcome = tierlog("cost", "plan", "-f", str(scenario), *words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("tierlog: ")
    assert says in outcome.err


def test_a_key_that_is_unknown_gets_the_nearest(tierlog: Cli, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("worklod: {}\n")
    outcome = tierlog("cost", "plan", "-f", str(path))
    assert outcome.code == 2
    assert "worklod: unknown key; did you mean workload? known are billing, " in outcome.err


def test_a_file_that_is_not_there_is_a_failure(tierlog: Cli) -> None:
    outcome = tierlog("cost", "plan", "-f", "/nowhere.yaml")
    assert (outcome.code, outcome.err) == (
        1,
        "tierlog: /nowhere.yaml: No such file or directory\n",
    )


def test_diff_is_markdown(tierlog: Cli, scenario: Path) -> None:
    outcome = tierlog("cost", "diff", THREE_LINES, str(scenario))
    assert outcome.code == 0
    assert outcome.lines[0].startswith("### Cost: up $")
    assert "| workload.retention | 7 d | 30 d |" in outcome.lines


def test_compare_sets_kafka_beside_a_scenario(tierlog: Cli) -> None:
    outcome = tierlog("cost", "compare", THREE_LINES)
    assert outcome.lines[0].split("  ")[-4:] == [
        "three-lines",
        "kafka on disk",
        "kafka tiered",
        "msk tiered",
    ]
    *_, times, empty, ours, dearest, _, _ = outcome.lines
    assert times.startswith("x cheapest")
    assert not empty
    assert dearest == f"kafka on disk  {'█' * 48}"
    assert 10 < ours.count("█") < 48
    two = tierlog("cost", "compare", THREE_LINES, COMPLIANCE, "--json")
    assert [each["name"] for each in json.loads(two.out)] == ["three-lines", "compliance"]
    one = tierlog("cost", "compare", THREE_LINES, "--preset", "kafka", "--json")
    assert len(json.loads(one.out)) == 2
    assert tierlog("cost", "compare", THREE_LINES, "--preset", "kafk").code == 2


def test_sensitivity_draws_the_widest_bar_first(
    tierlog: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    outcome = tierlog("cost", "sensitivity", "-f", COMPLIANCE)
    assert outcome.lines[3].startswith("workload.write")
    assert outcome.lines[3].endswith("█" * 24)
    bars = [line.count("█") for line in outcome.lines[3:-2]]
    assert bars == sorted(bars, reverse=True)
    assert bars[0] == 24 > bars[1]
    assert "more move it by at most" in outcome.lines[-1]
    only = tierlog("cost", "sensitivity", "-f", COMPLIANCE, "--input", "reads.replay", "--json")
    assert [each["path"] for each in json.loads(only.out)] == ["reads.replay"]


def test_long_lines_are_folded_between_words_on_a_terminal() -> None:
    line = "      78.84 TB in objects of 128 MiB x 2 requests, publication included"
    assert folded(line, None) == folded(line, 80) == line
    assert folded(line, 40).splitlines() == [
        "      78.84 TB in objects of 128 MiB x",
        "          2 requests, publication",
        "          included",
    ]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "words",
    [
        ["plan", "-f", COMPLIANCE],
        ["compare", COMPLIANCE],
        ["sensitivity", "-f", COMPLIANCE],
        ["break-even", "-f", COMPLIANCE, "--against", "kafka-tiered"],
        ["growth", "-f", COMPLIANCE, "--years", "8"],
        ["montecarlo", "-f", COMPLIANCE, "--against", "kafka-tiered", "--draws", "200"],
    ],
    ids=lambda words: words[0],
)
def test_what_is_shown_fits_the_terminal(
    words: list[str], columns: int, tierlog: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    outcome = tierlog("cost", *words)
    assert outcome.code == 0
    assert max(map(len, outcome.lines)) < columns


def test_montecarlo_is_reproducible_and_compares(tierlog: Cli) -> None:
    words = ("cost", "montecarlo", "-f", COMPLIANCE, "--draws", "1000", "--seed", "5")
    assert tierlog(*words).out == tierlog(*words).out
    outcome = tierlog(*words, "--against", "kafka-tiered")
    assert "compliance costs less than kafka tiered in 100.0% of draws" in outcome.out
    bare = tierlog("cost", "montecarlo", "-f", THREE_LINES, "--draws", "1000")
    assert bare.code == 0
    assert "no ranges are named (uncertainty:)" in bare.err


def test_montecarlo_says_which_draws_it_cut(tierlog: Cli, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    row = "{low: 1.1, high: 3, shape: lognormal}"
    file.write_text(f"uncertainty:\n  workload.compression: {row}\n")
    outcome = tierlog("cost", "montecarlo", "-f", str(file))
    assert outcome.code == 0
    assert "of the draws of workload.compression lay beyond 1" in outcome.err


def test_break_even_tells_where_or_that_there_is_none(tierlog: Cli) -> None:
    words = ["-f", str(EXAMPLES / "replay-heavy.yaml"), "--against", "kafka-tiered"]
    path = ["--input", "reads.replay"]
    found = tierlog("cost", "break-even", *words, *path, "--from", "1TB", "--to", "2PB")
    assert found.lines[-1].startswith("break-even at reads.replay = ")
    none = tierlog("cost", "break-even", *words, *path, "--from", "1GB", "--to", "1TB")
    assert none.lines[-1].startswith("no break-even in this range: kafka tiered costs less")
    itself = tierlog("cost", "break-even", "-f", THREE_LINES, "--against", THREE_LINES)
    assert itself.lines[-1] == "no break-even in this range: both cost the same all along"
    wrong = tierlog("cost", "break-even", "-f", THREE_LINES, "--against", "nothing")
    assert wrong.code == 2
    assert "neither a file nor one of kafka, kafka-tiered, msk-tiered" in wrong.err


def test_growth_shows_the_end_of_every_year(tierlog: Cli) -> None:
    words = ("cost", "growth", "-f", COMPLIANCE, "--years", "3", "--growth", "20")
    outcome = tierlog(*words)
    assert [line.split()[0] for line in outcome.lines[:5]] == ["month", "1", "12", "24", "36"]
    assert outcome.lines[-1].startswith("all 36 months: $")
    assert len(json.loads(tierlog(*words, "--json").out)["usd"]) == 36


def test_optimise_prints_settings_and_writes_lifecycle_rules(tierlog: Cli, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    words = ("cost", "optimise", "-f", COMPLIANCE, "--first-byte", "1s")
    outcome = tierlog(*words, "--lifecycle", str(rules))
    assert outcome.code == 0
    assert "  retention.ms=220752000000" in outcome.lines
    assert json.loads(rules.read_text())["Rules"][0]["Status"] == "Enabled"
    assert "out of the question: DEEP_ARCHIVE: tierlog cannot read it" in outcome.err
    result = json.loads(tierlog(*words, "--json").out)
    assert float(result["after_usd"]) < float(result["before_usd"])


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_optimise_never_loses_and_never_archives_by_default(tierlog: Cli, path: Path) -> None:
    outcome = tierlog("cost", "optimise", "-f", str(path), "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert float(result["after_usd"]) <= float(result["before_usd"])
    assert losing_rules(result["lifecycle"]["Rules"], "") == []
    assert result["warnings"] == []
    if not result["scenario"]["reads"]["repeat"]:
        assert result["node"]["tierlog.cache.bytes"] == str(10 * 2**30)


def test_optimise_takes_archives_on_request_and_warns(tierlog: Cli) -> None:
    outcome = tierlog("cost", "optimise", "-f", COMPLIANCE, "--archives")
    assert outcome.code == 0
    assert "DEEP_ARCHIVE" in outcome.out
    assert "warning: DEEP_ARCHIVE cannot be read by tierlog" in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        ("plan",),
        ("sensitivity",),
        ("montecarlo", "--draws", "200"),
        ("break-even", "--against", "kafka"),
        ("growth", "--years", "1"),
        ("optimise",),
    ],
    ids=lambda words: words[0],
)
def test_another_price_book_changes_every_answer(
    tierlog: Cli, tmp_path: Path, words: tuple[str, ...]
) -> None:
    book = json.loads(PRICES.read_text())
    book["prices"]["transfer.cross_zone"]["usd"] = 1.0
    other = tmp_path / "prices.json"
    other.write_text(json.dumps(book))
    first, *rest = words
    plain = tierlog("cost", first, "-f", COMPLIANCE, *rest, "--json")
    dear = tierlog("cost", first, "-f", COMPLIANCE, *rest, "--prices", str(other), "--json")
    assert (plain.code, dear.code) == (0, 0)
    assert plain.out != dear.out


def test_optimise_fails_where_nothing_keeps_the_limits(tierlog: Cli) -> None:
    outcome = tierlog("cost", "optimise", "-f", COMPLIANCE, "--first-byte", "1ms")
    assert outcome.code == 1
    assert "nothing keeps these limits" in outcome.out


def test_estimate_reports_exact_values_and_enough_brokers(tierlog: Cli) -> None:
    words = ("cost", "estimate", "--messages-per-day", "5e8", "--groups", "3")
    assert "retained           3.5 TB (3.183 TiB)" in tierlog(*words).lines
    assert json.loads(tierlog(*words, "--json").out)["brokers"] == 3


def test_prices_and_inputs_are_listed_with_their_reasons(tierlog: Cli, tmp_path: Path) -> None:
    assert "0.08" in next(
        line for line in tierlog("cost", "prices").lines if line.startswith("disk.gp3.storage")
    )
    other = tmp_path / "p.json"
    other.write_text(
        PRICES.read_text().replace(
            '"usd": 0.08, "per": "GB-month"', '"usd": 0.09, "per": "GB-month"', 1
        )
    )
    rows = json.loads(tierlog("cost", "prices", "--diff", str(other), "--json").out)
    assert rows == [
        {
            "price": "disk.gp3.storage",
            "here": "0.08 per GB-month",
            "there": "0.09 per GB-month",
        }
    ]
    same = tierlog("cost", "prices", "--diff", str(PRICES))
    assert (same.out, same.err) == ("", "no price differs\n")
    assert any(line.startswith("workload.write") for line in tierlog("cost", "inputs").lines)


def test_without_numpy_a_sentence_says_what_to_install() -> None:
    script = (
        "import sys\n"
        "sys.modules['numpy'] = None\n"
        "from tierlog.cli import main\n"
        f"sys.argv = ['tierlog', 'cost', 'plan', '-f', {THREE_LINES!r}]\n"
        "main()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr == (
        "tierlog: the cost model needs numpy; install it with: pip install 'tierlog[cost]'\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", "-f", COMPLIANCE), "What compliance costs"),
        (("compare", COMPLIANCE), "compliance beside kafka on disk"),
        (("sensitivity", "-f", COMPLIANCE), "What moves the bill of compliance"),
        (("montecarlo", "-f", COMPLIANCE, "--draws", "200"), "How sure the bill of compliance is"),
        (("break-even", "-f", COMPLIANCE, "--against", "kafka"), "compliance or kafka on disk"),
        (("growth", "-f", COMPLIANCE, "--years", "1"), "compliance over the years"),
        (("optimise", "-f", COMPLIANCE), "The cheapest policy for compliance"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_page_is_written_beside_what_is_printed(
    tierlog: Cli, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "report.html"
    outcome = tierlog("cost", *words, "--html", str(file))
    assert outcome.code == 0, outcome.err
    assert outcome.out == tierlog("cost", *words).out
    page = file.read_text()
    assert f"<h1>{said}" in page
    assert "<svg" in page
    assert "<script" not in page
