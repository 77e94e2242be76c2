"""Every planted bug is caught by its pinned seed, and the same seed is clean without it."""

import logging

import pytest

from tests.planted.bugs import BUGS, Bug


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug) -> None:
    logging.disable(logging.WARNING)
    try:
        assert bug.hunt(bug.seed) is None, "the seed must be clean without the bug"
        with bug.plant():
            assert bug.hunt(bug.seed) is not None, "the net has a hole"
    finally:
        logging.disable(logging.NOTSET)
