"""`tierlog group`: its commands, their options and their help. Light: the work is elsewhere."""

from typing import Annotated

import typer

from tierlog.cli.failure import told
from tierlog.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_HTTP, AsJson, Bootstrap

group_app = typer.Typer(
    help="Look at consumer groups and how far behind they are; reset and delete them.",
    no_args_is_help=True,
)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
Http = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", envvar="TIERLOG_HTTP", help="Where the node speaks HTTP."),
]


@group_app.command("list")
def list_groups(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, http: Http = DEFAULT_HTTP, as_json: AsJson = False
) -> None:
    """List groups, with their state and how far behind they are."""
    with told():
        from tierlog.cli import group as run

        run.list_all(bootstrap, http, as_json=as_json)


@group_app.command("describe")
def describe_group(
    group: GroupName,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    http: Http = DEFAULT_HTTP,
    as_json: AsJson = False,
) -> None:
    """Show a group's members, what each reads, what the group has committed, and its lag."""
    with told():
        from tierlog.cli import group as run

        run.describe(bootstrap, http, group, as_json=as_json)


@group_app.command("lag")
def show_lag(
    group: Annotated[
        str | None,
        typer.Argument(metavar="GROUP", show_default=False, help="All groups, by default."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=1.0, help="With --watch: how often.")
    ] = 2.0,
    until_caught_up: Annotated[
        bool,
        typer.Option("--until-caught-up", help="With --watch: end when nothing is left to read."),
    ] = False,
    http: Http = DEFAULT_HTTP,
    as_json: AsJson = False,
) -> None:
    """Show how far behind groups are: records, bytes, seconds, and what falls off when.

    "behind" is how long the first unread record has waited. "off disk in" and "expires in" say when
    that record leaves the disk, and when it is gone for good, if the group does not come to it.
    """
    with told():
        from tierlog.cli.group_lag import LagOptions, run_lag

        run_lag(
            LagOptions(
                group=group,
                http=http,
                watch=watch or until_caught_up,
                every_s=every,
                until_caught_up=until_caught_up,
                as_json=as_json,
            )
        )


@group_app.command("reset")
def reset_group(
    group: GroupName,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC[:P,..]",
            help="Only this topic, or these partitions of it; repeatable.  [default: all that the "
            "group has committed]",
            show_default=False,
        ),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The first record from a time on: 2024-03-01T12:00Z, 2h"),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="AGE", help="The same, so long ago: 90m, 7d.")
    ] = None,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="The oldest record that there is.")
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="The end: only what comes is read.")
    ] = False,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="N records on, or back if N is below 0.")
    ] = None,
    to_offset: Annotated[int | None, typer.Option(metavar="N", min=0, help="This offset.")] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it. Otherwise it is only shown.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show it. The default, said aloud.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Set where a group goes on reading. Shows what would change; --execute does it.

    Refused while the group has members: they would overwrite it. Offsets are kept within the
    records that there are, in both tiers.
    """
    with told():
        from tierlog.cli.group_reset import ResetOptions, Target, run_reset

        run_reset(
            ResetOptions(
                group=group,
                topics=tuple(topic or ()),
                target=Target.chosen(
                    to_datetime=to_datetime,
                    by_duration=by_duration,
                    to_earliest=to_earliest,
                    to_latest=to_latest,
                    shift_by=shift_by,
                    to_offset=to_offset,
                ),
                execute=execute,
                dry_run=dry_run,
                bootstrap=bootstrap,
                as_json=as_json,
            )
        )


@group_app.command("delete")
def delete_groups(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete groups without members, and their offsets."""
    with told():
        from tierlog.cli import group as run

        run.delete(bootstrap, groups, yes=yes, as_json=as_json)
