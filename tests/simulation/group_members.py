"""Members of a simulated consumer group, over the wire, and what they note.

A member joins, assigns if it leads (the partitions go round by generation, so that they move),
reads what it was given from the committed offsets on, commits as it goes and beats in between. Some
are static, and one of these has a twin of the same name; some leave when they have had enough. One
request at a time, each with its own deadline: what is not answered in time may have happened or
not.

Noted, and complained about at once where it must never be:

- a partition has one owner in each generation;
- committed offsets are never behind one that was acknowledged before they were asked for;
- every acknowledged record below a committed offset was read by somebody.
"""

import asyncio
import struct
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.broker_clients import Ledger, WatchedClient
from tierlog.client import Client, ClientError
from tierlog.client.connection import Connection
from tierlog.client.values import TopicPartition
from tierlog.env import Env
from tierlog.records.batch import iter_batches
from tierlog.records.record import decode_records
from tierlog.sim.history import Outcome, Sent
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages import find_coordinator as finding
from tierlog.wire.messages import heartbeat as beating
from tierlog.wire.messages import join_group as joining
from tierlog.wire.messages import leave_group as leaving
from tierlog.wire.messages import offset_commit as committing
from tierlog.wire.messages import offset_fetch as fetching
from tierlog.wire.messages import sync_group as syncing
from tierlog.wire.schema import Request

GROUP, TOPIC = "g", "read"
PARTITIONS = 4
SESSION_MS = 1_500
REBALANCE_MS = 2_500
JOIN_S = 4.0
BEAT_S = 0.3
CALL_S = 1.0
POLL_S = 0.2
LANE = "group"

PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
FORGOTTEN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


