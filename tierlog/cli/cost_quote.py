"""`tierlog cost quote replay`: bytes, GETs, dollars and hours of a replay, from manifests alone.

Reads HEADs, pages and listings, no record. Exit code 1 where it would cost more than `--max-usd`,
so that a script can ask first:  tierlog cost quote replay --topic T --max-usd 5 && start-the-replay
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cost_model.inventory import class_of
from cost_model.prices import PriceBook
from cost_model.quote import SOURCES, Read, Replay
from cost_model.text import explain as explained
from cost_model.text import usd
from cost_model.units import brief_duration, parse_rate
from tierlog.cli.bucket import with_bucket
from tierlog.cli.cost_scenarios import book_of, checked, known_class
from tierlog.cli.failure import Refused, say, usage
from tierlog.cli.progress import show_bytes
from tierlog.cli.span import SpanSettings
from tierlog.cli.times import show_second
from tierlog.cold.bucketview import BucketView, NotThere, Place
from tierlog.cold.layout import SEGMENTS
from tierlog.env import SystemClock

if TYPE_CHECKING:
    from tierlog.cold.entry import Entry
    from tierlog.cold.head import PageRef
    from tierlog.config import NodeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """As the person wrote them."""

    source: str
    zones: int
    rate: str
    as_class: str

    def check(self, book: PriceBook) -> float:
        """The rate, in bytes a second."""
        known_class(self.as_class, book)
        if self.source not in SOURCES:
            raise usage(f"--from {self.source} is none of: {', '.join(SOURCES)}")
        rate = parse_rate(self.rate)
        if not rate > 0:
            raise usage(f"--rate {self.rate} is not above 0")
        return rate


@dataclass(slots=True)
class Extent:
    """What of a topic lies in the bucket and between two times."""

    since_ms: int | None
    until_ms: int | None
    as_class: str
    book: PriceBook
    classes: dict[str, Read]
    records: int = 0
    first_ms: int = -1
    last_ms: int = -1

    async def add_topic(self, view: BucketView, place: Place) -> None:
        assert place.cluster_id is not None
        assert place.topic_id is not None
        state = await view.state(place.cluster_id)
        topic = state.topics.get(place.topic_id)
        if topic is None:
            raise Refused(f"{place.topic} is deleted: nobody can read it")
        for index in range(topic.partitions):
            inside = Place(
                cluster_id=place.cluster_id,
                topic_id=place.topic_id,
                topic=place.topic,
                partition=index,
            )
            try:
                await self._add_partition(view, inside)
            except NotThere:
                continue  # It has published nothing yet.

    async def _add_partition(self, view: BucketView, place: Place) -> None:
        head = await view.head(place)
        chosen = [one async for one in view.entries(place, head, wanted=self.wants)]
        if not chosen:
            return
        classes = await _classes(view, place, chosen)
        for entry in chosen:
            name = class_of(classes.get(entry.key), self.book, otherwise=self.as_class)
            self.classes.setdefault(name, Read()).add(size=entry.data_bytes)
            self.records += entry.records
            first = entry.min_timestamp
            self.first_ms = first if self.first_ms < 0 else min(self.first_ms, first)
            self.last_ms = max(self.last_ms, entry.max_timestamp)

    def wants(self, row: "Entry | PageRef") -> bool:
        """Whether it may hold a record of the times asked for."""
        late = self.since_ms is None or row.max_timestamp >= self.since_ms
        return late and (self.until_ms is None or row.min_timestamp < self.until_ms)


async def _classes(view: BucketView, place: Place, chosen: "list[Entry]") -> dict[str, str | None]:
    """As the store lists them now: rules may have moved objects since they were published."""
    first, last = (pick(entry.key for entry in chosen) for pick in (min, max))
    found: dict[str, str | None] = {}
    before = place.keys.full(first)[:-1]
    async for page in view.store.list(place.keys.full(SEGMENTS), after=before):
        for stat in page:
            found[place.keys.relative(stat.key) or ""] = stat.storage_class
        if page and (place.keys.relative(page[-1].key) or "") >= last:
            break
    return found


def run(
    settings: "NodeSettings",
    *,
    cluster_id: str | None,
    topic: str,
    since: str | None,
    until: str | None,
    terms: Terms,
    max_usd: float | None,
    explain: bool,
    prices: Path | None,
    as_json: bool,
) -> None:
    with checked():
        book = book_of(prices)
        rate = terms.check(book)
        span = SpanSettings.checked(
            from_beginning=False, offset=None, since=since, until=until, follow=False
        )
        since_ms, until_ms = span.times(SystemClock().now_ms())
        extent = Extent(since_ms, until_ms, terms.as_class, book, {})

        async def look(view: BucketView) -> None:
            await extent.add_topic(view, await view.find(topic))

        with_bucket(settings, cluster_id, look)
        replay = Replay(classes=extent.classes, source=terms.source, zones=terms.zones, rate=rate)
        _tell(topic, extent, replay, book, explain=explain, as_json=as_json)
        total = replay.bill(book).total
    if max_usd is not None and float(total) > max_usd:
        raise Refused(f"this replay costs {usd(total)}, more than --max-usd {usd(max_usd)}")


def _tell(
    topic: str, extent: Extent, replay: Replay, book: PriceBook, *, explain: bool, as_json: bool
) -> None:
    bill = replay.bill(book)
    if as_json:
        typer.echo(json.dumps(_value(topic, extent, replay, book)))
        return
    if not replay.segments:
        typer.echo(f"{topic} has nothing in the bucket for these times: nothing to pay")
        return
    typer.echo(f"replay of {topic}, {terms_of(replay)}: {usd(bill.total)}")
    typer.echo(
        f"{show_bytes(replay.bytes)} in {replay.segments:,} segments, {extent.records:,} records "
        f"of {show_second(extent.first_ms)} to {show_second(extent.last_ms)}"
    )
    typer.echo(
        f"{replay.gets:,} GETs; {brief_duration(replay.seconds)} at "
        f"{show_bytes(replay.rate)}/s; nothing is taken to be cached"
    )
    typer.echo("")
    for line in explained(bill, whole="the replay") if explain else _lines(bill.lines):
        typer.echo(line)
    for warning in bill.warnings:
        say(f"note: {warning}")


def terms_of(replay: Replay) -> str:
    if replay.source == "segments":
        return "from the bucket, in its region"
    return f"through brokers in {replay.zones:g} zones"


def _lines(lines: Any) -> list[str]:
    rows = [(line.item, usd(line.amount)) for line in lines]
    wide = max((len(item) for item, _ in rows), default=0)
    far = max((len(amount) for _, amount in rows), default=0)
    return [f"{item:<{wide}}  {amount:>{far}}" for item, amount in rows]


def _value(topic: str, extent: Extent, replay: Replay, book: PriceBook) -> dict[str, Any]:
    bill = replay.bill(book)
    return {
        "topic": topic,
        "from": replay.source,
        "bytes": replay.bytes,
        "segments": replay.segments,
        "records": extent.records,
        "first_timestamp_ms": extent.first_ms,
        "last_timestamp_ms": extent.last_ms,
        "gets": replay.gets,
        "seconds": replay.seconds,
        "usd": str(bill.total),
        "bill": bill.as_json(),
    }
