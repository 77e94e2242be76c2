"""`tierlog store cat`: an object printed. Manifests as indented JSON, segments as their batches or,
with `--records`, as their records in the formats of `tierlog consume`; `--raw` as it is.

One piece of a segment is in memory at a time. Each batch is checked before it is shown.
"""

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from tierlog.cli.failure import Refused, usage
from tierlog.cli.formats import compact
from tierlog.cli.lines import LineSettings, line_of
from tierlog.cli.store_stat import is_segment, not_one
from tierlog.cli.times import show_second
from tierlog.cold.objectreading import batches, pieces, read_json
from tierlog.records.record import decode_records
from tierlog.table.footer import is_parquet

if TYPE_CHECKING:
    from tierlog.cold.bucketview import BucketView, Place
    from tierlog.records.header import BatchHeader
    from tierlog.types import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Cat:
    records: bool = False
    raw: bool = False
    lines: LineSettings

    async def run(self, view: "BucketView", path: str) -> None:
        if self.raw and sys.stdout.isatty():
            raise usage(
                "--raw writes bytes, which a terminal cannot show; give it a pipe or a file"
            )
        place = await view.find(path)
        if place.key is None:
            raise not_one(path)
        size = (await view.stat(place)).size
        if self.raw:
            async for piece in pieces(view.store, place.key, size):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        elif not is_segment(place):
            if self.records:
                raise Refused(f"{path} is no segment: it has no records")
            if is_parquet(place.key):
                raise Refused(
                    f"{path} is a Parquet file: use --raw for its bytes; `tierlog store stat` "
                    "shows its metadata"
                )
            typer.echo(json.dumps(await read_json(view.store, place.key), indent=2))
        elif self.records:
            await self._records(view, place)
        else:
            await self._batches(view, place)

    async def _records(self, view: "BucketView", place: "Place") -> None:
        assert place.key is not None
        assert place.partition is not None
        is_terminal = sys.stdout.isatty()
        topic = place.topic or place.topic_id or ""
        async for _, header, data in batches(view.store, place.key):
            if header.is_control:
                continue
            for record in decode_records(data):
                typer.echo(
                    line_of(
                        record,
                        topic=topic,
                        partition=place.partition,
                        settings=self.lines,
                        terminal=is_terminal,
                    )
                )

    async def _batches(self, view: "BucketView", place: "Place") -> None:
        assert place.key is not None
        if not self.lines.as_json:
            typer.echo(TITLE)
        async for position, header, _ in batches(view.store, place.key):
            value = of_batch(position, header)
            typer.echo(compact(value) if self.lines.as_json else row_of(value))


def of_batch(position: "Position", header: "BatchHeader") -> dict[str, Any]:
    return {
        "position": position,
        "size": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "codec": header.codec.name.lower(),
        "leader_epoch": header.leader_epoch,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "crc32c": f"{header.crc:08x}",
    }


_ROW = "{:>10}  {:>8}  {:>10}  {:>10}  {:>7}  {:<6}  {:<19}  {}"
TITLE = _ROW.format(
    "position", "size", "first", "last", "records", "codec", "newest", "producer"
).rstrip()


def row_of(value: dict[str, Any]) -> str:
    producer = "" if value["producer_id"] < 0 else value["producer_id"]
    return _ROW.format(
        value["position"],
        value["size"],
        value["base_offset"],
        value["last_offset"],
        value["records"],
        value["codec"],
        "" if value["max_timestamp"] < 0 else show_second(value["max_timestamp"]),
        producer,
    ).rstrip()
