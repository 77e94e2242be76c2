"""Requests that a store was asked so far, what they cost, and who pays: the reader.

Counted figures of a node, since it started. Writes and listings are charged to topics by the bytes
that were produced to each; reads to whoever read, by their own GETs. What no reader asked for
(manifests, merges, scrubs) is the node's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial

from cost_model.bill import Bill, bill_of
from cost_model.inventory import split
from cost_model.prices import PriceBook
from cost_model.units import GIB, brief_duration
from cost_model.usage import ClassUsage, store_lines

NODE = "(the node itself)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A consumer group, or a client that belongs to none."""

    name: str
    gets: int
    get_bytes: int
    """From the store."""
    read_bytes: int
    """By the reader, from the cache as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    since_s: float
    puts: int
    """With parts of uploads and copies."""
    lists: int
    gets: int
    """With HEAD requests."""
    put_bytes: int
    get_bytes: int
    deletes: int = 0
    readers: tuple[Reader, ...] = ()
    produced: Mapping[str, int] = field(default_factory=dict)
    """Bytes by topic."""

    def bill(self, book: PriceBook, held: Mapping[str, int], *, gb: float = GIB) -> Bill:
        """Up to now. Reads are spread over classes by `held`, the bytes that each class has."""
        since = brief_duration(self.since_s)
        return bill_of(
            f"requests of the last {since}",
            {"requests": store_lines(self._usages(held), book, gb=gb)},
        )

    def _usages(self, held: Mapping[str, int]) -> list[ClassUsage]:
        whole = sum(held.values())
        parts = {name: size / whole for name, size in held.items()} if whole else {"STANDARD": 1.0}
        first = ClassUsage(
            what="writes",
            storage_class="STANDARD",
            puts=self.puts,
            lists=self.lists,
            words={
                "put": lambda: f"{self.puts:,} PUTs and parts of {self.put_bytes:,} bytes",
                "list": lambda: f"{self.lists:,} pages of listings",
            },
        )
        reads = [
            ClassUsage(
                what="reads",
                storage_class=name,
                gets=self.gets * part,
                retrieved_bytes=self.get_bytes * part,
                words={"get": partial(self._gets_of, part)},
            )
            for name, part in parts.items()
        ]
        return [first, *reads]

    def _gets_of(self, part: float) -> str:
        return (
            f"{self.gets:,} GETs and HEADs of {self.get_bytes:,} bytes, "
            f"{part:.0%} by the bytes that the class has"
        )

    def by_topic(self, bill: Bill) -> dict[str, Decimal]:
        """Writes and listings, by bytes produced."""
        amount = _amount(bill, reads=False)
        return split(amount, self.produced or {"": 1})

    def by_reader(self, bill: Bill) -> dict[str, Decimal]:
        """Reads, by the GETs of each reader; where classes bill bytes, by these."""
        per_byte = any(line.price.key.endswith(".retrieval") for line in bill.lines)
        weights = {each.name: 0 for each in self.readers}
        for each in self.readers:
            weights[each.name] += each.get_bytes if per_byte else each.gets
        whole = self.get_bytes if per_byte else self.gets
        weights[NODE] = max(whole - sum(weights.values()), 0)
        return split(_amount(bill, reads=True), weights)


def _amount(bill: Bill, *, reads: bool) -> Decimal:
    chosen = [line for line in bill.lines if line.item.startswith("reads") == reads]
    return sum((line.amount for line in chosen), Decimal(0))
