"""The price book: every price can be traced."""

import json
from pathlib import Path

import pytest

from cost_model.errors import CostError, InvalidScenario, UnknownPrice
from cost_model.prices import CONFIDENCES, PriceBook, default_book, load_book, price_changes

DATA = Path(__file__).parents[2] / "cost_model" / "data" / "prices.json"


def test_every_price_has_source_date_and_confidence() -> None:
    for price in default_book():
        assert price.source.title, price.key
        assert price.source.date >= "2022", price.key
        assert price.confidence in CONFIDENCES, price.key
        assert price.usd >= 0, price.key
        assert price.source.url or price.confidence == "C", price.key


def test_what_is_recalled_is_of_the_lowest_confidence() -> None:
    assert all(
        (each.source.name == "recalled") <= (each.confidence == "C") for each in default_book()
    )


def test_every_storage_class_has_the_prices_that_a_bill_asks_for() -> None:
    book = default_book()
    for known in book.classes.values():
        assert f"{known.prices}.storage" in book or f"{known.prices}.storage.tier1" in book
        assert f"{known.prices}.put" in book
        assert f"{known.prices}.get" in book


def test_every_instance_has_a_price() -> None:
    assert all(f"instance.{name}" in default_book() for name in default_book().instances)


def test_an_unknown_price_names_the_nearest() -> None:
    with pytest.raises(UnknownPrice, match=r"did you mean disk\.gp3\.storage"):
        default_book()["disk.gp3.storag"]


def test_a_price_of_the_users_own_says_so_and_leaves_the_book_alone() -> None:
    own = default_book().with_prices({"disk.gp3.storage": 0.05})
    assert (own["disk.gp3.storage"].value, own["disk.gp3.storage"].confidence) == (0.05, "user")
    assert default_book()["disk.gp3.storage"].value == 0.08
    with pytest.raises(InvalidScenario, match=r"prices\.nonsense"):
        default_book().with_prices({"nonsense": 1.0})


def test_two_books_are_compared_price_by_price(tmp_path: Path) -> None:
    data = json.loads(DATA.read_text())
    data["prices"]["disk.gp3.storage"]["usd"] = 0.07
    del data["prices"]["disk.sc1.storage"]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(data))
    changes = {key: (old, new) for key, old, new in price_changes(default_book(), load_book(other))}
    assert changes.keys() == {"disk.gp3.storage", "disk.sc1.storage"}
    assert changes["disk.sc1.storage"][1] is None


def test_a_file_of_another_shape_is_refused() -> None:
    with pytest.raises(CostError, match="not a price book"):
        PriceBook({"schema": "something/2"})


def test_the_data_names_no_place_on_a_machine() -> None:
    assert "/work" not in DATA.read_text()
    assert "/home" not in DATA.read_text()
