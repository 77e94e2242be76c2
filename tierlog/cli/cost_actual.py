"""`tierlog cost actual`: what the bucket holds, each object counted once, and what that costs.

listing = referenced + garbage + orphans + metadata, to the byte; a fifth line, unjudged, appears
where a manifest cannot be read. The bill is of a month in which everything stays as it is. What was
asked of the store only a node knows: `--http` names one. Exit code 1 where the listing and the
manifests do not agree.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cost_model import Bill
from cost_model.asked import Asked
from cost_model.inventory import Inventory, Pile, Place, class_of
from cost_model.prices import PriceBook
from cost_model.text import explain as explained
from cost_model.text import usd
from cost_model.units import brief_duration
from tierlog.cli.bucket import with_bucket
from tierlog.cli.cost_readers import asked_of
from tierlog.cli.cost_scenarios import book_of, checked, known_class
from tierlog.cli.failure import say
from tierlog.cli.progress import show_bytes
from tierlog.cold.bucketview import BucketView
from tierlog.cold.census import Census, Standing
from tierlog.cold.layout import cluster_prefix
from tierlog.env import SystemClock
from tierlog.table.census import table_keys

if TYPE_CHECKING:
    from tierlog.cold.clusterstate import ClusterState
    from tierlog.config import NodeSettings

ALWAYS = (Standing.REFERENCED, Standing.GARBAGE, Standing.ORPHAN, Standing.METADATA)
TOPICS_SHOWN = 15
NO_OWNER = "(no owner)"
CLUSTER = "(the cluster)"
CHARGED = "writes by bytes produced, reads to the reader by its own GETs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actual:
    """What was found, and its bill."""

    cluster_id: str
    inventory: Inventory
    listed: tuple[int, int]
    """Objects and bytes, counted beside the inventory."""
    bill: Bill
    by_topic: dict[str, Decimal]
    by_owner: dict[str, Decimal]
    troubles: list[str]
    uploads: int
    """Left half way: billed, and in no listing."""
    asked: Asked | None = None

    @property
    def agrees(self) -> bool:
        return self.listed == (self.inventory.objects, self.inventory.bytes) and not self.troubles


def run(
    settings: "NodeSettings",
    *,
    cluster_id: str | None,
    topic: str | None,
    http: str | None,
    as_class: str,
    explain: bool,
    prices: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    with checked():
        book = book_of(prices)
        known_class(as_class, book)

        async def look(view: BucketView) -> Actual:
            return await count(view, topic=topic, as_class=as_class, book=book)

        found = with_bucket(settings, cluster_id, look)
        asked = None if http is None else asked_of(http, cluster_id=found.cluster_id)
        if as_json:
            typer.echo(json.dumps(as_value(found, asked, book)))
        else:
            show(found, asked, book, explain=explain)
        if html is not None:
            from tierlog.cli.cost_pages import actual_page

            charged = None if asked is None else charged_rows(asked, _requests(found, asked, book))
            actual_page(html, found.bill, found.by_topic, rows_of(found), charged)
    if not found.agrees:
        raise typer.Exit(1)


async def count(view: BucketView, *, topic: str | None, as_class: str, book: PriceBook) -> Actual:
    place = await view.find(topic or "")
    cluster_id = place.cluster_id or view.one_cluster(await view.clusters())
    state = await view.state(cluster_id)
    now_ms = SystemClock().now_ms()
    prefix = cluster_prefix("", cluster_id)
    census = Census(view.store, prefix, state, now_ms, place.topic_id, table_keys)
    inventory = Inventory(book)
    names = names_of(state)
    async for item in census.items():
        where = Place(
            standing=item.standing,
            what=item.what,
            storage_class=class_of(item.stat.storage_class, book, otherwise=as_class),
            topic="" if item.topic_id is None else names.get(item.topic_id, item.topic_id),
        )
        age_s = max(now_ms - item.stat.modified_ms, 0) / 1000 if item.stat.modified_ms >= 0 else 0.0
        inventory.add(where, size=item.stat.size, age_s=age_s)
    uploads = sum([len(page) async for page in view.store.list_uploads(census.listed_below)])
    owners = owners_of(state)
    return Actual(
        cluster_id=cluster_id,
        inventory=inventory,
        listed=(census.objects, census.bytes),
        bill=inventory.bill(topic or f"cluster {cluster_id}"),
        by_topic=inventory.split(lambda name: name or CLUSTER),
        by_owner=inventory.split(lambda name: owners.get(name, NO_OWNER) if name else CLUSTER),
        troubles=census.troubles,
        uploads=uploads,
    )


def names_of(state: "ClusterState") -> dict[str, str]:
    """By id. Names are used again; of several with one name, those that are gone have their id
    beside it."""
    names = {key: one.name for key, one in state.topics.items()}
    return names | {key: f"{one.name} (deleted {key})" for key, one in state.deleted.items()}


def owners_of(state: "ClusterState") -> dict[str, str]:
    """By topic: its `tierlog.owner`, which STATE has, so that the bucket alone tells."""
    labels = {one.name: one.configs.get("tierlog.owner", "") for one in state.topics.values()}
    return {name: owner for name, owner in labels.items() if owner}


# For people


def show(found: Actual, asked: Asked | None, book: PriceBook, *, explain: bool) -> None:
    pile = Pile()
    for each in found.inventory.piles.values():
        pile += each
    typer.echo(
        f"{found.bill.name}: {show_bytes(pile.bytes)} in {pile.objects:,} objects, "
        f"{usd(found.bill.total)} a month as it lies now"
    )
    typer.echo(f"a GB of 2**30 bytes; prices of {book.generated}, {book.region}\n")
    _columns(rows_of(found))
    typer.echo(agreement(found))
    if explain:
        typer.echo("")
        for line in explained(found.bill):
            typer.echo(line)
    _parts("topic", found.by_topic, _bytes_of(found))
    if set(found.by_owner) - {NO_OWNER, CLUSTER}:
        _parts("owner", found.by_owner, {})
    if asked is None:
        typer.echo("\nrequests: the bucket does not know; --http HOST:PORT asks a node")
    else:
        show_asked(found, asked, book)
    if due := found.inventory.due_early():
        typer.echo(f"\ndeleting all of it now would leave {usd(due)} due by minimum durations")
    if found.uploads:
        say(f"note: {found.uploads:,} uploads are left half way: billed, and in no listing")
    for trouble in found.troubles:
        say(f"note: {trouble}")


def rows_of(found: Actual) -> list[list[str]]:
    """A line for each standing, and below it what it is made of."""
    rows = [["", "class", "objects", "bytes", "mean age", "a month"]]
    by_row = found.inventory.gathered(lambda at: (at.standing, at.what, at.storage_class))
    standings = found.inventory.gathered(lambda at: at.standing)
    for standing in (*ALWAYS, Standing.UNJUDGED):
        pile = standings.get(standing)
        if pile is None and standing not in ALWAYS:
            continue
        rows.append(_row(str(standing), "", pile or Pile(), usd(_group(found, standing))))
        rows += [
            _row(f"  {what}", name, inner, "")
            for (at, what, name), inner in by_row.items()
            if at == standing
        ]
    listed = Pile(objects=found.listed[0], bytes=found.listed[1])
    total = _row("listing", "", listed, usd(found.bill.total))
    return [*rows, [*total[:4], "", total[5]]]


def _group(found: Actual, standing: str) -> Decimal:
    return found.bill.group(standing).amount


def _row(what: str, name: str, pile: Pile, amount: str) -> list[str]:
    age = brief_duration(pile.mean_age_s) if pile.objects else ""
    return [what, name, f"{pile.objects:,}", f"{pile.bytes:,}", age, amount]


def agreement(found: Actual) -> str:
    if found.agrees:
        return "the listing is the sum of these, to the byte, and what the manifests say"
    return "the listing and the manifests DO NOT AGREE: see the notes"


def _columns(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        left = [f"{cell:<{width}}" for cell, width in zip(row[:2], widths[:2], strict=True)]
        rest = [f"{cell:>{width}}" for cell, width in zip(row[2:], widths[2:], strict=True)]
        typer.echo("  ".join((*left, *rest)).rstrip())


def _bytes_of(found: Actual) -> dict[str, Pile]:
    return found.inventory.gathered(lambda at: at.topic or CLUSTER)


def _parts(what: str, parts: dict[str, Decimal], piles: dict[str, Pile]) -> None:
    order = sorted(parts, key=lambda name: (-parts[name], name))
    rows = [[what, "", "bytes", "a month"] if piles else [what, "", "a month"]]
    for name in order[:TOPICS_SHOWN]:
        size = [f"{piles[name].bytes:,}"] if piles else []
        rows.append([name, "", *size, usd(parts[name])])
    typer.echo("")
    _columns(rows)
    if len(order) > TOPICS_SHOWN:
        rest = sum((parts[name] for name in order[TOPICS_SHOWN:]), Decimal(0))
        typer.echo(f"and {len(order) - TOPICS_SHOWN:,} more for {usd(rest)}: --json has all")


def show_asked(found: Actual, asked: Asked, book: PriceBook) -> None:
    bill = _requests(found, asked, book)
    typer.echo(
        f"\nrequests since the node started, {brief_duration(asked.since_s)} ago: {usd(bill.total)}"
    )
    _columns(
        [
            ["", "", "requests", "bytes"],
            ["PUTs, parts, copies", "", f"{asked.puts:,}", f"{asked.put_bytes:,}"],
            ["GETs, HEADs", "", f"{asked.gets:,}", f"{asked.get_bytes:,}"],
            ["listings", "", f"{asked.lists:,}", ""],
            ["deletions, free", "", f"{asked.deletes:,}", ""],
        ]
    )
    typer.echo("")
    _columns([[name, "", *figures] for name, *figures in charged_rows(asked, bill)])
    typer.echo(CHARGED)


def charged_rows(asked: Asked, bill: Bill) -> list[list[str]]:
    """Who pays for requests so far; the first row is the head."""
    rows = [["charged to", "GETs", "bytes read", "so far"]]
    writes, reads = asked.by_topic(bill), asked.by_reader(bill)
    rows += [[f"topic {name}", "", "", usd(amount)] for name, amount in writes.items() if amount]
    known = {each.name: each for each in asked.readers}
    for name, amount in reads.items():
        each = known.get(name)
        # Who read from the cache alone pays nothing, and stands here all the same.
        if each is not None and (amount or each.read_bytes):
            rows.append([name, f"{each.gets:,}", f"{each.read_bytes:,}", usd(amount)])
        elif amount:
            rows.append([name, "", "", usd(amount)])
    return rows


def _requests(found: Actual, asked: Asked, book: PriceBook) -> Bill:
    return asked.bill(book, held_of(found))


def held_of(found: Actual) -> dict[str, int]:
    """Bytes of what is read, by class."""
    piles = found.inventory.gathered(lambda at: (at.standing, at.storage_class))
    return {name: one.bytes for (at, name), one in piles.items() if at == Standing.REFERENCED}


# As a value


def as_value(found: Actual, asked: Asked | None, book: PriceBook) -> dict[str, Any]:
    return {
        "cluster_id": found.cluster_id,
        "listing": {"objects": found.listed[0], "bytes": found.listed[1]},
        "agrees": found.agrees,
        "troubles": found.troubles,
        "uploads_left_half_way": found.uploads,
        "rows": [
            {
                "standing": str(at.standing),
                "what": at.what,
                "class": at.storage_class,
                "topic": at.topic or None,
                "objects": pile.objects,
                "bytes": pile.bytes,
                "mean_age_s": round(pile.mean_age_s, 3),
                "oldest_s": round(pile.oldest_s, 3),
            }
            for at, pile in found.inventory.piles.items()
        ],
        "bill": found.bill.as_json(),
        "usd_due_if_deleted_now": str(found.inventory.due_early()),
        "usd_by_topic": {name: str(part) for name, part in found.by_topic.items()},
        "usd_by_owner": {name: str(part) for name, part in found.by_owner.items()},
        "requests": None if asked is None else _asked_value(found, asked, book),
    }


def _asked_value(found: Actual, asked: Asked, book: PriceBook) -> dict[str, Any]:
    bill = _requests(found, asked, book)
    return {
        "since_s": asked.since_s,
        "puts": asked.puts,
        "put_bytes": asked.put_bytes,
        "gets": asked.gets,
        "get_bytes": asked.get_bytes,
        "lists": asked.lists,
        "deletes": asked.deletes,
        "bill": bill.as_json(),
        "usd_by_topic": {name: str(part) for name, part in asked.by_topic(bill).items()},
        "readers": [
            {
                "reader": each.name,
                "gets": each.gets,
                "get_bytes": each.get_bytes,
                "read_bytes": each.read_bytes,
            }
            for each in asked.readers
        ],
        "usd_by_reader": {name: str(part) for name, part in asked.by_reader(bill).items()},
    }
