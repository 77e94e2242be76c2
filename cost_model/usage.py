"""What a storage class is asked for in a month, and the lines that it costs.

The seam between counting and pricing: a plan works these quantities out from rates, a real bucket
counts them, and both are priced here. Stored figures are averages over the month; the others are
totals of the month.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from cost_model.arith import at_least, between, every, is_zero
from cost_model.bill import Line
from cost_model.prices import PriceBook, StorageClass
from cost_model.units import KIB, Quantity, Unit, brief_size

STANDARD_METADATA = 8 * KIB
"""Of the archive classes' metadata, this part is billed at the STANDARD price (recalled)."""


LIST_PRICE = "s3.STANDARD.put"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassUsage:
    """One kind of object (segments, Parquet) in one storage class."""

    what: str
    storage_class: str
    stored_bytes: float = 0.0
    objects: float = 0.0
    billed_bytes: float | None = None
    """Counted object by object, the least billable size included; None: reckoned from the mean."""
    noncurrent_bytes: float = 0.0
    """Deleted or replaced, and kept by versioning."""
    early_bytes: float = 0.0
    """Byte-months paid for after deletion, up to the minimum duration."""
    uploaded_bytes: float = 0.0
    puts: float = 0.0
    put_class: str = ""
    """The class whose price PUTs pay, where rules move objects here; empty: this class."""
    gets: float = 0.0
    heads: float = 0.0
    """Asking for an object: billed as a GET."""
    lists: float = 0.0
    transitions: float = 0.0
    """Objects that lifecycle rules moved into this class."""
    retrieved_bytes: float = 0.0
    retrieval_requests: float = 0.0
    words: Mapping[str, Callable[[], str]] = field(default_factory=dict, compare=False, repr=False)
    """How figures came about, by the kind of their line: storage, put, list, get, head, transition,
    retrieval."""


def store_lines(usages: Iterable[ClassUsage], book: PriceBook, *, gb: float) -> list[Line]:
    """All lines of a store. Volume tiers fill up over all usages of a class, in order."""
    filled: dict[str, float] = {}
    return [line for usage in usages for line in usage_lines(usage, book, gb=gb, filled=filled)]


def usage_lines(
    usage: ClassUsage, book: PriceBook, *, gb: float, filled: dict[str, float]
) -> list[Line]:
    """Of one usage. `filled`: GB of each class that other usages have; this one is added."""
    known = book.classes[usage.storage_class]
    before = filled.get(known.name, 0.0)
    stored = _billable(usage, known) / gb
    filled[known.name] = before + stored
    return [
        *_storage(usage, known, book, stored=stored, before=before),
        *_surcharges(usage, known, book, gb=gb),
        *_requests(usage, known, book, gb=gb),
    ]


def _billable(usage: ClassUsage, known: StorageClass) -> float:
    """Small objects are billed as if they had the least billable size."""
    if usage.billed_bytes is not None:
        return usage.billed_bytes
    return at_least(usage.stored_bytes, usage.objects * known.min_object_bytes)


def _storage(
    usage: ClassUsage, known: StorageClass, book: PriceBook, *, stored: float, before: float
) -> Iterator[Line]:
    label = f"{usage.what} in {known.name}"

    def how() -> str:
        said = usage.words.get("storage")
        text = f"{brief_size(usage.stored_bytes)} on average" + (f": {said()}" if said else "")
        padded = not every(usage.stored_bytes >= _billable(usage, known))
        least = f", billed as {brief_size(known.min_object_bytes)} each at least"
        return text + (least if padded else "")

    if not known.volume_tiers_gb:
        quantity = Quantity(stored, Unit.GB_MONTH)
        yield Line(item=label, quantity=quantity, price=book[known.storage_price], how=how)
        return
    ends = (0.0, *known.volume_tiers_gb, float("inf"))
    for tier, (low, high) in enumerate(pairwise(ends), start=1):
        part = between(before + stored, low, high) - between(before, low, high)
        if is_zero(part):
            continue
        item = label if tier == 1 else f"{label}, volume tier {tier}"
        price = book[f"{known.prices}.storage.tier{tier}"]
        yield Line(item=item, quantity=Quantity(part, Unit.GB_MONTH), price=price, how=how)


def _request_price(known: StorageClass, kind: str) -> str:
    """The key of a request's price. S3 bills a listing as STANDARD, whatever class it shows."""
    if kind == "list":
        return LIST_PRICE if known.prices.startswith("s3.") else f"{known.prices}.put"
    kind = "get" if kind == "head" else kind
    return f"{known.prices}.{kind}"


def _surcharges(
    usage: ClassUsage, known: StorageClass, book: PriceBook, *, gb: float
) -> Iterator[Line]:
    """Bytes that nobody can read, and that are paid for all the same."""
    days = known.min_duration_s / 86_400
    rows = [
        ("early deletion", usage.early_bytes, known, f"gone before {days:.0f} days, rest is due"),
        ("noncurrent versions", usage.noncurrent_bytes, known, "kept by versioning or lock"),
    ]
    if known.metadata_bytes:
        own = usage.objects * (known.metadata_bytes - STANDARD_METADATA)
        index = usage.objects * STANDARD_METADATA
        standard = book.classes["STANDARD"]
        rows.append(("object metadata", own, known, "32 KiB an object"))
        rows.append(("object metadata index", index, standard, "8 KiB an object, at STANDARD"))
    for what, size, priced, why in rows:
        if is_zero(size):
            continue
        yield Line(
            item=f"{usage.what} in {known.name}: {what}",
            quantity=Quantity(size / gb, Unit.GB_MONTH),
            price=book[priced.storage_price],
            how=partial(_on_average, size, why),
        )


def _requests(
    usage: ClassUsage, known: StorageClass, book: PriceBook, *, gb: float
) -> Iterator[Line]:
    label = f"{usage.what} in {known.name}"
    counts = [
        ("PUT requests", usage.puts, "put"),
        ("LIST requests", usage.lists, "list"),
        ("GET requests", usage.gets, "get"),
        ("HEAD requests", usage.heads, "head"),
        ("transition requests", usage.transitions, "transition"),
        ("retrieval requests", usage.retrieval_requests, "retrieval_request"),
    ]
    for what, count, kind in counts:
        payer = book.classes[usage.put_class] if kind == "put" and usage.put_class else known
        key = _request_price(payer, kind)
        if not is_zero(count) and key in book and not is_zero(book[key].value):
            yield Line(
                item=f"{label}: {what}",
                quantity=Quantity(count / 1000, Unit.REQUESTS_1K),
                price=book[key],
                how=usage.words.get(kind, partial(_count_a_month, count)),
            )
    sizes = [
        ("retrieval", usage.retrieved_bytes, "retrieval"),
        ("upload", usage.uploaded_bytes, "upload"),
    ]
    for what, size, kind in sizes:
        key = f"{known.prices}.{kind}"
        if not is_zero(size) and key in book and not is_zero(book[key].value):
            yield Line(
                item=f"{label}: {what}",
                quantity=Quantity(size / gb, Unit.GB),
                price=book[key],
                how=usage.words.get(kind, partial(_size_a_month, size)),
            )


def _on_average(size: float, why: str) -> str:
    return f"{brief_size(size)} on average, {why}"


def _count_a_month(count: float) -> str:
    return f"{count:,.0f} a month"


def _size_a_month(size: float) -> str:
    return f"{brief_size(size)} a month"
