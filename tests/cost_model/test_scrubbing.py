"""The scrubber reads everything for ever, and classes that bill retrieval bill that, too."""

from math import ceil
from pathlib import Path

import pytest

from cost_model import load, plan
from cost_model.policy import node_settings
from cost_model.presets import PRESETS, preset
from cost_model.read import from_dict, parse_input, with_input
from tests.cost_model.support import DECIMAL, bill, part

MONTH_D = 730 / 24
EXAMPLES = Path(__file__).parents[2] / "examples" / "cost"
YEAR_OF_10_MB = {"write": "10 MB/s", "retention": "1 year", "partitions": 1}


@pytest.mark.parametrize(("name", "usd_per_gb"), [("GLACIER_IR", 0.03), ("STANDARD_IA", 0.01)])
def test_every_byte_pays_retrieval_once_in_ninety_days(name: str, usd_per_gb: float) -> None:
    made = bill(workload=YEAR_OF_10_MB, tiering={"classes": name}, billing=DECIMAL)
    held = 10e6 * 365 * 86_400 / 1e9
    paid = part(made, f"scrub of segments in {name}: retrieval")
    assert paid == pytest.approx(held * MONTH_D / 90 * usd_per_gb)


def test_it_reads_in_pieces_of_4_mib_with_a_tail_and_asks_weekly_and_before_it_reads() -> None:
    made = bill(workload=YEAR_OF_10_MB)
    objects = 10e6 * 365 * 86_400 / (128 * 2**20)
    gets = objects * MONTH_D / 90 * (ceil(128 / 4) + 1)
    heads = objects * (MONTH_D / 7 + MONTH_D / 90)
    assert part(made, "scrub of segments in STANDARD: GET") == pytest.approx(gets * 0.4e-6)
    assert part(made, "scrub of segments in STANDARD: HEAD") == pytest.approx(heads * 0.4e-6)


def test_the_bill_of_the_compliance_example_tells_it() -> None:
    made = plan(load(EXAMPLES / "compliance.yaml"))
    retrieval = part(made, "scrub of segments in GLACIER_IR: retrieval")
    assert retrieval == pytest.approx(10_300, rel=0.001)
    assert any("$10,300 a month of retrieval from GLACIER_IR" in each for each in made.warnings)


def test_a_longer_period_costs_less_and_none_nothing() -> None:
    given = load(EXAMPLES / "compliance.yaml")

    def paid(every: str) -> float:
        path = "tiering.scrub_every"
        return part(plan(with_input(given, path, parse_input(path, every))), "scrub of")

    asks = paid("0 d")
    assert paid("360 d") - asks == pytest.approx((paid("90 d") - asks) / 4)
    asked_never = with_input(given, "tiering.scrub_ask_every", 0.0)
    assert part(plan(with_input(asked_never, "tiering.scrub_every", 0.0)), "scrub of") == 0


def test_the_table_is_not_scrubbed() -> None:
    lines = [line.item for line in bill().lines if "scrub" in line.item]
    assert lines
    assert not any("Parquet" in each for each in lines)


def test_archives_are_asked_for_and_not_read() -> None:
    made = bill(workload=YEAR_OF_10_MB, tiering={"classes": "DEEP_ARCHIVE"})
    assert part(made, "scrub of segments in DEEP_ARCHIVE: retrieval") == 0
    assert part(made, "scrub of segments in DEEP_ARCHIVE: HEAD") > 0


def test_what_is_scrubbed_passes_nat_as_well() -> None:
    kept, often = (
        bill(
            workload=YEAR_OF_10_MB,
            tiering={"endpoint": "nat", "scrub_every": every},
            billing=DECIMAL,
        )
        for every in ("0 d", "90 d")
    )
    scrubbed = 10e6 * 365 * 86_400 / 1e9 * MONTH_D / 90
    more = part(often, "NAT: bytes") - part(kept, "NAT: bytes")
    assert more == pytest.approx(scrubbed * 0.045)


@pytest.mark.parametrize("name", PRESETS)
def test_other_systems_have_no_scrubber(name: str) -> None:
    assert part(plan(preset(name, from_dict({}))), "scrub of") == 0


def test_the_period_is_a_setting_of_the_node() -> None:
    made = from_dict({"tiering": {"scrub_every": "1 year"}})
    assert node_settings(made)["tierlog.scrub.byte.period.ms"] == str(365 * 86_400_000)
