"""Tables, JSON and the sections of RESULTS.md."""

import json
import math
import platform
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import harness, report
from benchmarks.harness import Row, Spread, Verdict


def spread(value: float) -> Spread:
    return Spread(median=value, low=value, high=value)


def row(variant: str = "ours", verdict: Verdict = Verdict.HELD, note: str = "") -> Row:
    return Row(
        comparison="append",
        variant=variant,
        ratio=spread(0.75),
        cpu_ratio=spread(math.nan),
        units_per_s=spread(1.5e9),
        unit="bytes",
        hold=0.7,
        aim=None,
        verdict=verdict,
        rounds=7,
        repetitions=3,
        note=note,
    )


def test_table_lines_up_and_says_plainly_what_was_missed() -> None:
    lines = report.table([row(), row("a longer name", Verdict.MISSED)]).splitlines()
    assert len({line.index("1,500 MB/s") for line in lines[2:]}) == 1
    assert lines[2].endswith("held")
    assert lines[3].endswith("MISSED")


def test_json_has_null_where_nothing_was_counted(tmp_path: Path) -> None:
    text = report.as_json([row()], harness.quick(tmp_path), report.Machine.here())
    plain = json.loads(text)["rows"][0]
    assert plain["cpu_ratio"] is None
    assert plain["ratio"] == {"median": 0.75, "low": 0.75, "high": 0.75}
    assert plain["verdict"] == "held"


def test_section_names_machine_size_and_notes(tmp_path: Path) -> None:
    machine = report.Machine.here()
    body = report.section([row(note="cold cache")], harness.quick(tmp_path), machine)
    assert machine.cpu in body
    assert "7 rounds" in body
    assert "- append: cold cache" in body


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ("6.18.5-somehost+", "6.18"),
        ("5.15.0-1051-aws", "5.15"),
        ("6.6", "6.6"),
        ("custom", "unknown"),
    ],
)
def test_the_kernel_is_named_by_its_version_alone(release: str, version: str) -> None:
    assert report.kernel_version(release) == version


def test_no_suffix_of_the_kernel_release_reaches_the_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "release", lambda: "6.18.5-somehost+")
    assert "Linux 6.18," in report.Machine.here().sentence().replace(platform.system(), "Linux")


def test_writing_a_section_leaves_the_others_alone(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    report.write_section(path, "one", "first")
    report.write_section(path, "two", "second")
    before = path.read_text()
    report.write_section(path, "one", "third")
    assert path.read_text() == before.replace("first", "third")
    report.write_section(path, "one", "first")
    assert path.read_text() == before


def test_a_section_that_does_not_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text("<!-- bench:one begin -->\nhand-made\n")
    with pytest.raises(ValueError, match="does not end"):
        report.write_section(path, "one", "new")
    assert "hand-made" in path.read_text()


def test_an_unknown_module_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.arguments(["--only", "nonsense"])
    assert stop.value.code == 2
    assert "nonsense" in capsys.readouterr().err


def test_quick_figures_are_not_written_down(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.arguments(["--quick", "--write"])
    assert "full size" in capsys.readouterr().err
