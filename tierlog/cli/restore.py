"""`tierlog restore`: a data directory from the object store alone, and what could not be had.

stdout has the report, as a table or as JSON. Exit code 0: everything that was published is there;
1: something in the bucket is damaged or missing, and the report says what. The last line is the
command to go on with, as the person would have typed it.
"""

import asyncio
import json
import os
import shlex
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import typer

from tierlog.cli.bucket import check_folder
from tierlog.cli.failure import FAILED, say
from tierlog.cli.progress import show_bytes
from tierlog.cli.tables import print_table
from tierlog.cli.times import show_second
from tierlog.config import check_apart, load_node_settings, store_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.cold.regrouping import GroupReport
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
    check_folder(settings)
    from tierlog.server import restore  # Not before the settings are known to be sound.

    report = asyncio.run(restore(settings, cluster_id=options.cluster_id))
    if options.as_json:
        typer.echo(json.dumps(as_value(report), indent=2))
    else:
        show(report, options)
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


def show(report: "Report", options: RestoreOptions) -> None:
    typer.echo(
        f"cluster {report.cluster_id} begins life {report.incarnation.number} "
        f"(the last was {report.after.number})"
    )
    if report.partitions:
        print_table(rows_of(report.partitions), right=("from", "to", "bytes"))
        typer.echo(FOOTNOTE)
    if report.groups:
        typer.echo("")
        print_table([group_row(one) for one in report.groups])
        for line in group_lines(report.groups):
            typer.echo(line)
    for name in report.deleted:
        typer.echo(f"{name} was being deleted: it does not come back")
    for one in report.partitions:
        for problem in one.problems:
            typer.echo(f"{one.topic}-{one.partition}: {problem}")
    for problem in report.problems:
        typer.echo(problem)
    say(closing(report))
    say(f"  tierlog {'serve' if report.is_complete else 'restore'} {as_typed(options, report)}")


FOOTNOTE = (
    "Partitions go on at 'to'. What was acknowledged from there on and not published\n"
    "is lost; of a topic that is not tiered, everything."
)


def group_row(one: "GroupReport") -> dict[str, Any]:
    return {
        "group": one.group,
        "offsets": one.offsets,
        "set_back": len(one.set_back),
        "gone": one.gone,
    }


def group_lines(groups: "Sequence[GroupReport]") -> list[str]:
    """What became of offsets that pointed behind what was restored."""
    lines = ["Groups go on from what they had committed up to half a minute before the end."]
    for group in groups:
        for one in group.set_back:
            count = one.committed - one.now
            lines.append(
                f"{group.group}: {one.topic}-{one.partition} set back from {one.committed} to "
                f"{one.now}, where the partition goes on: {count} records it had read are lost"
            )
        if group.gone:
            lines.append(f"{group.group}: {group.gone} offsets were of topics that are deleted")
    return lines


def closing(report: "Report") -> str:
    if not report.is_complete:
        return "not complete: repair what is named above and run the restore again:"
    if report.is_sound:
        return "ready:"
    count = sum(len(one.problems) for one in report.partitions) + len(report.problems)
    what = "the problem" if count == 1 else f"the {count} problems"
    return f"ready, but for {what} named above:"


def as_typed(options: RestoreOptions, report: "Report") -> str:
    """The words of the person, for the shell."""
    words = ["--data", options.data, "--store", options.store]
    for each in options.sets:
        words += ["--set", each]
    if not report.is_complete:
        words += ["--cluster-id", report.cluster_id]
    return shlex.join(words)


def rows_of(partitions: "Sequence[PartitionReport]") -> list[dict[str, Any]]:
    """One for each; of a topic that is not tiered one for all, since they are alike."""
    rows = []
    for topic, some in groupby(partitions, key=lambda one: one.topic):
        all_of_it = list(some)
        if len(all_of_it) > 1 and all(one.outcome.value == "untiered" for one in all_of_it):
            last = all_of_it[-1].partition
            rows.append({**row_of(all_of_it[0]), "topic": topic, "partition": f"0-{last}"})
        else:
            rows += map(row_of, all_of_it)
    return rows


def row_of(one: "PartitionReport") -> dict[str, Any]:
    """Within 80 columns up to a topic of 15 letters and offsets of seven digits."""
    is_known = one.outcome.value != "lost"
    return {
        "topic": one.topic,
        "partition": one.partition,
        "from": one.log_start if is_known else "?",
        "to": one.next_offset if is_known else "?",
        "records": one.records,
        "bytes": show_bytes(one.bytes),
        "published": published(one),
    }


def published(one: "PartitionReport") -> str:
    if one.outcome.value == "untiered":
        return "not tiered"
    if one.outcome.value == "lost":
        return "not restored"
    return "never" if one.published_ms < 0 else show_second(one.published_ms)


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
        "groups": [
            {
                "group": one.group,
                "offsets": one.offsets,
                "gone": one.gone,
                "set_back": [back._asdict() for back in one.set_back],
            }
            for one in report.groups
        ],
        "taken_in": [asdict(one) for one in report.taken_in],
        "problems": list(report.problems),
    }
