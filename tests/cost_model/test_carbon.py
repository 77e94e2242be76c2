"""Energy and carbon of stored bytes."""

import pytest

from cost_model.carbon import footprint


@pytest.mark.parametrize(
    ("disk", "store", "kwh", "tonnes"), [(0.0, 100e12, 1939, 0.735), (300e12, 0.0, 7159, 2.714)]
)
def test_a_hundred_terabytes_for_a_year_in_the_store_and_on_replicated_disks(
    disk: float, store: float, kwh: float, tonnes: float
) -> None:
    found = footprint(disk_bytes=disk, store_bytes=store)
    assert found.kwh_year == pytest.approx(kwh, abs=1)
    assert found.tonnes_year == pytest.approx(tonnes, abs=0.001)
