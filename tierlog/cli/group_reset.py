"""`tierlog group reset`: where a group goes on reading, set by time, by offset or by a shift.

The plan is shown first, and carried out only by `--execute`. Times are looked up as consumers do,
over both tiers; offsets are kept between the start and the end of their partition. The broker takes
offsets from outside a group only while nobody is in it, so nobody who joins in between is
overruled.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from tierlog.cli.failure import Refused, say, usage
from tierlog.cli.group import EMPTY, described, edges, require_name
from tierlog.cli.session import known_topic, with_client
from tierlog.cli.tables import print_table
from tierlog.cli.times import parse_age, parse_time, show_second
from tierlog.client import BrokerError, Client, CommittedOffset, TopicPartition
from tierlog.env import SystemClock
from tierlog.wire.error_codes import ErrorCode

WAYS = "--to-datetime, --by-duration, --to-earliest, --to-latest, --shift-by or --to-offset"
NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One of the ways to say where to."""

    time_ms: int | None = None
    to_earliest: bool = False
    to_latest: bool = False
    shift_by: int | None = None
    to_offset: int | None = None

    @classmethod
    def chosen(
        cls,
        *,
        to_datetime: str | None,
        by_duration: str | None,
        to_earliest: bool,
        to_latest: bool,
        shift_by: int | None,
        to_offset: int | None,
    ) -> "Target":
        """Raises `Refused` unless exactly one is given."""
        given = [
            to_datetime is not None,
            by_duration is not None,
            to_earliest,
            to_latest,
            shift_by is not None,
            to_offset is not None,
        ]
        if sum(given) != 1:
            how = "one of them" if sum(given) else "where to"
            raise usage(f"say {how}: {WAYS}")
        now_ms = SystemClock().now_ms()
        time_ms = None
        if to_datetime is not None:
            time_ms = parse_time(to_datetime, now_ms=now_ms)
        elif by_duration is not None:
            time_ms = max(now_ms - parse_age(by_duration), 0)
        return cls(
            time_ms=time_ms,
            to_earliest=to_earliest,
            to_latest=to_latest,
            shift_by=shift_by,
            to_offset=to_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOptions:
    group: str
    topics: tuple[str, ...]
    target: Target
    execute: bool
    dry_run: bool
    bootstrap: str
    as_json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Of one partition."""

    place: TopicPartition
    committed: int | None
    wanted: int
    """What was asked for: there may be no such offset."""
    start: int
    end: int

    @property
    def new(self) -> int:
        return min(max(self.wanted, self.start), self.end)

    @property
    def is_change(self) -> bool:
        return self.committed != self.new


def run_reset(options: ResetOptions) -> None:
    require_name(options.group)
    if options.execute and options.dry_run:
        raise usage("--execute does it and --dry-run only shows it: say one of them")

    async def work(client: Client) -> list[Move]:
        await _require_empty(client, options)
        moves = await _moves(client, options)
        if options.execute:
            await _carry_out(client, options.group, moves)
        return moves

    show(with_client(options.bootstrap, work), options)


# Planning


async def _require_empty(client: Client, options: ResetOptions) -> None:
    """A group that nobody knows may be given offsets, if topics are named."""
    try:
        found = await described(client, options.group)
    except Refused:
        if options.topics and options.group not in {
            one.group_id for one in await client.list_groups()
        }:
            return
        raise
    if found["members"] or found["state"] not in (EMPTY, "Dead"):
        raise Refused(_busy(options.group, found["members"]))


def _busy(group: str, members: Sequence[dict[str, Any]]) -> str:
    names = [f"{one['client'] or one['member']} at {one['host']}" for one in members]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    who = f": {', '.join(names[:NAMED])}{more}" if names else ""
    count = "a member" if len(names) == 1 else f"{len(names)} members" if names else "members"
    return (
        f"group {group} has {count}{who}. They would overwrite what is set here: stop them, wait "
        "until their sessions have ended, and reset then"
    )


async def _moves(client: Client, options: ResetOptions) -> list[Move]:
    committed = await client.committed(options.group)
    places = await _places(client, options, committed)
    starts, ends = await edges(client, places)
    gone = [place for place in places if place not in ends]
    if gone:
        raise Refused(f"{gone[0]} is not there; name topics that are with --topic")
    wanted = await _wanted(client, options.target, places, committed, starts, ends)
    return [
        Move(
            place=place,
            committed=committed[place].offset if place in committed else None,
            wanted=wanted[place],
            start=starts[place],
            end=ends[place],
        )
        for place in places
    ]


async def _places(
    client: Client, options: ResetOptions, committed: dict[TopicPartition, CommittedOffset]
) -> list[TopicPartition]:
    if not options.topics:
        if not committed:
            raise Refused(f"group {options.group} has committed nothing; name topics with --topic")
        return sorted(committed)
    found: set[TopicPartition] = set()
    for text in options.topics:
        name, indexes = parse_topic(text)
        topic = await known_topic(client, name, to_fill=False)
        known = sorted(one.partition_index for one in topic.partitions)
        for index in indexes or known:
            if index not in known:
                raise Refused(f"{name} has partitions 0 to {known[-1]}, no {index}")
            found.add(TopicPartition(name, index))
    return sorted(found)


def parse_topic(text: str) -> tuple[str, list[int]]:
    """`orders` or `orders:0,2`; no partitions are all of them."""
    name, colon, rest = text.partition(":")
    words = rest.split(",") if colon else []
    if not name or not all(word.isascii() and word.isdigit() for word in words):
        raise usage(f"--topic '{text}' is no topic; write it as orders or orders:0,2")
    return name, [int(word) for word in words]


async def _wanted(
    client: Client,
    target: Target,
    places: Sequence[TopicPartition],
    committed: dict[TopicPartition, CommittedOffset],
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if target.to_earliest:
        return starts
    if target.to_latest:
        return ends
    if target.to_offset is not None:
        return dict.fromkeys(places, target.to_offset)
    if target.shift_by is not None:
        return _shifted(target.shift_by, places, committed)
    assert target.time_ms is not None, "one of them is given"
    return await _at_time(client, target.time_ms, places, ends)


def _shifted(
    count: int,
    places: Sequence[TopicPartition],
    committed: dict[TopicPartition, CommittedOffset],
) -> dict[TopicPartition, int]:
    missing = [place for place in places if place not in committed]
    if missing:
        raise Refused(f"nothing is committed for {missing[0]}, so there is nothing to shift")
    return {place: committed[place].offset + count for place in places}


async def _at_time(
    client: Client,
    time_ms: int,
    places: Sequence[TopicPartition],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Where no record is that late, the end."""
    found: dict[TopicPartition, int] = {}
    for topic in sorted({place.topic for place in places}):
        indexes = [place.partition for place in places if place.topic == topic]
        listed = await client.list_offsets(topic, dict.fromkeys(indexes, time_ms))
        for index, one in listed.items():
            place = TopicPartition(topic, index)
            found[place] = one.offset if one.offset >= 0 else ends[place]
    return found


# Doing


async def _carry_out(client: Client, group: str, moves: Sequence[Move]) -> None:
    wanted = {one.place: CommittedOffset(one.new) for one in moves if one.is_change}
    if not wanted:
        return
    try:
        await client.commit_offsets(group, wanted)
    except BrokerError as error:
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            raise Refused(
                f"somebody joined group {group} meanwhile: nothing was changed. Stop its members, "
                "and reset then"
            ) from None
        raise Refused(f"group {group} was not reset: {error.sentence}") from None


# Showing


def show(moves: Sequence[Move], options: ResetOptions) -> None:
    if (sentence := clamped(moves)) is not None:
        say(sentence)
    if options.as_json:
        typer.echo(json.dumps(as_value(moves, options)))
        return
    print_table([_row(one) for one in moves], right=("committed", "moves"))
    say(closing(moves, options))


def clamped(moves: Sequence[Move]) -> str | None:
    """Of those that do not go where they were sent."""
    far = [one for one in moves if one.new != one.wanted]
    if not far:
        return None
    told = [
        f"{one.place} has offsets {one.start} to {one.end}, not {one.wanted}: {one.new} is taken"
        for one in far[:NAMED]
    ]
    more = [f"and so in {len(far) - NAMED} more partitions"] if len(far) > NAMED else []
    return "; ".join(told + more)


def _row(one: Move) -> dict[str, object]:
    moved = "" if one.committed is None else f"{one.new - one.committed:+,}"
    return {
        "topic": one.place.topic,
        "partition": one.place.partition,
        "committed": "-" if one.committed is None else str(one.committed),
        "new": one.new,
        "moves": "-" if moved == "+0" else moved or "new",
        "to_read": one.end - one.new,
    }


def closing(moves: Sequence[Move], options: ResetOptions) -> str:
    changed = sum(one.is_change for one in moves)
    time_ms = options.target.time_ms
    when = "" if time_ms is None else f" to {show_second(time_ms)}"
    if not changed:
        return f"{options.group} is there already: nothing to change"
    what = "1 partition" if changed == 1 else f"{changed} partitions"
    if options.execute:
        return f"reset {what} of {options.group}{when}"
    return f"would reset {what} of {options.group}{when}; nothing was changed: --execute does it"


def as_value(moves: Sequence[Move], options: ResetOptions) -> dict[str, Any]:
    return {
        "group": options.group,
        "executed": options.execute,
        "time_ms": options.target.time_ms,
        "partitions": [
            {
                "topic": one.place.topic,
                "partition": one.place.partition,
                "committed": one.committed,
                "new": one.new,
                "wanted": one.wanted,
                "start": one.start,
                "end": one.end,
            }
            for one in moves
        ],
    }
