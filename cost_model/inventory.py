"""What lies in a bucket, counted object by object, and what a month of it costs.

The counterpart of a plan: quantities are counted, prices and lines are the same. Bytes are whole
numbers and add up to the listing. A bill has a group for each standing (referenced, garbage,
orphans, metadata), and can be split by topic or owner so that the parts are exactly the whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple, TypeVar

from cost_model.bill import NANO, Bill, Line, bill_of
from cost_model.errors import CostError, nearest
from cost_model.moves import S3_NAMES
from cost_model.prices import PriceBook
from cost_model.units import DAY, GIB, brief_duration, brief_size
from cost_model.usage import ClassUsage, usage_lines

K = TypeVar("K")

FROM_S3 = {
    "STANDARD": "STANDARD",
    "EXPRESS_ONEZONE": "EXPRESS_ONE_ZONE",
    "REDUCED_REDUNDANCY": "STANDARD",
    **{name: ours for ours, name in S3_NAMES.items()},
}
"""From the names of S3's listings to those of the price book."""
MONTH = 365 / 12 * DAY


class Place(NamedTuple):
    """What objects are counted together."""

    standing: str
    what: str
    storage_class: str
    topic: str
    """Empty for what belongs to no topic."""


@dataclass(slots=True)
class Pile:
    """Objects of one place. Ages are those of the objects: since they were written."""

    objects: int = 0
    bytes: int = 0
    billed_bytes: int = 0
    """Small objects count as the least that their class bills."""
    age_byte_s: float = 0.0
    oldest_s: float = 0.0
    early_byte_s: float = 0.0
    """What would still be due, up to the minimum duration, if all of it went now."""

    def __iadd__(self, other: "Pile") -> "Pile":
        self.objects += other.objects
        self.bytes += other.bytes
        self.billed_bytes += other.billed_bytes
        self.age_byte_s += other.age_byte_s
        self.early_byte_s += other.early_byte_s
        self.oldest_s = max(self.oldest_s, other.oldest_s)
        return self

    @property
    def mean_age_s(self) -> float:
        return self.age_byte_s / self.bytes if self.bytes else 0.0


@dataclass(slots=True)
class Inventory:
    book: PriceBook
    gb: float = GIB
    piles: dict[Place, Pile] = field(default_factory=dict)

    def add(self, place: Place, *, size: int, age_s: float) -> None:
        known = self.book.classes[place.storage_class]
        pile = self.piles.setdefault(place, Pile())
        pile += Pile(
            objects=1,
            bytes=size,
            billed_bytes=max(size, int(known.min_object_bytes)),
            age_byte_s=size * age_s,
            oldest_s=age_s,
            early_byte_s=size * max(known.min_duration_s - age_s, 0.0),
        )

    @property
    def objects(self) -> int:
        return sum(pile.objects for pile in self.piles.values())

    @property
    def bytes(self) -> int:
        return sum(pile.bytes for pile in self.piles.values())

    def gathered(self, key: Callable[[Place], K]) -> dict[K, Pile]:
        """Sums over places that have the same key, in order of their first."""
        out: dict[K, Pile] = {}
        for place, pile in self.piles.items():
            total = out.setdefault(key(place), Pile())
            total += pile
        return out

    def bill(self, name: str, *, warnings: Iterable[str] = ()) -> Bill:
        """Of a month in which it stays as it is. Requests are not part of it."""
        groups: dict[str, list[Line]] = {}
        for (standing, _, _), lines in self._priced():
            groups.setdefault(standing, []).extend(lines)
        return bill_of(name, groups, warnings=warnings)

    def _priced(self) -> Iterator[tuple[tuple[str, str, str], list[Line]]]:
        """Each row with its lines, always in one order: prices have tiers that rows fill up one
        after the other, and a bill and its split must fill them alike."""
        filled: dict[str, float] = {}
        rows = self.gathered(lambda place: (place.standing, place.what, place.storage_class))
        for row, pile in rows.items():
            usage = _usage(row[1], row[2], pile)
            yield row, usage_lines(usage, self.book, gb=self.gb, filled=filled)

    def split(self, key: Callable[[str], str]) -> dict[str, Decimal]:
        """The bill by `key` of the topic: every line by the billed bytes that each has in it."""
        out: dict[str, Decimal] = {}
        for row, lines in self._priced():
            amount = sum((line.amount for line in lines), Decimal(0))
            parts = {
                place.topic: each.billed_bytes
                for place, each in self.piles.items()
                if place[:3] == row
            }
            for topic, usd in split(amount, parts).items():
                out[key(topic)] = out.get(key(topic), Decimal(0)) + usd
        return out

    def due_early(self) -> Decimal:
        """Dollars due beside, if everything were deleted now: minimum durations."""
        rows = self.gathered(lambda place: place.storage_class)
        usd = Decimal(0)
        for name, pile in rows.items():
            price = self.book[self.book.classes[name].storage_price].usd
            usd += Decimal(pile.early_byte_s / MONTH / self.gb) * price
        return usd.quantize(NANO)


def _usage(what: str, storage_class: str, pile: Pile) -> ClassUsage:
    def words() -> str:
        return (
            f"{pile.objects:,} objects, {pile.bytes:,} bytes, "
            f"{brief_duration(pile.mean_age_s)} old on average"
        )

    return ClassUsage(
        what=what,
        storage_class=storage_class,
        stored_bytes=pile.bytes,
        billed_bytes=pile.billed_bytes,
        objects=pile.objects,
        words={"storage": words},
    )


def split(amount: Decimal, weights: Mapping[str, int]) -> dict[str, Decimal]:
    """By weight, in whole nano-dollars; what does not divide goes to the largest rests."""
    whole = sum(weights.values())
    units = int(amount / NANO)
    if not whole:
        return {name: amount if at == 0 else Decimal(0) for at, name in enumerate(weights)}
    shares = {name: divmod(units * weight, whole) for name, weight in weights.items()}
    left = units - sum(floor for floor, _ in shares.values())
    lucky = set(sorted(shares, key=lambda name: -shares[name][1])[:left])
    return {name: (floor + (name in lucky)) * NANO for name, (floor, _) in shares.items()}


def class_of(named: str | None, book: PriceBook, *, otherwise: str) -> str:
    """The price book's class of an object; `otherwise` where its store names none."""
    if named is None:
        return otherwise
    known = FROM_S3.get(named, named)
    if known not in book.classes:
        raise CostError(f"storage class {named} has no price; {nearest(named, book.classes)}")
    return known


def sizes_of(pile: Pile) -> str:
    return f"{brief_size(pile.bytes)} in {pile.objects:,} objects"
