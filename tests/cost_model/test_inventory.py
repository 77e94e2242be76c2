"""Counted objects become a bill whose parts are exactly the whole."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_model import CostError, default_book
from cost_model.inventory import Inventory, Place, class_of, split
from cost_model.units import DAY, GIB, KIB

BOOK = default_book()


def place(
    standing: str = "referenced",
    name: str = "STANDARD",
    topic: str = "orders",
    what: str = "segments",
) -> Place:
    return Place(standing=standing, what=what, storage_class=name, topic=topic)


def test_a_gibibyte_of_standard_costs_its_price() -> None:
    made = Inventory(BOOK)
    made.add(place(), size=int(GIB), age_s=0.0)
    assert made.bill("all").total == BOOK["s3.STANDARD.storage.tier1"].usd


def test_small_objects_are_billed_one_by_one_as_the_least_size() -> None:
    """The mean would hide it: one large object does not fill up the small ones."""
    made = Inventory(BOOK)
    made.add(place(name="STANDARD_IA"), size=int(GIB), age_s=0.0)
    for _ in range(8):
        made.add(place(name="STANDARD_IA"), size=1, age_s=0.0)
    (line,) = made.bill("all").lines
    assert line.quantity.value * GIB == GIB + 8 * 128 * KIB
    assert "billed as 128 KiB each at least" in line.how()
    assert made.bytes == int(GIB) + 8


def test_what_deleting_now_would_leave_due() -> None:
    made = Inventory(BOOK)
    made.add(place(name="GLACIER_IR"), size=int(GIB), age_s=60 * DAY)
    price = BOOK["s3.GLACIER_IR.storage"].usd
    assert float(made.due_early()) == pytest.approx(float(price) * 30 / (365 / 12), rel=1e-6)
    assert Inventory(BOOK).due_early() == 0


sizes = st.integers(min_value=0, max_value=10**15)
rows = st.tuples(
    st.sampled_from(["referenced", "garbage", "orphans", "metadata"]),
    st.sampled_from(["STANDARD", "STANDARD_IA", "GLACIER_IR", "DEEP_ARCHIVE"]),
    st.sampled_from(["", "a", "b", "c"]),
    sizes,
    st.floats(min_value=0, max_value=1e9),
)


@given(st.lists(rows, max_size=30))
def test_topics_standings_and_lines_add_up_to_the_same_total(
    objects: list[tuple[str, ...]],
) -> None:
    made = Inventory(BOOK)
    for standing, name, topic, size, age in objects:
        made.add(place(standing, name, topic), size=int(size), age_s=float(age))
    bill = made.bill("all")
    assert sum(made.split(lambda topic: topic).values(), Decimal(0)) == bill.total
    assert sum((group.amount for group in bill.groups), Decimal(0)) == bill.total
    assert made.bytes == sum(int(row[3]) for row in objects)
    assert sum(one.bytes for one in made.gathered(lambda at: at.topic).values()) == made.bytes


@given(
    st.decimals(min_value=0, max_value=10**9, places=9),
    st.dictionaries(st.text(max_size=3), sizes, min_size=1, max_size=8),
)
def test_a_split_loses_nothing_and_gives_nobody_less_than_his_share(
    amount: Decimal, weights: dict[str, int]
) -> None:
    parts = split(amount, weights)
    assert sum(parts.values(), Decimal(0)) == amount
    whole = sum(weights.values())
    for name, part in parts.items():
        if whole:
            assert abs(float(part) - float(amount) * weights[name] / whole) < 1e-6


def test_classes_are_known_by_the_names_of_listings() -> None:
    assert class_of("GLACIER", BOOK, otherwise="OWN") == "GLACIER_FLEXIBLE"
    assert class_of(None, BOOK, otherwise="OWN") == "OWN"
    with pytest.raises(CostError, match="storage class SNOW has no price; known are"):
        class_of("SNOW", BOOK, otherwise="OWN")
