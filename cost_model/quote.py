"""What reading a part of history again would cost, before anybody does.

Every segment that overlaps the part is read whole, in chunks, with its index: nothing is cached.
Through brokers, what consumers in other zones get is billed on the way; whoever reads the bucket in
its own region pays for requests and retrieval alone.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cost_model.bill import Bill, Line, bill_of
from cost_model.errors import InvalidScenario, nearest
from cost_model.prices import PriceBook
from cost_model.units import GIB, MIB, Quantity, Unit, brief_size
from cost_model.usage import ClassUsage, store_lines

CHUNK = 8 * MIB
"""Bytes that tierlog asks for with one GET."""
INDEX_GETS = 1
"""For the index of a segment."""
SOURCES = ("broker", "segments")
SIDES = 2
"""That pay for a byte across zones."""


@dataclass(slots=True)
class Read:
    """Of one storage class."""

    segments: int = 0
    bytes: int = 0
    gets: int = 0

    def add(self, *, size: int, chunk: float = CHUNK) -> None:
        self.segments += 1
        self.bytes += size
        self.gets += math.ceil(size / chunk) + INDEX_GETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What is read, how and how fast."""

    classes: Mapping[str, Read] = field(default_factory=dict)
    source: str = "broker"
    zones: float = 3
    rate: float = 100e6
    """Bytes a second."""

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise InvalidScenario("from", f"{self.source!r}: {nearest(self.source, SOURCES)}")

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.classes.values())

    @property
    def gets(self) -> int:
        return sum(each.gets for each in self.classes.values())

    @property
    def segments(self) -> int:
        return sum(each.segments for each in self.classes.values())

    @property
    def seconds(self) -> float:
        return self.bytes / self.rate

    def bill(self, book: PriceBook, *, gb: float = GIB) -> Bill:
        """Of the one replay, not of a month."""
        usages = [_usage(name, each) for name, each in self.classes.items()]
        return bill_of(
            "replay",
            {
                "store": store_lines(usages, book, gb=gb),
                "network": list(self._way(book, gb)),
            },
            warnings=self._warnings(book),
        )

    def _way(self, book: PriceBook, gb: float) -> Iterator[Line]:
        away = (self.zones - 1) / self.zones
        if self.source == "broker" and away:
            yield Line(
                item="across zones: replay through brokers",
                quantity=Quantity(self.bytes * away * SIDES / gb, Unit.GB),
                price=book["transfer.cross_zone"],
                how=lambda: (
                    f"{brief_size(self.bytes)} x {away:.4g} across, billed on {SIDES} sides"
                ),
            )

    def _warnings(self, book: PriceBook) -> Iterator[str]:
        for name in self.classes:
            wait = book.classes[name].first_byte_s
            if wait > 60:
                hours = wait / 3600
                yield f"objects in {name} must be restored first: about {hours:g} h"


def _usage(name: str, read: Read) -> ClassUsage:
    return ClassUsage(
        what="replay",
        storage_class=name,
        gets=read.gets,
        retrieved_bytes=read.bytes,
        retrieval_requests=read.segments,
        words={
            "get": lambda: (
                f"{read.segments:,} segments of {brief_size(read.bytes)}, in chunks of "
                f"{brief_size(CHUNK)}, and their indexes"
            )
        },
    )
