"""The price book: every price with its unit, source, date and confidence.

Confidence: A, the provider's own words or a file made from its price list; B, a dated page by
others; C, recalled and not checked; user, set by whoever wrote the scenario. The book that comes
with the package is `data/prices.json`; a file of the same shape, or single prices, replace it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from cost_model.arith import is_array
from cost_model.errors import CostError, InvalidScenario, UnknownPrice, nearest
from cost_model.units import KIB, Unit

SCHEMA = "tierlog-prices/1"
CONFIDENCES = ("C", "B", "A", "user")
"""From the least to the most certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    name: str
    title: str
    date: str
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per unit."""

    key: str
    usd: Decimal
    per: Unit
    source: Source
    confidence: str
    note: str = ""
    value: float = 0.0
    """The same as a float, for arrays of draws."""


ARCHIVE_FIRST_BYTE = 60.0
"""Seconds. Whoever answers later answers no read at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """What a storage class asks beside its prices."""

    name: str
    prices: str
    min_duration_s: float
    min_object_bytes: float
    metadata_bytes: float
    first_byte_s: float
    zones: int
    volume_tiers_gb: tuple[float, ...] = ()
    """Where the next, cheaper price begins. Such a class has prices `storage.tier1` and so on."""

    @property
    def is_archive(self) -> bool:
        """Bytes must be restored before they can be read, which tierlog never asks for."""
        return self.first_byte_s > ARCHIVE_FIRST_BYTE

    @property
    def storage_price(self) -> str:
        """The key of the storage price, in the first tier where there are several."""
        return f"{self.prices}.storage.tier1" if self.volume_tiers_gb else f"{self.prices}.storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    name: str
    vcpu: int
    mem_gib: float
    nvme_gb: float


class PriceBook:
    """Prices by key, storage classes, instances and limits by name. Immutable."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        if data.get("schema") != SCHEMA:
            raise CostError(f"not a price book: schema is {data.get('schema')!r}, not {SCHEMA!r}")
        self.generated = str(data["generated"])
        self.region = str(data["region"])
        self.limits: Mapping[str, Any] = data["limits"]
        self.carbon: Mapping[str, Any] = data["carbon"]
        self._sources = {name: _source(name, row) for name, row in data["sources"].items()}
        self._prices = {key: self._price(key, row) for key, row in data["prices"].items()}
        self.classes = {name: _class(name, row) for name, row in data["storage_classes"].items()}
        self.instances = {
            name: Instance(name=name, **row) for name, row in data["instances"].items()
        }

    def _price(self, key: str, row: Mapping[str, Any]) -> Price:
        usd = Decimal(str(row["usd"]))
        return Price(
            key=key,
            usd=usd,
            per=Unit(row["per"]),
            source=self._sources[row["source"]],
            confidence=row["confidence"],
            note=row.get("note", ""),
            value=float(usd),
        )

    def __getitem__(self, key: str) -> Price:
        try:
            return self._prices[key]
        except KeyError:
            raise UnknownPrice(f"no price {key}; {nearest(key, self._prices)}") from None

    def __contains__(self, key: object) -> bool:
        return key in self._prices

    def __iter__(self) -> Iterator[Price]:
        return iter(self._prices.values())

    def with_prices(self, overrides: Mapping[str, float]) -> "PriceBook":
        """The same book with some prices of the user's own."""
        if not overrides:
            return self
        book = object.__new__(PriceBook)
        book.__dict__.update(self.__dict__)
        book._prices = self._prices | {
            key: _overridden(self, key, usd) for key, usd in overrides.items()
        }
        return book


USER = Source(name="scenario", title="set in the scenario", date="today")


def user_amount(key: str) -> Price:
    """One dollar a month: the price of an amount that the user states outright."""
    return Price(key=key, usd=Decimal(1), per=Unit.MONTH, source=USER, confidence="user", value=1.0)


def _overridden(book: PriceBook, key: str, usd: float) -> Price:
    try:
        known = book[key]
    except UnknownPrice as error:
        raise InvalidScenario(f"prices.{key}", str(error)) from None
    exact = Decimal(0) if is_array(usd) else Decimal(str(usd))
    return replace(known, usd=exact, value=usd, source=USER, confidence="user", note="")


def _source(name: str, row: Mapping[str, Any]) -> Source:
    return Source(name=name, title=row["title"], date=row["date"], url=row.get("url"))


def _class(name: str, row: Mapping[str, Any]) -> StorageClass:
    return StorageClass(
        name=name,
        prices=row["prices"],
        min_duration_s=row["min_duration_days"] * 86_400.0,
        min_object_bytes=row["min_object_kib"] * KIB,
        metadata_bytes=row["metadata_kib"] * KIB,
        first_byte_s=row["first_byte_s"],
        zones=row["zones"],
        volume_tiers_gb=tuple(map(float, row.get("volume_tiers_gb", ()))),
    )


@lru_cache(maxsize=1)
def default_book() -> PriceBook:
    """The book that comes with the package."""
    return PriceBook(json.loads((files("cost_model") / "data" / "prices.json").read_text()))


def load_book(path: Path) -> PriceBook:
    return PriceBook(json.loads(path.read_text()))


def price_changes(old: PriceBook, new: PriceBook) -> list[tuple[str, Price | None, Price | None]]:
    """Keys whose price differs, with both prices; None where one book lacks it."""
    before, after = ({each.key: each for each in book} for book in (old, new))
    pairs = [(key, before.get(key), after.get(key)) for key in sorted(before | after)]
    return [each for each in pairs if _terms(each[1]) != _terms(each[2])]


def _terms(price: Price | None) -> tuple[Decimal, Unit] | None:
    return None if price is None else (price.usd, price.per)
