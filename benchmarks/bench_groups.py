"""Consumer groups: commits beside produces, heartbeats of many members, a look at many groups.

- commits from 16 connections, each of one group and one partition, against acks=all produces of one
  small record from as many connections to as many partitions: both wait for an fdatasync, and both
  are driven by the same loop of this process, one request at a time on each connection.
- 1,000 groups of 10 members, each with a heartbeat every 3 seconds, over 1,000 connections: the
  share of one core that the node takes.
- DescribeGroups of all 1,000 in one call: the node's CPU for it.

Members join as clients do; nothing is put into the node by another way.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import uvloop

from benchmarks import requests
from benchmarks.broker import UNTIERED, Tierlog
from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size
from benchmarks.tools import RunFailed
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.header import decode_response
from tierlog.wire.messages import describe_groups as describing
from tierlog.wire.messages import find_coordinator as finding
from tierlog.wire.messages import heartbeat as beating
from tierlog.wire.messages import join_group as joining
from tierlog.wire.messages import offset_commit as committing
from tierlog.wire.messages import sync_group as syncing
from tierlog.wire.schema import Request, Response

CONNECTIONS = 16
TOPIC = "measured"
MEMBERS = 10
BEAT_S = 3.0
"""`heartbeat.interval.ms` of clients by default."""
JOIN, SYNC, BEAT, DESCRIBE, COMMIT, FIND = 3, 2, 3, 4, 7, 3
"""Versions: the last ones before the flexible encoding, which several clients still speak."""
RATE = "requests/s"
CPU = "CPU us/request"
SHARE = "share of a core"
DESCRIBED = "CPU ms/call"
DESCRIBES = 5
AT_ONCE = 250
"""Groups that are filled side by side: all members are there before the first rebalance begins."""

T = TypeVar("T")


def comparisons(size: Size) -> Iterator[Gauge]:
    seconds = {"full": 2.0, "quick": 0.5}.get(size.name, 0.1)
    sets = [*UNTIERED, "group.initial.rebalance.delay.ms=5000"]
    folder = size.scratch / "groups"
    folder.mkdir()
    with Tierlog(folder, sets=sets).start() as node:
        node.create_topic(TOPIC, partitions=CONNECTIONS)
        ask(node, finding.FindCoordinatorRequest(key="g"), FIND)
        yield commits_gauge(node, seconds)
        groups = 1000 if size.name != "smoke" else 10
        joined = runs(lambda: join_all(node, groups))
        yield beats_gauge(node, joined, 1.5 * seconds)
        yield describe_gauge(node, [f"group-{number}" for number in range(groups)])


# Commits


def commits_gauge(node: Tierlog, seconds: float) -> Gauge:
    batch = requests.batch(value_bytes=100, records=1)
    produces = [
        requests.produce(batch, topic=TOPIC, partition=index, acks=-1)
        for index in range(CONNECTIONS)
    ]
    commits = [commit_of(index) for index in range(CONNECTIONS)]
    return Gauge(
        name="16 connections, one at a time, durable",
        variants={
            "produce, acks=all": lambda: driven(node, produces, seconds),
            "commit": lambda: driven(node, commits, seconds),
        },
        baseline="produce, acks=all",
        promises={RATE: Promise(hold=0.5, is_speed=True), CPU: Promise()},
        note="the driver is a loop in Python, the same for both, on the same two cores",
    )


def commit_of(index: int) -> bytes:
    one = committing.OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=1,
        committed_leader_epoch=-1,
        committed_metadata="",
    )
    return requests.framed(
        committing.OffsetCommitRequest(
            group_id=f"committer-{index}",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[committing.OffsetCommitRequestTopic(name=TOPIC, partitions=[one])],
        ),
        COMMIT,
    )


def driven(node: Tierlog, frames: Sequence[bytes], seconds: float) -> Figures:
    """Each frame again and again on a connection of its own."""
    cpu = -node.cpu_s()
    began = time.perf_counter()

    async def drive() -> int:
        until = time.perf_counter() + seconds
        return sum(await asyncio.gather(*(repeat(node.port, one, until) for one in frames)))

    count = runs(drive)
    took = time.perf_counter() - began
    cpu += node.cpu_s()
    return {RATE: count / took, CPU: cpu * 1e6 / max(count, 1)}


async def repeat(port: int, frame: bytes, until: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count, expected = 0, None
    try:
        while time.perf_counter() < until:
            writer.write(frame)
            answer = await answered(reader)
            # The same request has an answer of the same size, unless it is an error.
            expected = len(answer) if expected is None else expected
            if len(answer) != expected:
                raise RunFailed(f"an answer of {len(answer)} bytes, not of {expected}")
            count += 1
    finally:
        writer.close()
        await writer.wait_closed()
    return count


# Heartbeats


async def join_all(node: Tierlog, groups: int) -> list[bytes]:
    """Every member joins and syncs; a frame with the heartbeat of each."""
    frames: list[bytes] = []
    # A few groups at a time, each member on a connection of its own as long as it joins.
    for first in range(0, groups, AT_ONCE):
        some = range(first, min(first + AT_ONCE, groups))
        lanes = [await asyncio.open_connection("127.0.0.1", node.port) for _ in range(MEMBERS)]
        members = await asyncio.gather(*(join_lane(*lane, some) for lane in lanes))
        await asyncio.gather(
            *(sync_lane(*lane, some, mine) for lane, mine in zip(lanes, members, strict=True))
        )
        frames += [
            beat_of(number, one) for mine in members for number, one in zip(some, mine, strict=True)
        ]
        for _, writer in lanes:
            writer.close()
            await writer.wait_closed()
    return frames


async def join_lane(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, groups: range
) -> list[joining.JoinGroupResponse]:
    for number in groups:
        writer.write(
            requests.framed(
                joining.JoinGroupRequest(
                    group_id=f"group-{number}",
                    session_timeout_ms=1_800_000,
                    rebalance_timeout_ms=60_000,
                    member_id="",
                    protocol_type="consumer",
                    protocols=[joining.JoinGroupRequestProtocol(name="range", metadata=b"\0" * 40)],
                ),
                JOIN,
            )
        )
    found = []
    for _ in groups:
        one = opened(ApiKey.JOIN_GROUP, JOIN, await answered(reader))
        assert isinstance(one, joining.JoinGroupResponse)
        if one.error_code:
            raise RunFailed(f"a member was refused: {one.error_code}")
        found.append(one)
    return found


async def sync_lane(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    groups: range,
    members: Sequence[joining.JoinGroupResponse],
) -> None:
    for number, one in zip(groups, members, strict=True):
        assignments = [
            syncing.SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"\0" * 60)
            for each in one.members
        ]
        request = syncing.SyncGroupRequest(
            group_id=f"group-{number}",
            generation_id=one.generation_id,
            member_id=one.member_id,
            assignments=assignments,
        )
        writer.write(requests.framed(request, SYNC))
    for _ in groups:
        answer = opened(ApiKey.SYNC_GROUP, SYNC, await answered(reader))
        assert isinstance(answer, syncing.SyncGroupResponse)
        if answer.error_code:
            raise RunFailed(f"a sync was refused: {answer.error_code}")


def beat_of(number: int, member: joining.JoinGroupResponse) -> bytes:
    request = beating.HeartbeatRequest(
        group_id=f"group-{number}",
        generation_id=member.generation_id,
        member_id=member.member_id,
    )
    return requests.framed(request, BEAT)


def beats_gauge(node: Tierlog, frames: list[bytes], seconds: float) -> Gauge:
    return Gauge(
        name=f"{len(frames) // MEMBERS:,} groups of {MEMBERS} members, a heartbeat every 3 s",
        variants={"tierlog": lambda: beaten(node, frames, seconds)},
        promises={SHARE: Promise(hold=0.20), CPU: Promise()},
        rounds=5,
        note="10 members take turns on a connection; CPU of a heartbeat x 3,333 a second",
    )


def beaten(node: Tierlog, frames: list[bytes], seconds: float) -> Figures:
    async def beat() -> tuple[int, float]:
        lanes = [frames[first : first + MEMBERS] for first in range(0, len(frames), MEMBERS)]
        opened_lanes = [await asyncio.open_connection("127.0.0.1", node.port) for _ in lanes]
        cpu, began = node.cpu_s(), time.perf_counter()
        until = began + seconds
        pace_s = BEAT_S / MEMBERS
        counts = await asyncio.gather(
            *(
                paced(*lane, mine, pace_s, began + pace_s * number / len(lanes), until)
                for number, (lane, mine) in enumerate(zip(opened_lanes, lanes, strict=True))
            )
        )
        cpu = node.cpu_s() - cpu
        for _, writer in opened_lanes:
            writer.close()
            await writer.wait_closed()
        return sum(counts), cpu

    count, cpu = runs(beat)
    # On a busy machine the driver is late: the CPU of a heartbeat, at the pace of all of them.
    each = cpu / max(count, 1)
    return {SHARE: each * len(frames) / BEAT_S, CPU: each * 1e6}


async def paced(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    frames: Sequence[bytes],
    pace_s: float,
    at: float,
    until: float,
) -> int:
    count = 0
    while at < until:
        await asyncio.sleep(max(at - time.perf_counter(), 0))
        writer.write(frames[count % len(frames)])
        answer = await answered(reader)
        if answer[-2:] != b"\0\0":
            raise RunFailed(f"a heartbeat was refused: {answer.hex()}")
        count += 1
        at += pace_s
    return count


# Looking


def describe_gauge(node: Tierlog, groups: list[str]) -> Gauge:
    frame = requests.framed(describing.DescribeGroupsRequest(groups=groups), DESCRIBE)

    def described() -> Figures:
        cpu = -node.cpu_s()
        for _ in range(DESCRIBES):
            answer = opened(ApiKey.DESCRIBE_GROUPS, DESCRIBE, runs(lambda: once(node.port, frame)))
            assert isinstance(answer, describing.DescribeGroupsResponse)
            states = {one.group_state for one in answer.groups}
            if len(answer.groups) != len(groups) or states != {"Stable"}:
                raise RunFailed(f"{len(answer.groups)} groups were described, {states}")
        return {DESCRIBED: (cpu + node.cpu_s()) * 1000 / DESCRIBES}

    return Gauge(
        name=f"describe {len(groups):,} groups of {MEMBERS} members in one call",
        variants={"tierlog": described},
        promises={DESCRIBED: Promise(hold=200)},
        rounds=5,
        note=f"mean of {DESCRIBES} calls",
    )


# The wire


def ask(node: Tierlog, request: Request, version: int) -> bytes:
    return runs(lambda: once(node.port, requests.framed(request, version)))


async def once(port: int, frame: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(frame)
        return await answered(reader)
    finally:
        writer.close()
        await writer.wait_closed()


async def answered(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)


def opened(api: ApiKey, version: int, answer: bytes) -> Response:
    return decode_response(api, version, answer)[1]


def runs(work: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        return await work()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())
