"""The commands, their options and their help. Light: what a command needs is imported in it."""

from pathlib import Path
from typing import Annotated

import typer

from tierlog.cli.cost_bucket import cost_app
from tierlog.cli.failure import told
from tierlog.cli.formats import Format
from tierlog.cli.group_commands import group_app
from tierlog.cli.hold_commands import hold_app
from tierlog.cli.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_HTTP,
    AsJson,
    Bootstrap,
    ClusterId,
    Sets,
    TopicName,
)
from tierlog.cli.spark import spark_app
from tierlog.cli.store import store_app
from tierlog.cli.store_orphans import orphans
from tierlog.cli.topic_commands import topic_app

app = typer.Typer(
    help="tierlog: a Kafka-compatible log server whose home is object storage.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topic_app, name="topic")
app.add_typer(group_app, name="group")
app.add_typer(hold_app, name="hold")
app.add_typer(cost_app, name="cost")
store_app.command("orphans")(orphans)
app.add_typer(store_app, name="store")
app.add_typer(spark_app, name="spark")


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"tierlog {version_of('tierlog')}")
        raise typer.Exit


@app.command()
def serve(
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Local data.  [default: ./tierlog-data]")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="file:///path or s3://bucket/prefix.  [default: the folder DIR-store]",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="For Kafka clients.  [default: 127.0.0.1:9092]"),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|off", help="Metrics and health.  [default: 127.0.0.1:8080]"
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="What clients are told.  [default: the address that each client used]",
        ),
    ] = None,
    node_id: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="This node's number.  [default: 1]")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml", envvar="TIERLOG_CONFIG", help="Settings, weaker than --set."
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be repeated."),
    ] = None,
    new_cluster: Annotated[
        bool, typer.Option("--new-cluster", help="Start anew although the store holds a cluster.")
    ] = False,
) -> None:
    """Run a node. Prints one line on stdout when it is ready; logs go to stderr."""
    with told():
        from tierlog.cli.serve import ServeOptions, run_server

        run_server(
            ServeOptions(
                data=data,
                store=store,
                listen=listen,
                http=http,
                advertise=advertise,
                node_id=node_id,
                config=config,
                sets=tuple(sets or ()),
                new_cluster=new_cluster,
            )
        )


@app.command()
def restore(
    store: Annotated[str, typer.Option(metavar="URL", help="file:///path or s3://bucket/prefix.")],
    data: Annotated[str, typer.Option(metavar="DIR", help="An empty or missing directory.")],
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
    """Prepare a data directory from the object store alone; prints what was lost per partition.

    The cluster begins a new life: a node of the old one that still runs is fenced at its next
    publish and must not be used any more. Cut off half way, run it again.
    """
    with told():
        from tierlog.cli.restore import RestoreOptions, run_restore

        run_restore(
            RestoreOptions(
                store=store,
                data=data,
                cluster_id=cluster_id,
                sets=tuple(sets or ()),
                as_json=as_json,
            )
        )


@app.command()
def verify(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="All, by default.", show_default=False),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="file:///path or s3://bucket/prefix.  [default: the folder DIR-store]",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A node's data: its copies of manifests are compared."),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Which cluster, if the store holds several."),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every object and check every hash.")
    ] = False,
    state: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="With --deep: go on where a run with this file ended."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="BYTES/S", help="Read no faster, as 50M.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, as s3.endpoint; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that the object store has everything that was published, unchanged.

    Asks the store alone and writes nothing. Exit code 1 if something is damaged; each finding says
    what to do.
    """
    with told():
        from tierlog.cli.verify import VerifyOptions, run_verify

        run_verify(
            VerifyOptions(
                topics=tuple(topics or ()),
                store=store,
                data=data,
                cluster_id=cluster_id,
                is_deep=deep,
                state=state,
                rate=rate,
                sets=tuple(sets or ()),
                as_json=as_json,
            )
        )


@app.command()
def node(
    http: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", envvar="TIERLOG_HTTP", help="Where the node speaks HTTP."
        ),
    ] = DEFAULT_HTTP,
    as_json: AsJson = False,
) -> None:
    """Show a node's state: addresses, disk, connections, requests and topics."""
    with told():
        from tierlog.cli.node import show

        show(http, as_json=as_json)


