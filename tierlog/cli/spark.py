"""`tierlog spark`: its commands, their options and their help. Light: the work imports Spark."""

from typing import Annotated

import typer

from tierlog.cli.failure import told
from tierlog.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, ClusterId, Sets, StoreUrl

spark_app = typer.Typer(
    help="Jobs on Spark: convert, verify and replay cold history.", no_args_is_help=True
)

Topics = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC]...", help="All, by default.", show_default=False),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Of Spark, as local[4].  [default: as spark-submit says, or all cores]"
    ),
]


@spark_app.command()
def convert(
    topics: Topics = None,
    store: StoreUrl = None,
    cluster_id: ClusterId = None,
    until: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Only segments that end before it.")
    ] = None,
    master: Master = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Convert cold segments to Parquet, in parallel: backfill of years, or what a node left.

    Runs beside nodes that convert as well: who comes second finds the work done.
    """
    with told():
        from tierlog.cli.spark_run import Where, run_convert

        where = Where(store=store, cluster_id=cluster_id, master=master, sets=tuple(sets or ()))
        run_convert(where, tuple(topics or ()), until=until, as_json=as_json)


@spark_app.command()
def verify(
    topics: Topics = None,
    store: StoreUrl = None,
    cluster_id: ClusterId = None,
    master: Master = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Read every object and check every hash, in parallel. Exit code 1 if something is damaged."""
    with told():
        from tierlog.cli.spark_run import Where, run_verify

        where = Where(store=store, cluster_id=cluster_id, master=master, sets=tuple(sets or ()))
        run_verify(where, tuple(topics or ()), as_json=as_json)


@spark_app.command()
def replay(
    source: Annotated[str, typer.Argument(metavar="SOURCE", show_default=False)],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", show_default=False, help="Must exist.")
    ],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="N|TIME|beginning",
            help="An offset of every partition, or a time: 2h, 2024-03-01.",
        ),
    ] = "beginning",
    end: Annotated[
        str, typer.Option("--to", metavar="N|TIME|end", help="Exclusive, as --from.")
    ] = "end",
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="TEXT", help="Only records with this key; repeatable."),
    ] = None,
    cold_only: Annotated[
        bool, typer.Option("--cold-only", help="The end is the end of the store, not of the log.")
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="There was no earlier run: do not read TARGET to find it."),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    store: StoreUrl = None,
    cluster_id: ClusterId = None,
    master: Master = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Write a range of a topic's history into another topic.

    Partition, order, key, headers and timestamps are kept. At least once: run it again after a
    failure, and it goes on behind what the target has.
    """
    with told():
        from tierlog.cli.spark_run import Replay, Where, run_replay

        where = Where(store=store, cluster_id=cluster_id, master=master, sets=tuple(sets or ()))
        wanted = Replay(
            source=source,
            target=target,
            start=start,
            end=end,
            keys=None if key is None else tuple(one.encode() for one in key),
            bootstrap=bootstrap,
            cold_only=cold_only,
            fresh=fresh,
        )
        run_replay(where, wanted, as_json=as_json)
