"""`tierlog group list`, `describe` and `delete`: groups as their coordinator describes them, and
their lag as the node's HTTP side tells it, where that answers."""

import json
import struct
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import typer

from tierlog.cli.failure import Refused, say, usage
from tierlog.cli.group_heard import heard
from tierlog.cli.group_lag import NOT_KNOWN, RIGHT, behind_words, common
from tierlog.cli.session import with_client
from tierlog.cli.tables import print_table
from tierlog.client import EARLIEST, LATEST, BrokerError, Client, TopicPartition
from tierlog.client.groups import CommittedOffset
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages import list_groups as listing

CONSUMER = "consumer"
"""Type of groups of KIP-848."""
DEAD = "Dead"
EMPTY = "Empty"
NO_GROUPS = "there are no groups; a consumer that subscribes, or commits, makes one"
LISTED = ("records", "seconds", "unknown_partitions")
"""What `list` takes from `/lag`, and `describe` for each partition; then its columns."""
DESCRIBED = (
    "bytes",
    "seconds",
    "trend",
    "catch_up_s",
    "is_catch_up_known",
    "local_left_s",
    "is_local_left_known",
    "retention_left_s",
    "is_retention_left_known",
)
COLUMNS = ("bytes", "behind", "trend", "caught_up_in", "off_disk_in", "expires_in")


def list_all(bootstrap: str, http: str, *, as_json: bool) -> None:
    async def work(client: Client) -> tuple[list[listing.ListedGroup], str | None]:
        return await client.list_groups(), (await client.metadata([])).cluster_id

    listed, cluster_id = with_client(bootstrap, work)
    if not listed:
        typer.echo("[]") if as_json else say(NO_GROUPS)
        return
    answer = heard(http, cluster_id)
    lags = {} if answer is None else {one["group"]: one for one in answer["groups"]}
    rows = [
        {
            "group": one.group_id,
            "state": one.group_state,
            "type": one.group_type,
            "protocol": one.protocol_type,
            **{name: lags.get(one.group_id, {}).get(name) for name in LISTED},
        }
        for one in sorted(listed, key=lambda one: one.group_id)
    ]
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        shown = [_listed_row(row, is_lag_known=answer is not None) for row in rows]
        print_table(shown, right=RIGHT)


def _listed_row(row: dict[str, Any], *, is_lag_known: bool) -> dict[str, object]:
    found = {name: row[name] or "-" for name in ("group", "state", "type", "protocol")}
    if not is_lag_known:
        return found
    if row["records"] is None:
        return {**found, "records": "-", "behind": "-"}  # It has committed nothing.
    behind = behind_words(row) if row["records"] else "-"
    return {**found, "records": f"{row['records']:,}", "behind": behind}


# Describing


def describe(bootstrap: str, http: str, group: str, *, as_json: bool) -> None:
    require_name(group)

    async def work(client: Client) -> tuple[dict[str, Any], str | None]:
        found = await described(client, group)
        cluster_id = (await client.metadata([])).cluster_id
        return {**found, "offsets": await _offset_rows(client, group)}, cluster_id

    found, cluster_id = with_client(bootstrap, work)
    lag = heard(http, cluster_id, group) if found["offsets"] else None
    if as_json:
        typer.echo(json.dumps(_with_lag(found, lag)))
        return
    for line in _summary(found):
        typer.echo(line)
    if found["members"]:
        typer.echo("")
        print_table([_member_row(one) for one in found["members"]])
    typer.echo("")
    if found["offsets"]:
        print_table(_offset_table(found["offsets"], lag), right=RIGHT)
    else:
        typer.echo("nothing is committed")


