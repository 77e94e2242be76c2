"""`tierlog restore`: a data directory from the object store alone, and what could not be had.

stdout has the report, as a table or as JSON. Exit code 0: everything that was published is there;
1: something in the bucket is damaged or missing, and the report says what.
"""

import asyncio
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from tierlog.cli.failure import FAILED, say
from tierlog.cli.progress import show_bytes
from tierlog.cli.tables import print_table
from tierlog.cli.times import show_time
from tierlog.config import check_apart, load_node_settings, store_folder

if TYPE_CHECKING:
    from tierlog.cold.report import PartitionReport, Report
    from tierlog.config import NodeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    store: str
    data: str
    cluster_id: str | None = None
    sets: tuple[str, ...] = ()
    as_json: bool = False


def run_restore(options: RestoreOptions) -> None:
    settings = settings_of(options)
    from tierlog.server import restore  # Not before the settings are known to be sound.

    report = asyncio.run(restore(settings, cluster_id=options.cluster_id))
    if options.as_json:
        typer.echo(json.dumps(as_value(report), indent=2))
    else:
        show(report, settings)
    if not report.is_sound:
        raise typer.Exit(FAILED)


def settings_of(options: RestoreOptions) -> "NodeSettings":
    """Raises `InvalidConfig`."""
    data = os.path.abspath(options.data)
    settings = load_node_settings(
        options={"data": data, "store": options.store},
        sets=options.sets,
        environ=os.environ,
        file=None,
    )
    if (folder := store_folder(settings.store)) is not None:
        check_apart(os.path.realpath(folder), os.path.realpath(data))
    return settings


def show(report: "Report", settings: "NodeSettings") -> None:
    typer.echo(
        f"cluster {report.cluster_id} begins life {report.incarnation.number} "
        f"(the last was {report.after.number})"
    )
    print_table([row_of(one) for one in report.partitions])
    for one in report.partitions:
        for problem in one.problems:
            typer.echo(f"{one.topic}-{one.partition}: {problem}")
    for name in report.deleted:
        typer.echo(f"{name} was being deleted: it does not come back")
    if report.is_complete:
        say(f"{settings.data} is ready: tierlog serve --data {settings.data} --store ...")
    else:
        say("not complete: repair what is named above and run the restore again")


def row_of(one: "PartitionReport") -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "records": one.records,
        "bytes": show_bytes(one.bytes),
        "published": "never" if one.published_ms < 0 else show_time(one.published_ms),
        "what": one.sentence,
    }


def as_value(report: "Report") -> dict[str, Any]:
    return {
        "cluster_id": report.cluster_id,
        "incarnation": report.incarnation.number,
        "after": report.after.number,
        "is_complete": report.is_complete,
        "is_sound": report.is_sound,
        "deleted": list(report.deleted),
        "partitions": [
            {
                "topic": one.topic,
                "topic_id": one.topic_id,
                "partition": one.partition,
                "outcome": one.outcome.value,
                "leader_epoch": one.leader_epoch,
                "log_start": one.log_start,
                "next_offset": one.next_offset,
                "records": one.records,
                "bytes": one.bytes,
                "published_ms": one.published_ms,
                "problems": list(one.problems),
            }
            for one in report.partitions
        ],
    }
