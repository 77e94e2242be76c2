"""`tierlog store orphans`: what lies in the bucket and is referred to by nobody. Changes nothing.

stdout has the report, as a table or as JSON. Exit code 0 also where there are orphans: they cost,
and harm nobody. A node collects them by itself in the end.
"""

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tierlog.cli.failure import told
from tierlog.cli.options import AsJson

if TYPE_CHECKING:
    from tierlog.cold.orphanreport import OrphanReport, PartitionOrphans

HOUR_MS = 3_600_000
KEYS_SHOWN = 20


def orphans(
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="TIERLOG_STORE",
            help="file:///path or s3://bucket/prefix.  [default: ./tierlog-data-store]",
        ),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Which cluster, if the store holds several."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, as s3.endpoint; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show objects that no manifest knows, deleted topics that wait, uploads left half way."""
    with told():
        run_orphans(store, cluster_id=cluster_id, sets=tuple(sets or ()), as_json=as_json)


def run_orphans(
    store: str | None, *, cluster_id: str | None, sets: tuple[str, ...], as_json: bool
) -> None:
    import asyncio  # Slow to load, and `--help` needs none of it.

    from tierlog.config import default_store, load_node_settings

    settings = load_node_settings(
        options={"store": store or default_store(os.path.abspath("tierlog-data"))},
        sets=sets,
        environ=os.environ,
        file=None,
    )
    from tierlog.server import find_orphans  # Not before the settings are known to be sound.

    report = asyncio.run(find_orphans(settings, cluster_id=cluster_id))
    if as_json:
        typer.echo(json.dumps(as_value(report), indent=2))
    else:
        show(report)


def show(report: "OrphanReport") -> None:
    from tierlog.cli.tables import print_table

    if report.partitions:
        print_table([row_of(one) for one in report.partitions], right=("bytes", "in them"))
    for line in lines_of(report):
        typer.echo(line)


def row_of(one: "PartitionOrphans") -> dict[str, Any]:
    from tierlog.cli.progress import show_bytes

    return {
        "topic": one.topic,
        "partition": one.partition,
        "objects": one.objects,
        "bytes": show_bytes(one.bytes),
        "orphans": len(one.orphans) + one.more,
        "in them": show_bytes(sum(each.size for each in one.orphans)),
        "young": one.young,
        "strange": one.strange,
    }


def lines_of(report: "OrphanReport") -> list[str]:
    lines = [
        f"{one.topic}-{one.partition}: nothing can be said: {one.problem}"
        for one in report.partitions
        if one.problem
    ]
    keys = [
        f"{one.topic}/{one.partition}/{each.key}"
        for one in report.partitions
        for each in one.orphans
    ]
    lines += [f"orphan {key}" for key in keys[:KEYS_SHOWN]]
    if len(keys) > KEYS_SHOWN:
        lines.append(f"and {len(keys) - KEYS_SHOWN} more: --json has all")
    for waiting in report.waiting:
        hours = (report.now_ms - waiting.deleted_ms) / HOUR_MS
        lines.append(
            f"{waiting.topic} ({waiting.topic_id}) was deleted {hours:.1f} h ago: not swept yet"
        )
    lines += [f"topic id {one} is not in STATE: left alone" for one in report.unknown]
    lines += [f"upload left half way: {one.key}" for one in report.uploads]
    return lines


def as_value(report: "OrphanReport") -> dict[str, Any]:
    return {
        "cluster_id": report.cluster_id,
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "objects": one.objects,
                "bytes": one.bytes,
                "orphan_objects": len(one.orphans) + one.more,
                "orphan_bytes": sum(each.size for each in one.orphans),
                "orphans": [
                    {"key": each.key, "size": each.size, "modified_ms": each.modified_ms}
                    for each in one.orphans
                ],
                "young_objects": one.young,
                "strange_objects": one.strange,
                "problem": one.problem,
            }
            for one in report.partitions
        ],
        "deleted_topics": [
            {"topic": one.topic, "topic_id": one.topic_id, "deleted_ms": one.deleted_ms}
            for one in report.waiting
        ],
        "unknown_topic_ids": list(report.unknown),
        "uploads": [{"key": one.key, "begun_ms": one.begun_ms} for one in report.uploads],
    }
