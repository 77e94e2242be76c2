"""The forecast of a run, by the formulas that make bills."""

import pytest

from cost_model.calibrate import Run, compared, forecast
from cost_model.units import HOUR, MIB


def run(*, seconds: float) -> Run:
    return Run(bytes=64 * MIB, partitions=4, segment=2 * MIB, seconds=seconds)


def test_a_run_that_is_read_back_once() -> None:
    said = forecast(run(seconds=HOUR))
    assert said["objects"] == pytest.approx(32)
    assert said["bytes written"] == said["bytes read"] == pytest.approx(64 * MIB)
    assert said["GETs"] == pytest.approx(32 * 2)  # A chunk and the index.


@pytest.mark.parametrize(
    ("seconds", "publications"),
    [
        (HOUR, 32),  # A segment a partition every 7.5 minutes: each is published alone.
        (8, 32),  # Exactly one a look.
        (4, 14 + 4),  # Two a look, but for the last of each partition.
        (0.01, 28 / 8 + 4),  # All at once, eight to a publication, and the last ones.
    ],
)
def test_segments_that_wait_together_are_published_together(
    seconds: float, publications: float
) -> None:
    claims = 4  # Of manifests, one a partition.
    assert forecast(run(seconds=seconds))["PUTs"] == pytest.approx(32 + publications + claims)


def test_an_error_is_a_share_of_what_was_counted() -> None:
    objects, gets = compared(run(seconds=HOUR), {"objects": 32, "GETs": 50})
    assert objects.error == pytest.approx(0)
    assert gets.error == pytest.approx(0.28)
