"""`tierlog store stat`: what an object says of itself, and what the store says of it.

Of a segment the footer with its table of sections; of a manifest its fields, lists as their counts;
of a Parquet file its metadata.
Reads ends and manifests, never a whole segment: whether the bytes are sound is `tierlog verify`'s.
"""

import json
from typing import TYPE_CHECKING, Any

import typer

from tierlog.cli.progress import show_bytes
from tierlog.cli.tables import print_table
from tierlog.cli.times import show_time
from tierlog.cold.bucketview import BucketView, NotThere, Place
from tierlog.cold.layout import parse_segment_key
from tierlog.cold.objectreading import of_store, read_json
from tierlog.cold.rebuild import read_footer
from tierlog.table.footer import is_parquet, read_about

if TYPE_CHECKING:
    from tierlog.cold.entry import Entry
    from tierlog.cold.segment_object import Footer

TIMES = ("_ms", "timestamp")
"""How names of times end."""
BYTES = ("bytes", "size")
FIRST = (
    "kind",
    "format",
    "version",
    "topic",
    "topic_id",
    "partition",
    "partition_count",
    "log_start",
    "next_offset",
    "records",
    "bytes",
    "published_ms",
    "entries",
    "leaves",
    "indexes",
    "garbage",
)
"""Fields of a manifest that people look for."""
SHOWN_MAX = 8
"""Items of a list that are printed; of a longer one, how many there are."""


async def stat(view: BucketView, key: str, *, as_json: bool) -> None:
    place = await view.find(key)
    if place.key is None:
        raise not_one(key)
    about: dict[str, Any] = of_store(await view.stat(place))
    if is_segment(place):
        footer = await read_footer(view.store, place.key)
        about |= of_footer(footer) | of_manifest(await _entry(view, place, footer))
    elif is_parquet(place.key):
        about |= await read_about(view.store, place.key)
    else:
        about |= of_json(await read_json(view.store, place.key))
    if as_json:
        typer.echo(json.dumps(about, indent=2))
    else:
        show(about)


def not_one(key: str) -> NotThere:
    return NotThere(
        f"{key} is not one object: `tierlog store ls {key}` lists what it has; add /HEAD, or an "
        "offset, to topic/partition"
    )


def is_segment(place: Place) -> bool:
    if place.key is None or place.partition is None:
        return False
    relative = place.keys.relative(place.key)
    return relative is not None and parse_segment_key(relative) is not None


async def _entry(view: BucketView, place: Place, footer: "Footer") -> "Entry | None":
    """What the manifest says of this very object; None if it does not list it."""
    if place.entry is not None:
        return place.entry
    found = await view.entry_at(place, await view.head(place), footer.base)
    return found if found is not None and place.keys.full(found.key) == place.key else None


# As values


def of_footer(footer: "Footer") -> dict[str, Any]:
    return {
        "kind": "segment",
        "topic": footer.topic,
        "topic_id": footer.topic_id,
        "partition": footer.partition,
        "base": footer.base,
        "last": footer.last,
        "records": footer.records,
        "batches": footer.batches,
        "data_bytes": footer.data_bytes,
        "min_timestamp": footer.min_timestamp,
        "max_timestamp": footer.max_timestamp,
        "max_append_ms": footer.max_append_ms,
        "codecs": list(footer.codecs),
        "has_aborted": footer.has_aborted,
        "leader_epochs": [list(one) for one in footer.leader_epochs],
        "gaps": [list(one) for one in footer.gaps],
        "data_sha256": footer.data_sha256,
        "merkle_root": footer.merkle_root,
        "sections": [{**one._asdict(), "crc32c": f"{one.crc32c:08x}"} for one in footer.sections],
    }


def of_manifest(entry: "Entry | None") -> dict[str, Any]:
    if entry is None:
        return {"in_manifest": False}
    return {
        "in_manifest": True,
        "sha256": entry.sha256,
        "published_crc32c": f"{entry.crc32c:08x}",
        "chain": entry.chain,
        "storage_class": entry.storage_class,
        "retain_until_ms": entry.retain_until_ms,
    }


def of_json(value: object) -> dict[str, Any]:
    """The fields of a manifest, STATE or receipt; its lists as how many there are."""
    if not isinstance(value, dict):
        return {"content": value}
    return {name: _brief(value[name]) for name in sorted(value, key=_rank)}


def _rank(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST)), name


def _brief(value: object) -> object:
    if not isinstance(value, list) or (len(value) <= SHOWN_MAX and not _has_objects(value)):
        return value
    return {"count": len(value)}


def _has_objects(value: list[object]) -> bool:
    return any(isinstance(one, dict) for one in value)


# For people


def show(about: dict[str, Any]) -> None:
    sections = about.pop("sections", None)
    width = max(len(name) for name in about)
    for name, value in about.items():
        if value is not None:
            label = name.removesuffix("_ms").replace("_", " ")
            typer.echo(f"{label:<{width}}  {shown(name, value)}".rstrip())
    if sections is not None:
        typer.echo("")
        print_table([{"section": one["name"], **_place(one)} for one in sections])


def _place(section: dict[str, Any]) -> dict[str, Any]:
    return {name: section[name] for name in ("position", "size", "crc32c")}


def shown(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _number(name, value)
    if isinstance(value, dict):
        if list(value) == ["count"]:
            return f"{value['count']:,}"
        return ", ".join(f"{key} {shown(key, one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "none"
    return str(value)


def _number(name: str, value: int) -> str:
    if name.endswith(TIMES):
        return "none" if value < 0 else show_time(value)
    if name.endswith(BYTES):
        return f"{value:,} ({show_bytes(value)})"
    return f"{value:,}"
