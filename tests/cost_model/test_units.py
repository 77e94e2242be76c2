"""Units: read with care, never mixed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_model.bill import Line
from cost_model.errors import CostError, UnitMismatch
from cost_model.prices import default_book
from cost_model.units import (
    Quantity,
    Unit,
    brief_size,
    duration_text,
    parse_duration,
    parse_rate,
    parse_size,
    rate_text,
    size_text,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1 GB", 1e9),
        ("1GiB", 2**30),
        ("128 MiB", 2**27),
        ("1.5 TB", 1.5e12),
        ("10_000 B", 1e4),
        ("1,024 KiB", 2**20),
        ("2e3 kB", 2e6),
    ],
)
def test_a_size_is_read_with_its_unit(text: str, size: float) -> None:
    assert parse_size(text) == size


def test_gb_and_gib_differ_by_seven_percent() -> None:
    assert parse_size("1 GiB") / parse_size("1 GB") == pytest.approx(1.0737, abs=1e-4)


@pytest.mark.parametrize(
    ("text", "seconds"), [("7 d", 604_800), ("10min", 600), ("1 y", 365 * 86_400), ("5ms", 0.005)]
)
def test_a_duration_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "rate"), [("30 MB/s", 3e7), ("30MiB/s", 30 * 2**20), ("86.4 GB/d", 1e6)]
)
def test_a_rate_is_a_size_over_a_time(text: str, rate: float) -> None:
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (parse_size, "128", "has no unit"),
        (parse_size, "128 Mib", "did you mean MiB"),
        (parse_size, "many", "not a number"),
        (parse_duration, "3 months", "months differ in length"),
        (parse_duration, "3 foo", "unknown unit"),
        (parse_rate, "30 MB", "is not a rate"),
        (parse_rate, "30 MB/x", "unknown unit"),
        (parse_size, "nan GB", "not a number"),
    ],
)
def test_a_unit_that_is_missing_or_wrong_is_told(parse: object, text: str, says: str) -> None:
    assert callable(parse)
    with pytest.raises(CostError, match=says):
        parse(text)


@given(st.floats(min_value=0, max_value=1e18, allow_nan=False))
def test_what_is_written_reads_back_as_the_same_number(value: float) -> None:
    assert parse_size(size_text(value)) == value
    assert parse_duration(duration_text(value)) == value
    assert parse_rate(rate_text(value)) == value


def test_a_size_is_shown_as_people_write_it() -> None:
    assert [size_text(each) for each in (2**27, 1e12, 0, 1.5 * 2**30)] == [
        "128 MiB",
        "1 TB",
        "0 B",
        "1.5 GiB",
    ]
    assert brief_size(123_456_789_012) == "123.5 GB"
    assert brief_size(2**24) == "16 MiB"


UNITS = st.sampled_from(list(Unit))


@given(UNITS, UNITS)
def test_units_cannot_be_mixed(one: Unit, other: Unit) -> None:
    if one is other:
        assert (Quantity(1, one) + Quantity(2, other)).value == 3
    else:
        with pytest.raises(UnitMismatch):
            Quantity(1, one) + Quantity(2, other)


@given(UNITS, st.sampled_from([each.key for each in default_book()]))
def test_a_line_takes_only_a_price_of_its_own_unit(unit: Unit, key: str) -> None:
    price = default_book()[key]
    if unit is price.per:
        Line(item="x", quantity=Quantity(1, unit), price=price, how=str)
    else:
        with pytest.raises(UnitMismatch, match=r"cannot be priced per"):
            Line(item="x", quantity=Quantity(1, unit), price=price, how=str)