class Setback(Exception):
    """The broker said no, for a reason that members live with."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(slots=True)
class GroupNotes:
    """What all members share."""

    ledger: Ledger
    owners: dict[tuple[int, int], str] = field(default_factory=dict)
    """By generation and partition."""
    acked: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The highest offset of each partition whose commit was acknowledged."""
    held: dict[int, tuple[str, float]] = field(default_factory=dict)
    """In a consumer group: whose a partition is, by the last answer that said so, and when that was
    asked for."""
    read: dict[int, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    holding: dict[str, tuple[int, frozenset[int]]] = field(default_factory=dict)
    """What each member believes to have, and in which generation."""
    rebalances: int = 0
    is_calm: bool = False
    """Nobody leaves any more."""
    over: bool = False

    def complain(self, sentence: str) -> None:
        self.ledger.complaints.append(sentence)

    def owns(self, generation: int, partition: int, who: str) -> None:
        owner = self.owners.setdefault((generation, partition), who)
        if owner != who:
            self.complain(f"{owner} and {who} own {partition} in generation {generation}")

    def holds(self, partition: int, who: str, asked_s: float, now_s: float) -> None:
        """An answer says so. Who was told the same within a session and has not let go since has it
        still: the coordinator cannot have given it up."""
        owner, since_s = self.held.get(partition, (who, 0.0))
        if owner != who and now_s - since_s < SESSION_MS / 1000:
            self.complain(f"{partition} is with {owner} since {since_s}, and with {who} at {now_s}")
        self.held[partition] = who, asked_s

    def keeps(self, who: str, partitions: Collection[int]) -> None:
        """Of what it had: the rest it lets go."""
        self.held = {
            partition: one
            for partition, one in self.held.items()
            if one[0] != who or partition in partitions
        }

    def sees_committed(self, partition: int, offset: int, acked: int) -> None:
        if max(offset, 0) < acked:
            self.complain(f"{partition}: committed {acked}, then {offset}")
        for sent in self.acknowledged(partition):
            if sent.offset < offset and self.read[partition].get(sent.offset) != sent.value:
                self.complain(f"{partition}: {offset} is committed, nobody read {sent.offset}")

    def acknowledged(self, partition: int) -> list[Sent]:
        """What writers were told is there. Between them may be gaps: a disk that failed leaves
        offsets that are not given out again."""
        sends = self.ledger.history.sends[self.ledger.places[partition]]
        return [sent for sent in sends if sent.outcome is Outcome.OK]

    def sees_record(self, partition: int, offset: int, value: bytes) -> None:
        known = self.read[partition].setdefault(offset, value)
        if known != value:
            self.complain(f"{partition}: offset {offset} changed")


class GroupMember:
    """One consumer, through its lives. Who is fenced by its twin waits a while."""

    new_session: "type[Session]"
    """What it is between two starts of its process."""

    def __init__(self, name: str, notes: GroupNotes, *, instance_id: str | None) -> None:
        self.name = name
        self.notes = notes
        self.instance_id = instance_id
        self.is_gone = False
        """Its process does not come back."""

    @property
    def is_over(self) -> bool:
        return self.notes.over or self.is_gone

    async def run(self, env: Env) -> None:
        """A life: it ends when everything is over, or the process."""
        self.notes.holding.pop(self.name, None)
        async with WatchedClient(self.notes.ledger, env) as client:
            session = self.new_session(self, env, client)
            while not self.is_over:
                try:
                    await session.live()
                except Setback as setback:
                    session.forget(setback.code)
                    fenced = setback.code is ErrorCode.FENCED_INSTANCE_ID
                    await asyncio.sleep(0.02 + env.rng.random() * (2.0 if fenced else 0.05))
                except (ClientError, OSError, TimeoutError) as error:
                    if isinstance(error, ClientError):
                        client.router.note(error, TOPIC)
                    await asyncio.sleep(0.05 + env.rng.random() * 0.2)
            self.notes.holding.pop(self.name, None)


class Session:
    """A member between two starts of its process."""

    def __init__(self, of: GroupMember, env: Env, client: Client) -> None:
        self._of = of
        self._notes = of.notes
        self._env = env
        self._client = client
        self.member_id = ""
        self.generation = -1
        self._positions: dict[int, int] = {}
        self._committed_at: dict[int, int] = {}
        self._is_joined = False
        self._beaten = 0.0

    def forget(self, code: ErrorCode) -> None:
        """What an error takes away."""
        if code not in PASSING:
            self._lose()
        if code in FORGOTTEN:
            self.member_id = ""

    def _lose(self) -> None:
        self._is_joined = False
        self._notes.holding.pop(self._of.name, None)

    async def live(self) -> None:
        if not self._is_joined:
            await self._join()
        await self._beat_if_due()
        await self._read()
        if not self._notes.is_calm and self._env.rng.random() < 0.05:
            await asyncio.sleep(self._env.rng.random() * 4)  # Its group goes on without it.
        if self._env.rng.random() < 0.7:
            await self._commit()
        if self._env.rng.random() < 0.4:
            await self._look()
        if not self._notes.is_calm and self._env.rng.random() < 0.03:
            await self._leave()

    # Joining

    async def _join(self) -> None:
        self._check(await self._ask(finding.FindCoordinatorRequest(key=GROUP), version=3))
        joined = await self._ask(self._join_request(), timeout_s=JOIN_S)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = await self._ask(self._join_request(), timeout_s=JOIN_S)
        self._check(joined)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        is_leader = joined.leader == self.member_id and not joined.skip_assignment
        shares = self._shares(joined) if is_leader else []
        request = syncing.SyncGroupRequest(**self._names(), assignments=shares)
        synced = await self._ask(request, timeout_s=JOIN_S)
        self._check(synced)
        await self._take(unpack(synced.assignment))

    def _join_request(self) -> joining.JoinGroupRequest:
        return joining.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self._of.instance_id,
            protocol_type="consumer",
            protocols=[joining.JoinGroupRequestProtocol(name="rotating", metadata=b"")],
        )

    def _shares(self, joined: Any) -> list[syncing.SyncGroupRequestAssignment]:
        ids = sorted(one.member_id for one in joined.members)
        shares: dict[str, list[int]] = {one: [] for one in ids}
        for partition in range(PARTITIONS):
            shares[ids[(partition + joined.generation_id) % len(ids)]].append(partition)
        return [
            syncing.SyncGroupRequestAssignment(member_id=one, assignment=pack(share))
            for one, share in shares.items()
        ]

    async def _take(self, partitions: list[int]) -> None:
        notes, name = self._notes, self._of.instance_id or self.member_id
        for partition in partitions:
            notes.owns(self.generation, partition, name)
        notes.rebalances += 1
        acked = {partition: notes.acked[partition] for partition in partitions}
        self._positions, self._committed_at = {}, {}
        for partition, offset in (await self._committed(partitions)).items():
            notes.sees_committed(partition, offset, acked[partition])
            self._positions[partition] = max(offset, 0)
        self._is_joined = True
        self._beaten = self._env.clock.monotonic()
        notes.holding[self._of.name] = self.generation, frozenset(partitions)

    async def _look(self) -> None:
        """What is committed for all partitions, whosever they are."""
        acked = dict(self._notes.acked)
        for partition, offset in (await self._committed(list(range(PARTITIONS)))).items():
            self._notes.sees_committed(partition, offset, acked.get(partition, 0))

    async def _committed(self, partitions: list[int]) -> dict[int, int]:
        topics = [fetching.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=partitions)]
        request = fetching.OffsetFetchRequest(
            groups=[fetching.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
        )
        (group,) = (await self._ask(request, version=8)).groups
        self._check(group)
        return {
            one.partition_index: one.committed_offset
            for topic in group.topics
            for one in topic.partitions
        }

    # Living

    async def _beat_if_due(self) -> None:
        if self._env.clock.monotonic() - self._beaten < BEAT_S:
            return
        self._check(await self._ask(beating.HeartbeatRequest(**self._names())))
        self._beaten = self._env.clock.monotonic()

    async def _read(self) -> None:
        if not self._positions:
            await asyncio.sleep(POLL_S)
            return
        asked = {TopicPartition(TOPIC, one): at for one, at in self._positions.items()}
        found = await self._client.fetch_many(asked, max_wait_ms=int(POLL_S * 1000))
        for (_, partition), answer in found.items():
            if not answer.error:
                offset = self._positions[partition]
                self._positions[partition] = self._note(partition, offset, answer.batches)

    def _note(self, partition: int, offset: int, batches: Any) -> int:
        for position, header in iter_batches(batches):
            for record in decode_records(batches[position : position + header.size_bytes]):
                if record.offset >= offset:
                    self._notes.sees_record(partition, record.offset, bytes(record.value or b""))
            offset = max(offset, header.next_offset)
        return offset

    async def _commit(self) -> None:
        offsets = {
            one: at for one, at in self._positions.items() if at != self._committed_at.get(one)
        }
        if not offsets:
            return
        answer = await self._ask(
            committing.OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member_id,
                group_instance_id=self._of.instance_id,
                topics=[
                    committing.OffsetCommitRequestTopic(
                        name=TOPIC,
                        partitions=[
                            committing.OffsetCommitRequestPartition(
                                partition_index=partition,
                                committed_offset=offset,
                                committed_metadata=None,
                            )
                            for partition, offset in offsets.items()
                        ],
                    )
                ],
            ),
            version=9,
        )
        refusals = [one for topic in answer.topics for one in topic.partitions if one.error_code]
        for one in refusals:
            raise Setback(code_of(one.error_code))
        for partition, offset in offsets.items():
            self._notes.acked[partition] = max(self._notes.acked[partition], offset)
        self._committed_at |= offsets

    async def _leave(self) -> None:
        """It comes back as somebody else."""
        member = leaving.MemberIdentity(
            member_id=self.member_id, group_instance_id=self._of.instance_id
        )
        await self._ask(leaving.LeaveGroupRequest(group_id=GROUP, members=[member]))
        self._lose()
        self.member_id = ""
        await asyncio.sleep(self._env.rng.random())

    # Asking

    def _names(self) -> dict[str, Any]:
        return {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self._of.instance_id,
        }

    async def _ask(
        self, request: Request, *, version: int | None = None, timeout_s: float = CALL_S
    ) -> Any:
        connection = await self._connection()
        return await connection.call(request, version=version, timeout_s=timeout_s)

    async def _connection(self) -> Connection:
        router = self._client.router
        if not router.cluster.nodes:
            await router.ask_metadata([TOPIC])
        return await router.connection_to(1, LANE)

    def _check(self, answer: Any) -> None:
        code = code_of(answer.error_code)
        if code is ErrorCode.NONE:
            return
        if code not in PASSING | FORGOTTEN | REJOIN:
            self._notes.complain(f"nobody gave a reason for {code.name}")
        raise Setback(code)


GroupMember.new_session = Session


def code_of(number: int) -> ErrorCode:
    return ErrorCode(number)  # type: ignore[call-arg]  # by its value, as enums can


def pack(partitions: list[int]) -> bytes:
    return struct.pack(f">{len(partitions)}h", *partitions)


def unpack(data: bytes) -> list[int]:
    return list(struct.unpack(f">{len(data) // 2}h", data))
