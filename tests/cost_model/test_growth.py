"""Years by cohorts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_model import InvalidScenario, from_dict, plan
from cost_model.growth import grow

MONTH = 730 * 3600
LADDER = [
    {"class": "STANDARD"},
    {"class": "STANDARD_IA", "after": "30 d"},
    {"class": "GLACIER_IR", "after": "45 d"},
]
FULL = {
    "workload": {"write": "20 MB/s", "retention": "400 d"},
    "tiering": {"classes": LADDER, "noncurrent": "10 d", "encryption": "kms"},
    "reads": {"replay": "10 TB"},
    "erasure": {"requests": 5},
}


@settings(max_examples=30, deadline=None)
@given(
    growth=st.floats(-0.5, 3).filter(lambda g: abs(g) > 1e-6),
    retention=st.integers(1, 60),
    months=st.integers(1, 120),
)
def test_the_stock_is_the_closed_form(growth: float, retention: int, months: int) -> None:
    """w x (e^(gT) - e^(g(T-R))) / g, from an empty bucket."""
    made = from_dict(
        {
            "workload": {"write": "1 MB/s", "retention": f"{retention * 730} h"},
            "parquet": {"enabled": False},
        }
    )
    stock = grow(made, months=months, yearly_growth=growth).stored_bytes
    g = math.log1p(growth) / 12
    since = max(months - retention, 0)
    expected = 1e6 * MONTH * (math.exp(g * months) - math.exp(g * since)) / g
    assert stock[-1] == pytest.approx(expected, rel=1e-9)


def test_without_growth_the_years_end_in_the_steady_month() -> None:
    made = from_dict(FULL)
    assert grow(made, months=40).usd[-1] == pytest.approx(float(plan(made).total), rel=1e-6)


def test_every_line_of_the_steady_month_is_reached() -> None:
    made = from_dict(FULL)
    late = {line.item: line for line in grow(made, months=40).bill.lines}
    for line in plan(made).lines:
        value = np.broadcast_to(np.asarray(late[line.item].usd), 40)[-1]
        assert value == pytest.approx(float(line.amount), rel=1e-6, abs=1e-6), line.item


def test_a_bucket_with_a_past_starts_where_one_without_arrives() -> None:
    made = from_dict(FULL)
    fresh = grow(made, months=60).usd
    old = grow(made, months=20, past_months=40).usd
    assert old == pytest.approx(fresh[40:])


def test_the_first_month_holds_half_of_its_writes_on_average() -> None:
    made = from_dict(
        {"workload": {"write": "1 MB/s", "retention": "1 year"}, "parquet": {"enabled": False}}
    )
    first = next(
        line for line in grow(made, months=3).bill.lines if line.item == "segments in STANDARD"
    )
    assert np.asarray(first.quantity.value)[0] == pytest.approx(1e6 * MONTH / 2 / 2**30)


def test_nothing_is_in_a_cold_class_before_its_age() -> None:
    made = from_dict(
        FULL | {"tiering": {"classes": [*LADDER[:1], {"class": "GLACIER_IR", "after": "365 d"}]}}
    )
    grown = grow(made, months=14)
    cold = next(line for line in grown.bill.lines if line.item == "segments in GLACIER_IR")
    held = np.asarray(cold.quantity.value)
    assert (held[:12] == 0).all()
    assert held[12] > 0


def test_growth_and_drift_multiply() -> None:
    made = from_dict({"workload": {"write": "100 MB/s", "retention": "1 d"}})
    flat, dear = (grow(made, months=25, yearly_price_drift=drift).usd for drift in (0, 0.1))
    assert dear[24] == pytest.approx(flat[24] * 1.1**2)
    grown = grow(made, months=25, yearly_growth=1.0)
    network = grown.group("network")
    assert network[24] / network[0] == pytest.approx(4)


def test_a_total_is_the_sum_of_its_months() -> None:
    grown = grow(from_dict(FULL), months=24, yearly_growth=0.3, yearly_price_drift=-0.1)
    assert grown.total == pytest.approx(float(grown.usd.sum()))
    parts = sum(grown.group(group.name) for group in grown.bill.groups)
    assert parts == pytest.approx(grown.usd)


def test_kafka_on_disk_grows_without_a_bucket() -> None:
    made = from_dict({"tiering": {"enabled": False}})
    grown = grow(made, months=12, yearly_growth=0.5)
    assert (grown.stored_bytes == 0).all()
    assert grown.usd[-1] > grown.usd[0]


def test_months_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidScenario, match="months"):
        grow(from_dict({}), months=0)
