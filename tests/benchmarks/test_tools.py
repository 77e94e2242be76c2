"""Where the C tools cannot be built: left out with a sentence, but never in CI."""

import os
import shutil

import pytest

from benchmarks import tools
from benchmarks.harness import Unavailable


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    return monkeypatch


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_the_tools_are_unavailable() -> None:
    with pytest.raises(Unavailable, match="no C compiler"):
        tools.build()


def test_without_a_compiler_ci_fails(no_compiler: pytest.MonkeyPatch) -> None:
    no_compiler.setenv("CI", "true")
    with pytest.raises(tools.RunFailed, match="CI needs one"):
        tools.build()


def test_cpu_seconds_of_a_process_rise() -> None:
    before = tools.cpu_seconds(os.getpid())
    while tools.cpu_seconds(os.getpid()) == before:
        sum(range(10_000))
    assert tools.cpu_seconds(os.getpid()) > before
