"""Energy and carbon of stored bytes: a location-based estimate with public constants.

Constants of the Cloud Carbon Footprint project lag the grid; they are good for comparing, not for
reporting.
"""

from dataclasses import dataclass

from cost_model.prices import PriceBook, default_book
from cost_model.units import TB

HOURS_A_YEAR = 8_760.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    kwh_year: float
    tonnes_year: float


def footprint(*, disk_bytes: float, store_bytes: float, book: PriceBook | None = None) -> Footprint:
    """Provisioned block storage, which the provider keeps twice; and a store, kept three times."""
    known = (book or default_book()).carbon
    ssd = disk_bytes / TB * known["ssd_wh_per_tb_hour"] * known["replication_ebs"]
    hdd = store_bytes / TB * known["hdd_wh_per_tb_hour"] * known["replication_s3"]
    kwh = (ssd + hdd) / 1000 * HOURS_A_YEAR * known["pue_aws"]
    return Footprint(kwh_year=kwh, tonnes_year=kwh * known["us_east_1_tco2e_per_kwh"])
