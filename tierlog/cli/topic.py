"""`tierlog topic ...`: topics are made, shown, changed and deleted."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from tierlog.cli.failure import Refused, say, usage
from tierlog.cli.session import known_topic, with_client
from tierlog.cli.tables import print_table
from tierlog.client import (
    EARLIEST,
    EARLIEST_LOCAL,
    LAST_TIERED,
    LATEST,
    BrokerError,
    Client,
)
from tierlog.config import ConfigSource
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.metadata import MetadataResponseTopic

SOURCES: Mapping[int, str] = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER: "node",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "cluster",
    ConfigSource.STATIC_BROKER: "node",
    ConfigSource.DEFAULT: "default",
}
"""Where a setting comes from, in a word."""


PLACES = ("cold_start", "cold_end", "local_start")
"""Of a partition's row: for programs as they are, for people in a table of their own."""


def pairs(given: Sequence[str], *, option: str) -> dict[str, str]:
    """KEY=VALUE, each; a usage error otherwise."""
    for each in given:
        if each.find("=") < 1:
            raise usage(f"{option} {each} is not of the form key=value")
    return dict(each.split("=", 1) for each in given)


def create(
    bootstrap: str,
    names: Sequence[str],
    *,
    partitions: int,
    replicas: int,
    config: Mapping[str, str],
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    async def work(client: Client) -> None:
        for name in names:
            try:
                made = await client.create_topics(
                    name,
                    partitions=partitions,
                    replicas=replicas,
                    configs=config,
                    validate_only=dry_run,
                )
            except BrokerError as error:
                _check_present(name, error, if_not_exists=if_not_exists)
                _report(as_json, f"{name} is there already", topic=name, created=False)
            else:
                count = made[name].num_partitions
                verb = "could create" if dry_run else "created"
                sentence = f"{verb} {name} with {_count(count, 'partition')}"
                _report(as_json, sentence, topic=name, created=not dry_run, partitions=count)

    with_client(bootstrap, work)


def _check_present(name: str, error: BrokerError, *, if_not_exists: bool) -> None:
    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise Refused(f"topic {name} was not created: {error.sentence}")
    if not if_not_exists:
        raise Refused(f"there is a topic {name} already")


def list_all(bootstrap: str, *, internal: bool, as_json: bool) -> None:
    async def work(client: Client) -> list[MetadataResponseTopic]:
        return (await client.metadata(None)).topics

    found = with_client(bootstrap, work)
    rows = sorted(
        (
            {
                "topic": each.name,
                "partitions": len(each.partitions),
                "replicas": max((len(one.replica_nodes) for one in each.partitions), default=0),
            }
            for each in found
            if internal or not each.is_internal
        ),
        key=lambda row: str(row["topic"]),
    )
    if as_json:
        typer.echo(json.dumps(rows))
    elif rows:
        print_table(rows)
    else:
        say("there are no topics; `tierlog topic create NAME` makes one")


def describe(bootstrap: str, name: str, *, every: bool, as_json: bool) -> None:
    async def work(client: Client) -> dict[str, Any]:
        topic = await known_topic(client, name, to_fill=False)
        return {
            "topic": name,
            "partitions": await _partition_rows(client, topic),
            "settings": await _setting_rows(client, name, every=every),
        }

    described = with_client(bootstrap, work)
    if as_json:
        typer.echo(json.dumps(described))
        return
    rows = described["partitions"]
    typer.echo(f"{name}: {_count(len(rows), 'partition')}")
    print_table([{key: row[key] for key in row if key not in PLACES} for row in rows])
    if any(row["cold_end"] is not None for row in rows):
        typer.echo("")
        print_table([_place_row(row) for row in rows])
    typer.echo("")
    if described["settings"]:
        print_table(described["settings"])
    else:
        typer.echo("every setting has its default; --all shows them")


def _place_row(row: dict[str, Any]) -> dict[str, Any]:
    """Where a partition's offsets lie; both tiers may have the same ones."""
    cold = row["cold_end"] is not None
    return {
        "partition": row["partition"],
        "in the store": f"[{row['cold_start']}, {row['cold_end']})" if cold else "",
        "on the disk": f"[{row['local_start']}, {row['end']})",
    }


async def _partition_rows(client: Client, topic: MetadataResponseTopic) -> list[dict[str, Any]]:
    assert topic.name is not None
    indexes = sorted(each.partition_index for each in topic.partitions)
    starts = await client.list_offsets(topic.name, dict.fromkeys(indexes, EARLIEST))
    ends = await client.list_offsets(topic.name, dict.fromkeys(indexes, LATEST))
    locals_, tiered = await _tiers(client, topic.name, indexes)
    infos = {each.partition_index: each for each in topic.partitions}
    return [
        {
            "partition": index,
            "leader": infos[index].leader_id,
            "replicas": infos[index].replica_nodes,
            "in_sync": infos[index].isr_nodes,
            "start": starts[index].offset,
            "end": ends[index].offset,
            "offsets": ends[index].offset - starts[index].offset,
            "cold_start": starts[index].offset if index in tiered else None,
            "cold_end": tiered.get(index),
            "local_start": locals_.get(index),
        }
        for index in indexes
    ]


async def _tiers(
    client: Client, name: str, indexes: Sequence[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """By partition: where the local disk begins and, of those with a cold part, where that ends.
    Nothing of a broker that has never heard of tiers."""
    try:
        tiered = await client.list_offsets(name, dict.fromkeys(indexes, LAST_TIERED))
        locals_ = await client.list_offsets(name, dict.fromkeys(indexes, EARLIEST_LOCAL))
    except BrokerError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return {}, {}
    return (
        {index: one.offset for index, one in locals_.items()},
        {index: one.offset + 1 for index, one in tiered.items() if one.offset >= 0},
    )


async def _setting_rows(client: Client, name: str, *, every: bool) -> list[dict[str, Any]]:
    found = await client.describe_configs(name)
    return [
        {"setting": each.name, "value": each.value, "from": SOURCES.get(each.config_source, "?")}
        for each in sorted(found.values(), key=lambda one: one.name)
        if every or each.config_source != ConfigSource.DEFAULT
    ]


def alter(
    bootstrap: str,
    name: str,
    *,
    sets: Mapping[str, str],
    deletes: Sequence[str],
    appends: Mapping[str, str],
    subtracts: Mapping[str, str],
    partitions: int | None,
    as_json: bool,
) -> None:
    changes_settings = bool(sets or deletes or appends or subtracts)
    if not changes_settings and partitions is None:
        raise usage("nothing to alter; use --set, --delete, --append, --subtract or --partitions")

    async def change(client: Client, *, only_check: bool) -> None:
        if changes_settings:
            await client.alter_configs(
                name,
                set=sets,
                delete=deletes,
                append=appends,
                subtract=subtracts,
                validate_only=only_check,
            )

    async def work(client: Client) -> None:
        await known_topic(client, name, to_fill=False)
        grown = False
        try:
            # Two requests, either of which may be refused: nothing changes before both are checked.
            await change(client, only_check=True)
            if partitions is not None:
                await client.create_partitions(name, partitions)
                grown = True
            await change(client, only_check=False)
        except BrokerError as error:
            raise Refused(f"{_unaltered(name, partitions, grown)}: {error.sentence}") from None

    with_client(bootstrap, work)
    _report(as_json, f"altered {name}", topic=name, altered=True)


def _unaltered(name: str, partitions: int | None, grown: bool) -> str:
    if not grown or partitions is None:
        return f"topic {name} was not altered"
    return f"topic {name} has {_count(partitions, 'partition')} now, its settings were not altered"


def delete(bootstrap: str, names: Sequence[str], *, yes: bool, as_json: bool) -> None:
    async def work(client: Client) -> None:
        for name in names:
            await known_topic(client, name, to_fill=False)
        if not yes and sys.stdin.isatty() and sys.stderr.isatty():
            _confirm(names)
        for name in names:
            await client.delete_topics(name)
            _report(as_json, f"deleted {name}", topic=name, deleted=True)

    with_client(bootstrap, work)


def _confirm(names: Sequence[str]) -> None:
    if not typer.confirm(f"delete {', '.join(names)} with all records?", err=True):
        raise Refused("nothing was deleted")


def _report(as_json: bool, sentence: str, **fields: object) -> None:
    typer.echo(json.dumps(fields) if as_json else sentence)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
