"""The tornado."""

import json
from pathlib import Path

import pytest

import cost_model
from cost_model import InvalidScenario, from_dict, load, plan
from cost_model.prices import PriceBook
from cost_model.read import show_input_briefly
from cost_model.sensitivity import tornado

EXAMPLES = Path(__file__).parents[2] / "examples" / "cost"

BASE = from_dict(
    {
        "workload": {"write": "30 MB/s", "retention": "1 year"},
        "uncertainty": {"workload.write": {"low": "10 MB/s", "high": "90 MB/s"}},
    }
)


def test_the_widest_bar_comes_first() -> None:
    bars = tornado(BASE)
    assert bars[0].path == "workload.write"
    assert [bar.span for bar in bars] == sorted((bar.span for bar in bars), reverse=True)
    assert all(bar.span > 0 for bar in bars)


def test_a_bar_is_the_bill_at_both_ends_of_the_stated_range() -> None:
    (bar,) = tornado(BASE, paths=["workload.write"])
    assert (bar.low, bar.high) == ("10 MB/s", "90 MB/s")
    ends = [
        plan(from_dict({"workload": {"write": write, "retention": "1 year"}})).total
        for write in ("10 MB/s", "90 MB/s")
    ]
    assert [bar.at_low, bar.at_high] == ends


def test_without_a_range_an_input_swings_by_a_share() -> None:
    (bar,) = tornado(BASE, paths=["workload.retention"], swing=0.5)
    assert (bar.low, bar.high) == ("182.5 d", "1.5 y")


def test_a_bar_reaches_from_the_least_to_the_most_where_both_ends_cost_more() -> None:
    """Drives come in whole nodes: fewer of them need a node more, and more of them waste some."""
    own = load(EXAMPLES / "own-minio.yaml")
    (bar,) = tornado(own, paths=["hardware.drives"])
    base = plan(own).total
    assert bar.at_low > bar.at_high > base
    assert bar.span == bar.at_low - base


def test_prices_are_never_written_as_powers_of_ten() -> None:
    own = load(EXAMPLES / "own-minio.yaml")
    nodes, puts = tornado(own, paths=["prices.hardware.node", "prices.s3.STANDARD.get"])
    assert (nodes.low, nodes.high) == ("$7,200", "$10,800")
    assert (puts.low, puts.high) == ("$0.00032", "$0.00048")
    assert show_input_briefly("prices.kms.key", 0.0000004) == "$0.0000004"


def test_an_end_that_cannot_be_is_left_out() -> None:
    (bar,) = tornado(BASE, paths=["workload.compression"])
    assert (bar.low, bar.high) == ("1", "1.2")  # Less than 1 is no compression ratio.


def test_whole_numbers_stay_whole() -> None:
    (bar,) = tornado(BASE, paths=["cluster.replicas"])
    assert (bar.low, bar.high) == ("2", "4")


def test_prices_are_inputs_too() -> None:
    (bar,) = tornado(BASE, paths=["prices.transfer.cross_zone"])
    assert (bar.low, bar.high) == ("$0.008", "$0.012")
    assert "prices.transfer.cross_zone" in [each.path for each in tornado(BASE)]


def test_an_input_that_is_no_number_has_no_bar() -> None:
    with pytest.raises(InvalidScenario, match="has no range"):
        tornado(BASE, paths=["tiering.enabled"])


def test_an_unknown_input_is_told() -> None:
    with pytest.raises(InvalidScenario, match="did you mean write"):
        tornado(BASE, paths=["workload.writ"])


def book_with(key: str, usd: float) -> PriceBook:
    """Another book, as a user would give it."""
    data = json.loads((Path(cost_model.__file__).parent / "data" / "prices.json").read_text())
    data["prices"][key]["usd"] = usd
    return PriceBook(data)


def test_prices_of_another_book_swing_around_that_book() -> None:
    dear = book_with("transfer.cross_zone", 0.05)
    made = from_dict({})
    bars = {each.path: each for each in tornado(made, book=dear)}
    swing = bars["prices.transfer.cross_zone"]
    assert (swing.low, swing.high) == ("$0.04", "$0.06")
    assert swing.at_low < swing.base < swing.at_high
    assert swing.base == plan(made, book=dear).total


def test_the_largest_prices_are_those_of_the_given_book() -> None:
    strange = book_with("s3.STANDARD.get", 1000.0)
    paths = [each.path for each in tornado(from_dict({"reads": {"replay": "1 TB"}}), book=strange)]
    assert "prices.s3.STANDARD.get" in paths