def _by_place(lag: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    return {(one["topic"], one["partition"]): one for one in lag["partitions"]}


def _with_lag(found: dict[str, Any], lag: dict[str, Any] | None) -> dict[str, Any]:
    """`lag` of an offset is its records, as the broker counts them now; the rest is beside it."""
    known = {} if lag is None else _by_place(lag)
    rows = [
        {**{name: known.get(_place(one), {}).get(name) for name in DESCRIBED}, **one}
        for one in found["offsets"]
    ]
    left_out = ("partitions", "cluster_id")
    group = None if lag is None else {key: one for key, one in lag.items() if key not in left_out}
    return {**found, "offsets": rows, "group_lag": group}


def _offset_table(
    offsets: Sequence[dict[str, Any]], lag: dict[str, Any] | None
) -> list[dict[str, object]]:
    if lag is None:
        return list(offsets)
    known = _by_place(lag)
    return [{**one, **_lag_columns(known.get(_place(one)))} for one in offsets]


def _lag_columns(lag: dict[str, Any] | None) -> dict[str, object]:
    if lag is None:  # Committed since the node looked.
        return dict.fromkeys(COLUMNS, NOT_KNOWN)
    row = common(lag)
    return {name: row[name] for name in COLUMNS}


def _place(one: dict[str, Any]) -> tuple[str, int]:
    return one["topic"], one["partition"]


async def described(client: Client, group: str) -> dict[str, Any]:
    """State and members, whichever protocol they speak. Raises `Refused` if there is none."""
    listed = {one.group_id: one for one in await client.list_groups()}
    if group not in listed:
        raise no_group(group, listed)
    kind = listed[group].group_type
    try:
        if kind.lower() == CONSUMER:
            return await _consumer(client, group)
        return await _classic(client, group)
    except BrokerError as error:
        raise Refused(f"group {group} cannot be described: {error.sentence}") from None


async def _classic(client: Client, group: str) -> dict[str, Any]:
    found = await client.describe_classic_group(group)
    return {
        "group": group,
        "state": found.group_state,
        "type": "classic",
        "assignor": found.protocol_data or None,
        "epoch": None,
        "members": [
            {
                "member": one.member_id,
                "client": one.client_id,
                "host": one.client_host.removeprefix("/"),
                "instance": one.group_instance_id,
                "partitions": assigned(bytes(one.member_assignment)),
            }
            for one in found.members
        ],
    }


async def _consumer(client: Client, group: str) -> dict[str, Any]:
    found = await client.describe_consumer_group(group)
    return {
        "group": group,
        "state": found.group_state,
        "type": CONSUMER,
        "assignor": found.assignor_name or None,
        "epoch": found.group_epoch,
        "members": [
            {
                "member": one.member_id,
                "client": one.client_id,
                "host": one.client_host.removeprefix("/"),
                "instance": one.instance_id,
                "partitions": [
                    f"{each.topic_name}-{index}"
                    for each in one.assignment.topic_partitions
                    for index in each.partitions
                ],
            }
            for one in found.members
        ],
    }


def assigned(data: bytes) -> list[str]:
    """Of an assignment as Kafka's consumers write it; nothing for what is written otherwise."""
    try:
        (count,) = struct.unpack_from(">i", data, 2)
        position, found = 6, []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", data, position)
            topic = data[position + 2 : position + 2 + size].decode()
            position += 2 + size
            (partitions,) = struct.unpack_from(">i", data, position)
            found += [
                f"{topic}-{one}"
                for one in struct.unpack_from(f">{max(partitions, 0)}i", data, position + 4)
            ]
            position += 4 + 4 * partitions
    except (struct.error, UnicodeDecodeError):
        return []
    return found


def _summary(found: dict[str, Any]) -> list[str]:
    count = len(found["members"])
    members = "no members" if not count else "1 member" if count == 1 else f"{count} members"
    words = [f"{found['group']}: {found['state']}, {members}, {found['type']}"]
    if found["assignor"]:
        words.append(f"assignor {found['assignor']}")
    if found["epoch"] is not None:
        words.append(f"epoch {found['epoch']}")
    return [", ".join(words)]


def _member_row(one: dict[str, Any]) -> dict[str, object]:
    return {
        "client": one["client"],
        "host": one["host"],
        **({"instance": one["instance"]} if one["instance"] else {}),
        "partitions": shortened(one["partitions"]) or "-",
        "member": one["member"],
    }


def shortened(places: Sequence[str]) -> str:
    """`orders-0,1,2 events-0`."""
    by_topic: dict[str, list[str]] = {}
    for place in places:
        topic, _, index = place.rpartition("-")
        by_topic.setdefault(topic, []).append(index)
    return " ".join(f"{topic}-{','.join(some)}" for topic, some in sorted(by_topic.items()))


async def _offset_rows(client: Client, group: str) -> list[dict[str, Any]]:
    committed = await client.committed(group)
    starts, ends = await edges(client, committed)
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed": one.offset,
            "start": starts[place],
            "end": ends[place],
            "lag": max(ends[place] - max(one.offset, starts[place]), 0),
        }
        for place, one in sorted(committed.items())
        if place in ends
    ]


async def edges(
    client: Client, places: dict[TopicPartition, CommittedOffset] | Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where partitions begin and end; those that are gone are left out."""
    by_topic: dict[str, list[int]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(place.partition)
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for topic, partitions in by_topic.items():
        for found, when in ((starts, EARLIEST), (ends, LATEST)):
            try:
                listed = await client.list_offsets(topic, dict.fromkeys(partitions, when))
            except BrokerError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                continue
            for partition, one in listed.items():
                found[TopicPartition(topic, partition)] = one.offset
    return starts, ends


# Deleting


def delete(bootstrap: str, groups: Sequence[str], *, yes: bool, as_json: bool) -> None:
    for group in groups:
        require_name(group)
    if not yes:
        _confirm(groups)

    async def work(client: Client) -> None:
        for group in groups:
            try:
                await client.delete_group(group)
            except BrokerError as error:
                raise await _not_deleted(client, group, error) from None
            sentence = json.dumps({"group": group, "deleted": True})
            typer.echo(sentence if as_json else f"deleted {group}")

    with_client(bootstrap, work)


def _confirm(groups: Sequence[str]) -> None:
    if not sys.stdin.isatty():
        raise Refused("deleting asks first, and nobody is there to answer; say --yes")
    typer.confirm(f"Delete {', '.join(groups)} and what they have committed?", abort=True, err=True)


async def _not_deleted(client: Client, group: str, error: BrokerError) -> Refused:
    if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        return no_group(group, {one.group_id for one in await client.list_groups()})
    if error.code is ErrorCode.NON_EMPTY_GROUP:
        return Refused(f"group {group} has members; stop them first, then delete it")
    return Refused(f"group {group} was not deleted: {error.sentence}")


def require_name(group: str) -> None:
    if not group:
        raise usage("GROUP is empty; `tierlog group list` shows which there are")


def no_group(group: str, known: Any) -> Refused:
    close = get_close_matches(group, list(known), n=1)
    hint = f"did you mean {close[0]}?" if close else "`tierlog group list` shows which there are"
    return Refused(f"there is no group {group}; {hint}")
