"""Every planted bug is caught by its pinned seed, and the same seed is clean without it."""

import logging
from collections.abc import Iterator

import pytest

from tests.planted.bugs import Bug
from tests.planted.search import ALL, find


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug) -> None:
    found = find(bug, range(bug.seed, bug.seed + bug.tries))
    assert found is not None, "the net has a hole"
    assert bug.hunt(found[0]) is None, "the seed must be clean without the bug"
