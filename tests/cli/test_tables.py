"""Tables: plain columns, and nothing lost at the edge."""

import sys

import pytest

from tierlog.cli.tables import print_table

ROWS: list[dict[str, object]] = [
    {"setting": "a.long.name.of.a.setting", "value": "9223372036854775807", "from": "default"},
    {"setting": "b", "value": None, "from": "topic"},
]


def test_numbers_and_named_columns_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"topic": "t", "count": 7, "mean_ms": 1.26, "size": "1 B", "replicas": [1, 2]}]
    print_table([*rows, {**rows[0], "size": "1.0 kB"}], right=("size",))
    assert capsys.readouterr().out.splitlines() == [
        "topic  count  mean ms    size  replicas",
        "t          7      1.3     1 B  1,2",
        "t          7      1.3  1.0 kB  1,2",
    ]


def test_a_narrow_terminal_cuts_no_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(ROWS)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "a.long.name.of.a.setting  9223372036854775807  default",
        "b                                              topic",
    ]