@app.command()
def prewarm(
    topic: TopicName,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="N|TIME|beginning", help="An offset, or a time: 2h, 2024-03-01."
        ),
    ] = "beginning",
    end: Annotated[
        str, typer.Option("--to", metavar="N|TIME|end", help="Exclusive, as --from.")
    ] = "end",
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Only this one; may be repeated."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="Load no more than this, as 500MB or 2GiB."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take, and load nothing.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    http: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", envvar="TIERLOG_HTTP", help="Where the node speaks HTTP."
        ),
    ] = DEFAULT_HTTP,
    as_json: AsJson = False,
) -> None:
    """Load cold records into the node's cache, before those who will read them.

    Only free room is used: nothing that is cached leaves for it.
    """
    with told():
        from tierlog.cli.prewarm import run_prewarm

        run_prewarm(
            bootstrap,
            http,
            topic,
            start=start,
            end=end,
            partitions=partition,
            budget=budget,
            dry_run=dry_run,
            as_json=as_json,
        )


@app.command()
def explain(
    topic: TopicName,
    partition: Annotated[
        int | None, typer.Argument(metavar="PARTITION", min=0, show_default=False)
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every segment, not only runs of one fate.")
    ] = False,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar="TIERLOG_HTTP",
            help=f"Where the node speaks HTTP.  [default: {DEFAULT_HTTP}]",
        ),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="The node's other address: its host is asked at port 8080."
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Ask no node, only the bucket: what it can tell."),
    ] = None,
    cluster_id: ClusterId = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Show where each segment is, why it is not uploaded, dropped or expired yet, and when."""
    with told():
        from tierlog.cli.explain import ExplainOptions, run_explain

        options = ExplainOptions(
            topic=topic,
            partition=partition,
            every=every,
            as_json=as_json,
            http=http,
            bootstrap=bootstrap,
        )
        if store is None:
            run_explain(options)
            return
        from tierlog.cli.bucket import settings_of
        from tierlog.cli.explain_store import run_offline

        run_offline(options, settings_of(store, sets or ()), cluster_id)


@app.command()
def produce(
    topic: TopicName,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Read this and not stdin.")
    ] = None,
    read_as: Annotated[
        str,
        typer.Option(
            "--input",
            metavar="lines|json",
            help="A record a line: as it stands, or a JSON object as `consume --json` prints it.",
        ),
    ] = "lines",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help="What stands between key and value."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record."),
    ] = None,
    key_format: Annotated[Format, typer.Option(help="How keys are written.")] = Format.UTF8,
    value_format: Annotated[Format, typer.Option(help="How values are written.")] = Format.UTF8,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Write here, whatever the key.")
    ] = None,
    acks: Annotated[
        str,
        typer.Option(
            metavar="all|1|0", help="Wait until every replica, the leader or nobody has it."
        ),
    ] = "all",
    compression: Annotated[
        str,
        typer.Option(
            "--compression", "-z", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd."
        ),
    ] = "none",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Write records, one a line, from stdin or a file."""
    with told():
        from tierlog.cli.input import InputSettings
        from tierlog.cli.produce import run_producer

        run_producer(
            bootstrap,
            topic,
            file=file,
            reading=InputSettings.checked(
                read_as=read_as,
                key=key,
                key_separator=key_separator,
                headers=header or (),
                key_format=key_format,
                value_format=value_format,
                partition=partition,
            ),
            acks=acks,
            compression=compression,
            as_json=as_json,
        )


@app.command()
def consume(
    topic: TopicName,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="The default, unless -f is given.")
    ] = False,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset",
            "-o",
            metavar="N|beginning|end|-N",
            help="Start here; -N: that many before the end of each partition.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start at a time: 2h (ago), 2024-03-01T12:00Z, now."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Leave out what is not before a time.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Only this one; may be repeated."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more records; from the end on.")
    ] = False,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help="Print keys, and this between key and value."),
    ] = None,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers too.")] = False,
    meta: Annotated[
        bool, typer.Option("--meta", help="Print partition, offset and time too.")
    ] = False,
    key_format: Annotated[Format, typer.Option(help="How to print keys.")] = Format.UTF8,
    value_format: Annotated[Format, typer.Option(help="How to print values.")] = Format.UTF8,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per record and line.")
    ] = False,
) -> None:
    """Read records, one a line. Ends where the topic ended when it began, unless -f is given."""
    with told():
        from tierlog.cli.consume import run_consumer
        from tierlog.cli.lines import LineSettings
        from tierlog.cli.span import SpanSettings

        run_consumer(
            bootstrap,
            topic,
            span=SpanSettings.checked(
                from_beginning=from_beginning,
                offset=offset,
                since=since,
                until=until,
                follow=follow,
            ),
            lines=LineSettings(
                as_json=as_json,
                key_separator=key_separator,
                headers=headers,
                meta=meta,
                key_format=key_format,
                value_format=value_format,
            ),
            partitions=partition,
            count=count,
        )
