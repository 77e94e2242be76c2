"""Scenario: a consumer group on one node, in either protocol, and everything that can go wrong
between them.

A writer fills a topic; five members, two of them static, and for a while a twin of one of these
read it as one group, come, leave, are killed and started again. Meanwhile connections are reset,
delayed and cut, one way or both; the node is stopped, killed, loses power between callbacks and
within disk operations; syncs fail, the disk is slow or full, the clock jumps. The coordinator's log
has small segments and is compacted all the time. One seed in ten has no faults at all.

While it goes on: see `group_members` and `consumer_members`. At the end, when nothing is wrong any
more: within a bounded time all members are in one generation and share all partitions, everything
that was acknowledged has been read, and the end of every partition is committed; also after one
more kill, stop or power cut, and without a member that died at that moment for good.
"""

import asyncio
from dataclasses import replace
from random import Random
from unittest.mock import patch

from tests.simulation import broker
from tests.simulation.broker import Lives, bounded, calm, quiet, unless_over
from tests.simulation.broker_clients import (
    DELIVERY_S,
    NODE,
    Ledger,
    WatchedClient,
    Writer,
    run_client,
)
from tests.simulation.consumer_members import ConsumerGroupMember
from tests.simulation.group_members import (
    BEAT_S,
    GROUP,
    PARTITIONS,
    SESSION_MS,
    TOPIC,
    GroupMember,
    GroupNotes,
)
from tierlog.client import ClientError, ProducerSettings
from tierlog.env import Env
from tierlog.groups import service
from tierlog.sim.history import Place
from tierlog.sim.world import SimWorld
from tierlog.wire.messages import offset_fetch as fetching

SETTINGS = replace(
    broker.SETTINGS,
    group_initial_rebalance_delay_ms=100,
    group_min_session_timeout_ms=500,
    group_consumer_session_timeout_ms=SESSION_MS,
    group_consumer_heartbeat_interval_ms=int(BEAT_S * 1000),
    log_cleaner_backoff_ms=100,
    offsets_topic_num_partitions=2,
)
STATE_CONFIGS = {"segment.bytes": "2048", "min.cleanable.dirty.ratio": "0.1"}
"""Of the topic that the coordinator makes: it is rolled and cleaned all the time."""
MEMBERS = {
    "member-0": None,
    "member-1": None,
    "member-2": None,
    "static-0": "static-0",
    "static-1": "static-1",
    "twin": "static-1",
}
"""Their instance ids. The twin is a mistake of the operator, who sees it before the end."""
WRITES = 60
FAULT_COUNT = 12
SETTLE_S = 0.1


async def groups(world: SimWorld) -> int:
    """Tells how often somebody was assigned something."""
    with quiet(), patch.dict(service.CONFIGS, STATE_CONFIGS):
        return await run(world, GroupMember)


async def consumer_groups(world: SimWorld) -> int:
    """The same in the consumer protocol (KIP-848)."""
    with quiet(), patch.dict(service.CONFIGS, STATE_CONFIGS):
        return await run(world, ConsumerGroupMember)


async def run(world: SimWorld, member_type: type[GroupMember]) -> int:
    ledger = Ledger(world)
    notes = GroupNotes(ledger)
    lives = Lives(world, ledger, SETTINGS)
    running = asyncio.create_task(lives.run(), name="lives")
    await world.start("owner", make_topics(world.env("owner"), ledger), what="make topics")
    members = {
        name: member_type(name, notes, instance_id=instance) for name, instance in MEMBERS.items()
    }
    tasks = start_members(world, members)
    writer = Writer("writer", ledger, WRITES, ProducerSettings(delivery_timeout_s=DELIVERY_S))
    writing = asyncio.create_task(run_client(world, "writer", writer.run), name="writer")
    if world.seed % 10:
        await torment(world, lives, world.rng("nemesis"))
    async with bounded("the writer"):
        await unless_over(running, [writing])
    notes.is_calm = True
    bury(world, members["twin"])
    await settle(world, members, [running, *tasks], "the group")
    rng = world.rng("end")
    bury(world, members[rng.choice(("member-0", "static-0"))])
    await end_somehow(ledger, lives, rng)
    await settle(world, members, [running, *tasks], "the group after a restart")
    notes.over = True
    async with bounded("the members"):
        await unless_over(running, tasks)
    running.cancel()
    return notes.rebalances


async def make_topics(env: Env, ledger: Ledger) -> None:
    async with WatchedClient(ledger, env) as client:
        made = await client.create_topics(TOPIC, partitions=PARTITIONS)
        topic_id = made[TOPIC].topic_id.hex()
        ledger.places += [Place(TOPIC, topic_id, index) for index in range(PARTITIONS)]


def start_members(world: SimWorld, members: dict[str, GroupMember]) -> list["asyncio.Task[None]"]:
    return [
        asyncio.create_task(run_client(world, name, member.run), name=name)
        for name, member in members.items()
    ]


# The end


def bury(world: SimWorld, member: GroupMember) -> None:
    """Its process ends, and nobody starts another: its group must notice by itself."""
    member.is_gone = True
    world.kill(member.name)


