"""A soak in a minute: every fault once, everything gone after each, real clients all the time."""

from pathlib import Path

import pytest

from tests.soak.shelves import shelf_of
from tests.soak.soak import in_rounds
from tests.soak.tempo import SHORT
from tests.soak.world import World

SEED = 1


@pytest.mark.slow
@pytest.mark.compat
def test_nothing_is_lost_and_nothing_piles_up_whatever_happens_to_a_node(tmp_path: Path) -> None:
    with shelf_of("folder", tmp_path) as shelf, World(tmp_path, shelf, SHORT) as world:
        report = in_rounds(world, seed=SEED, say=print)
    assert not report.problems
    assert report.checked > report.acked
