"""`tierlog spark`: what its commands do. stdout has the result; stderr how far it is, on a terminal
as a line with bytes, rate and time left."""

import json
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from tierlog.cli.bucket import settings_of
from tierlog.cli.failure import FAILED
from tierlog.cli.progress import Progress, show_bytes
from tierlog.cli.span import BEGINNING, END
from tierlog.cli.times import parse_time
from tierlog.env import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tierlog.spark.bounds import Bound
    from tierlog.spark.stores import StorePlace

_OFFSET = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The bucket, and the Spark to ask."""

    store: str | None
    cluster_id: str | None
    master: str | None
    sets: tuple[str, ...]

    def place(self) -> "StorePlace":
        from tierlog.spark.stores import StorePlace

        settings = settings_of(self.store, self.sets)
        return StorePlace(
            url=settings.store, endpoint=settings.s3_endpoint, region=settings.s3_region
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    source: str
    target: str
    start: str
    end: str
    keys: tuple[bytes, ...] | None
    bootstrap: str
    cold_only: bool
    fresh: bool


def _watched(master: str | None) -> "tuple[SparkSession, Callable[[int, int], None], Progress]":
    from tierlog.spark.running import job_session

    spark = job_session(master)
    progress = Progress(sys.stderr, SystemClock())

    def watch(done: int, total: int) -> None:
        progress.size_bytes = done
        progress.draw(done / total if total else None)

    return spark, watch, progress


def run_verify(where: Where, topics: tuple[str, ...], *, as_json: bool) -> None:
    place = where.place()
    spark, watch, progress = _watched(where.master)
    from tierlog.spark.verifying import verify

    try:
        report = verify(spark, place, topics=topics, cluster_id=where.cluster_id, watcher=watch)
    finally:
        progress.wipe()
    if as_json:
        value = {
            "partitions": report.partitions,
            "segments": report.segments,
            "files": report.files,
            "bytes": report.bytes,
            "findings": [
                {
                    "kind": one.kind.value,
                    "topic": one.topic,
                    "partition": one.partition,
                    "start": one.start,
                    "end": one.end,
                    "key": one.key,
                    "expected": one.expected,
                    "found": one.found,
                    "advice": one.advice,
                }
                for one in report.findings
            ],
        }
        typer.echo(json.dumps(value, indent=2))
    else:
        for one in report.findings:
            typer.echo(f"{one.sentence}\n  {one.advice}")
        typer.echo(
            f"{report.segments:,} segments and {report.files:,} Parquet files of "
            f"{report.partitions:,} partitions, {show_bytes(report.bytes)}: "
            + ("sound" if report.is_sound else f"{len(report.findings):,} findings")
        )
    if not report.is_sound:
        raise typer.Exit(FAILED)


def run_convert(where: Where, topics: tuple[str, ...], *, until: int | None, as_json: bool) -> None:
    place = where.place()
    spark, watch, progress = _watched(where.master)
    from tierlog.spark.converting import convert

    try:
        report = convert(
            spark,
            place,
            topics=topics,
            cluster_id=where.cluster_id,
            until=until,
            watcher=watch,
        )
    finally:
        progress.wipe()
    value = {
        "partitions": report.partitions,
        "files": report.files,
        "rows": report.rows,
        "dead_records": report.dead_records,
        "read_bytes": report.read_bytes,
        "written_bytes": report.written_bytes,
    }
    typer.echo(
        json.dumps(value)
        if as_json
        else f"{report.rows:,} rows of {report.partitions:,} partitions in {report.files:,} files: "
        f"{show_bytes(report.read_bytes)} of batches are {show_bytes(report.written_bytes)} "
        "of Parquet"
        + (f"; {report.dead_records:,} records are dead letters" if report.dead_records else "")
    )


def run_replay(where: Where, wanted: Replay, *, as_json: bool) -> None:
    place = where.place()
    from tierlog.config import parse_address
    from tierlog.spark.options import Mode, parse_options
    from tierlog.spark.reading import need_spark

    need_spark()
    brokers = tuple(
        parse_address(one, name="--bootstrap", port_min=1) for one in wanted.bootstrap.split(",")
    )
    given = {
        "store": place.url,
        "subscribe": wanted.source,
        "startingOffsetsByTimestampStrategy": "latest",
        **({"clusterId": where.cluster_id} if where.cluster_id else {}),
        **({"s3.endpoint": place.endpoint} if place.endpoint else {}),
        **({"s3.region": place.region} if place.region else {}),
        **({} if wanted.cold_only else {"kafka.bootstrap.servers": wanted.bootstrap}),
    }
    options = parse_options(given, mode=Mode.BATCH)
    options = replace(
        options, start=_bound(wanted.start, options.start), end=_bound(wanted.end, options.end)
    )
    spark, watch, progress = _watched(where.master)
    from tierlog.spark.replaying import replay, run_of

    looking = Progress(sys.stderr, SystemClock(), label="looking for an earlier run")

    def look_watch(done: int, total: int) -> None:
        looking.records = done
        looking.draw(done / total if total else None)
        if done >= total:
            looking.wipe()

    try:
        found = replay(
            spark,
            options,
            target=wanted.target,
            brokers=brokers,
            keys=wanted.keys,
            # As it was written: "2h" is another moment when it is asked again.
            run=run_of(wanted.start, wanted.end, wanted.keys),
            is_fresh=wanted.fresh,
            watcher=watch,
            look_watcher=look_watch,
        )
    finally:
        looking.wipe()
        progress.wipe()
    if as_json:
        rows = [
            {"partition": one.name.partition, "records": one.records, "resumed_at": one.resumed_at}
            for one in found
        ]
        typer.echo(json.dumps({"target": wanted.target, "partitions": rows}))
        return
    for one in found:
        again = "" if one.resumed_at is None else f", going on from offset {one.resumed_at}"
        typer.echo(f"{one.name}: {one.records:,} records into {wanted.target}{again}")


def _bound(text: str, edge: "Bound") -> "Bound":
    """`edge`, where the text says the beginning or the end."""
    from tierlog.spark.bounds import Everywhere, Time

    if text in (BEGINNING, END):
        return edge
    if _OFFSET.fullmatch(text):
        return Everywhere(int(text))
    return Time(parse_time(text, now_ms=SystemClock().now_ms()))
