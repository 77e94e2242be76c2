"""`tierlog topic`: its commands, their options and their help. Light: the work is in `topic`."""

from typing import Annotated

import typer

from tierlog.cli.failure import told
from tierlog.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, TopicName

topic_app = typer.Typer(
    help="Create, list, describe, alter and delete topics.", no_args_is_help=True
)

TopicNames = Annotated[list[str], typer.Argument(metavar="TOPIC", show_default=False)]


@topic_app.command("create")
def create_topics(
    topics: TopicNames,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many; -1: the broker's default.")
    ] = -1,
    replicas: Annotated[
        int, typer.Option("--replicas", "-r", help="How many; -1: the broker's default.")
    ] = -1,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", "--set", "-c", metavar="KEY=VALUE", help="A topic setting; repeatable."
        ),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that is there already is no failure.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the request.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Create topics."""
    with told():
        from tierlog.cli import topic as run

        run.create(
            bootstrap,
            topics,
            partitions=partitions,
            replicas=replicas,
            config=run.pairs(config or (), option="--config"),
            if_not_exists=if_not_exists,
            dry_run=dry_run,
            as_json=as_json,
        )


@topic_app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also the broker's own.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List topics."""
    with told():
        from tierlog.cli import topic as run

        run.list_all(bootstrap, internal=internal, as_json=as_json)


@topic_app.command("describe")
def describe_topic(
    topic: TopicName,
    every: Annotated[
        bool, typer.Option("--all", help="Every setting, not only those that were set.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show a topic's partitions with their offsets, and its settings."""
    with told():
        from tierlog.cli import topic as run

        run.describe(bootstrap, topic, every=every, as_json=as_json)


@topic_app.command("alter")
def alter_topic(
    topic: TopicName,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "--config", "-c", metavar="KEY=VALUE", help="A topic setting; repeatable."
        ),
    ] = None,
    deletes: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="KEY", help="Return a setting to its default."),
    ] = None,
    appends: Annotated[
        list[str] | None, typer.Option("--append", metavar="KEY=VALUE", help="Add to a list.")
    ] = None,
    subtracts: Annotated[
        list[str] | None,
        typer.Option("--subtract", metavar="KEY=VALUE", help="Take from a list."),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Grow to so many.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Change a topic's settings, or give it more partitions."""
    with told():
        from tierlog.cli import topic as run

        run.alter(
            bootstrap,
            topic,
            sets=run.pairs(sets or (), option="--set"),
            deletes=deletes or [],
            appends=run.pairs(appends or (), option="--append"),
            subtracts=run.pairs(subtracts or (), option="--subtract"),
            partitions=partitions,
            as_json=as_json,
        )


@topic_app.command("delete")
def delete_topics(
    topics: TopicNames,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete topics with all their records. Asks first on a terminal."""
    with told():
        from tierlog.cli import topic as run

        run.delete(bootstrap, topics, yes=yes, as_json=as_json)
