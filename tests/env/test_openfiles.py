"""Asking for more open files."""

import resource

import pytest

from tierlog.env import raise_files_max

INFINITY = resource.RLIM_INFINITY


class Limits:
    """The kernel's, without touching this process."""

    def __init__(self, soft: int, hard: int, *, refuses: bool = False) -> None:
        self.now = (soft, hard)
        self._refuses = refuses

    def get(self, _: int) -> tuple[int, int]:
        return self.now

    def set(self, _: int, wanted: tuple[int, int]) -> None:
        if self._refuses:
            raise ValueError("not allowed to raise maximum limit")
        self.now = wanted


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "told", "after"),
    [
        (1024, 4096, 3000, 3000, 3000),
        (1024, 4096, 9000, 4096, 4096),
        (1024, INFINITY, 9000, 9000, 9000),
        (8000, 9000, 3000, 8000, 8000),
        (INFINITY, INFINITY, 3000, 3000, INFINITY),
    ],
)
def test_the_soft_limit_rises_to_what_is_wanted_and_allowed(
    soft: int, hard: int, wanted: int, told: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(soft, hard)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    assert raise_files_max(wanted) == told
    assert limits.now == (after, hard)


def test_a_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(1024, 4096, refuses=True)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    assert raise_files_max(3000) == 1024
