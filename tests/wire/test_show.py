"""The little command that shows a codec."""

from __future__ import annotations

import pytest

from tierlog.wire.show import main


def test_fields_and_source_of_a_version_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Fetch", "12"]) == 0
    shown = capsys.readouterr().out
    assert "FetchRequest v12 (flexible" in shown
    assert "      current_leader_epoch: int32" in shown
    assert "cluster_id: string, nullable, tag 0" in shown
    assert "def read(buf" in shown
    assert "def write(m)" in shown


@pytest.mark.parametrize("arguments", [["Fetch", "99"], ["Nonsense", "1"]])
def test_what_has_no_schema_is_said(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert "no schema" in capsys.readouterr().err


def test_wrong_arguments_show_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
