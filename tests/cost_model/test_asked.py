"""Requests so far: their price, and who pays."""

from decimal import Decimal

from cost_model import default_book
from cost_model.asked import NODE, Asked, Reader

BOOK = default_book()


def asked(**given: int) -> Asked:
    return Asked(
        since_s=3600.0,
        puts=1000,
        lists=1000,
        gets=given.get("gets", 10_000),
        put_bytes=10**9,
        get_bytes=10**9,
        readers=(
            Reader(name="group a", gets=6000, get_bytes=10**8, read_bytes=10**8),
            Reader(name="client b", gets=3000, get_bytes=8 * 10**8, read_bytes=9 * 10**8),
        ),
        produced={"orders": 3, "clicks": 1},
    )


def test_puts_and_listings_cost_the_same_and_gets_less() -> None:
    bill = asked().bill(BOOK, {"STANDARD": 5})
    assert bill.total == Decimal("0.005") * 2 + Decimal("0.0004") * 10


def test_writes_are_charged_to_topics_and_reads_to_their_readers() -> None:
    bill = asked().bill(BOOK, {"STANDARD": 5})
    assert asked().by_topic(bill) == {"orders": Decimal("0.0075"), "clicks": Decimal("0.0025")}
    readers = asked().by_reader(bill)
    assert readers == {
        "group a": Decimal("0.0024"),
        "client b": Decimal("0.0012"),
        NODE: Decimal("0.0004"),
    }
    assert sum(readers.values()) + sum(asked().by_topic(bill).values()) == bill.total


def test_where_a_class_bills_bytes_the_bytes_decide() -> None:
    bill = asked().bill(BOOK, {"GLACIER_IR": 5})
    readers = asked().by_reader(bill)
    assert abs(readers["client b"] - 8 * readers["group a"]) < Decimal("0.00000001")
    assert sum(readers.values()) + sum(asked().by_topic(bill).values()) == bill.total


def test_a_node_without_topics_or_readers_pays_itself() -> None:
    none = Asked(since_s=1.0, puts=1, lists=0, gets=1, put_bytes=1, get_bytes=1)
    bill = none.bill(BOOK, {})
    assert none.by_topic(bill) == {"": Decimal("0.000005")}
    assert none.by_reader(bill) == {NODE: Decimal("0.0000004")}