async def end_somehow(ledger: Ledger, lives: Lives, rng: Random) -> None:
    """One more end of the process, and the next begins."""
    life = ledger.life()
    rng.choice((lives.stop, lives.kill, lives.cut_power))()
    async with bounded("a process of the node"):
        while ledger.life() == life:  # noqa: ASYNC110  # lives have no event
            await asyncio.sleep(SETTLE_S)


async def settle(
    world: SimWorld,
    members: dict[str, GroupMember],
    tasks: list["asyncio.Task[None]"],
    who: str,
) -> None:
    """Liveness, and what must be so in the end."""
    notes = members["twin"].notes
    count = sum(not one.is_gone for one in members.values())
    try:
        async with bounded(who):
            while not (is_settled(notes, count) and await is_committed(world, notes)):
                for task in tasks:
                    if task.done():
                        task.result()
                check(notes)
                await asyncio.sleep(SETTLE_S)
    except AssertionError as error:
        check(notes)
        raise AssertionError(f"{error}: {state_of(notes)}") from None
    check(notes)


def check(notes: GroupNotes) -> None:
    assert not notes.ledger.complaints, notes.ledger.complaints[0]


def state_of(notes: GroupNotes) -> str:
    held = {name: (one[0], sorted(one[1])) for name, one in sorted(notes.holding.items())}
    read = {partition: len(one) for partition, one in sorted(notes.read.items())}
    return f"they have {held}, read {read}, committed {dict(sorted(notes.acked.items()))}"


def is_settled(notes: GroupNotes, count: int) -> bool:
    """All who are left are in one generation and own everything; all is read."""
    held = notes.holding.values()
    owned = sorted(partition for _, share in held for partition in share)
    return (
        len(held) == count
        and len({generation for generation, _ in held}) == 1
        and owned == list(range(PARTITIONS))
        and not unread(notes)
    )


def unread(notes: GroupNotes) -> list[int]:
    """Acknowledged, and not seen by any member."""
    return [
        sent.offset
        for partition in range(PARTITIONS)
        for sent in notes.acknowledged(partition)
        if notes.read[partition].get(sent.offset) != sent.value
    ]


async def is_committed(world: SimWorld, notes: GroupNotes) -> bool:
    """The end of each partition, in the answer of the node itself."""
    return await world.start("judge", all_committed(world.env("judge"), notes), what="judge")


async def all_committed(env: Env, notes: GroupNotes) -> bool:
    acked = dict(notes.acked)
    topics = [
        fetching.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(PARTITIONS)))
    ]
    request = fetching.OffsetFetchRequest(
        groups=[fetching.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
    )
    async with WatchedClient(notes.ledger, env) as client:
        try:
            connection = await client.router.any_connection()
            answer = await connection.call(request, version=8)
        except ClientError:
            return False  # The node is about to come back.
        (group,) = answer.groups  # type: ignore[attr-defined]  # by its request
    if group.error_code:
        return False
    found = {one.partition_index: one.committed_offset for one in group.topics[0].partitions}
    for partition, offset in found.items():
        notes.sees_committed(partition, offset, acked.get(partition, 0))
    return all(
        offset == max(notes.read[partition], default=-1) + 1 for partition, offset in found.items()
    )


# The faults


async def torment(world: SimWorld, lives: Lives, rng: Random) -> None:
    faults = rng.sample(FAULTS, rng.randint(3, len(FAULTS)))
    calmness = rng.random()
    for _ in range(FAULT_COUNT):
        await asyncio.sleep(rng.random() * 1.2)
        if rng.random() < calmness:
            heal(world)
        rng.choice(faults)(world, lives, rng)
    await asyncio.sleep(rng.random())
    heal(world)
    world.disk(NODE).on_op = None
    world.disk(NODE).forget_faults()


def heal(world: SimWorld) -> None:
    calm(world)
    for host in MEMBERS:
        world.network.set_delay(host, NODE, low=0.0001, high=0.002)


def some(rng: Random) -> list[str]:
    return rng.sample(list(MEMBERS), rng.randint(1, 3))


def reset(world: SimWorld, lives: Lives, rng: Random) -> None:
    for host in some(rng):
        world.network.reset(host, NODE)


def partition(world: SimWorld, lives: Lives, rng: Random) -> None:
    for host in some(rng):
        world.network.partition(host, NODE)


def deafen(world: SimWorld, lives: Lives, rng: Random) -> None:
    for host in some(rng):
        world.network.lose_one_way(host, NODE)


def silence(world: SimWorld, lives: Lives, rng: Random) -> None:
    for host in some(rng):
        world.network.lose_one_way(NODE, host)


def delay(world: SimWorld, lives: Lives, rng: Random) -> None:
    for host in some(rng):
        world.network.set_delay(host, NODE, low=0.01, high=rng.random() * 2)


def kill_member(world: SimWorld, lives: Lives, rng: Random) -> None:
    for host in some(rng):
        world.kill(host)


FAULTS = (
    broker.stop,
    broker.kill,
    broker.cut_power,
    broker.cut_power,
    broker.cut_power_in_a_call,
    broker.cut_power_in_a_call,
    broker.fail_fsync,
    broker.fill_disk,
    broker.slow_disk,
    broker.jump_clock,
    reset,
    reset,
    partition,
    deafen,
    silence,
    delay,
    delay,
    kill_member,
    kill_member,
)
