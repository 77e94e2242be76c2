"""`tierlog hold`: its commands, their options and their help. Light: the work is in `hold`."""

from typing import Annotated

import typer

from tierlog.cli.failure import told
from tierlog.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_HTTP, AsJson, Bootstrap, TopicName

hold_app = typer.Typer(
    help="Keep records from being deleted by anybody, until released: place, release, list holds.",
    no_args_is_help=True,
)

Http = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", envvar="TIERLOG_HTTP", help="Where the node speaks HTTP."),
]


@hold_app.command("place")
def place_hold(
    topic: TopicName,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why: one line, for those who find it.")
    ],
    hold_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            show_default=False,
            help="By this it is released. Given again, it completes what is missing.  [default: a "
            "new one, which is printed]",
        ),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="N|TIME|beginning", help="An offset, or a time: 2h, 2024-03-01."
        ),
    ] = "beginning",
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="N|TIME|end",
            show_default=False,
            help="Exclusive, as --from; end: what is there now.  [default: what comes, too]",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Only this one; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    http: Http = DEFAULT_HTTP,
    as_json: AsJson = False,
) -> None:
    """Hold records of a tiered topic: neither retention nor DeleteRecords nor the deletion of the
    topic takes them until the hold is released.

    Done, with exit code 0, once the bucket's manifest of every partition says so. Otherwise each
    partition is told for itself; run it again with the same --id. Partitions that the topic gets
    later are not held.
    """
    with told():
        from tierlog.cli.hold import run_place

        run_place(
            bootstrap,
            http,
            topic,
            hold_id=hold_id,
            reason=reason,
            start=start,
            end=end,
            partitions=partition,
            as_json=as_json,
        )


@hold_app.command("release")
def release_hold(
    topic: TopicName,
    hold_id: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    http: Http = DEFAULT_HTTP,
    as_json: AsJson = False,
) -> None:
    """Release a hold on all partitions that have it. From then on its records live as long as
    all others: what is too old by now expires with the next check.

    Done, with exit code 0, once the bucket says so; otherwise run it again.
    """
    with told():
        from tierlog.cli.hold import run_release

        run_release(http, topic, hold_id, as_json=as_json)


@hold_app.command("list")
def list_holds(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", show_default=False, help="All topics, by default."),
    ] = None,
    http: Http = DEFAULT_HTTP,
    as_json: AsJson = False,
) -> None:
    """List holds, with their offsets and reasons."""
    with told():
        from tierlog.cli.hold import run_list

        run_list(http, topic, as_json=as_json)
