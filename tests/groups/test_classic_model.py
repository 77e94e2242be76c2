"""A classic group, whatever its members do in whatever order, against a plain model of them.

The model knows what each member was told last and when. Held against it: in one generation nobody
has what somebody else has; whoever waits is answered once, within the longest rebalance timeout;
who is in the generation and was heard of, or answered, lately is known (pitfall 16) and may commit;
who is not may do neither; and a restart forgets nothing that anybody was told.
"""

from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.groups.classics import GROUP, Bench
from tierlog.groups.values import Commit, GroupLimits, Joined, Synced
from tierlog.wire.error_codes import ErrorCode

PARTITIONS = 5
SESSION_MS = 10_000
REBALANCE_MS = 30_000
KNOWN = {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}


@dataclass(eq=False)
class Person:
    """Somebody who takes part, as the model sees it."""

    instance_id: str | None
    id: str = ""
    generation: int = -1
    to_assign: list[str] = field(default_factory=list)
    """Of whom it was told as leader."""
    asked: dict[int, int] = field(default_factory=dict)
    """Tickets that were not answered yet, and since when."""
    stable_ms: int | None = None
    """When it was last told that it is in a complete generation."""
    called_ms: int | None = None
    """When it was last told to join again, by a coordinator that is still there."""
    is_fenced: bool = False
    """Somebody else has its name now."""


class ClassicGroupMachine(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 3_000]))
    def begin(self, delay_ms: int) -> None:
        self.bench = Bench(GroupLimits(initial_delay_ms=delay_ms))
        self.people: list[Person] = []
        self.owners: dict[tuple[int, int], str] = {}
        self.committed = -1
        self.generation_told = 0

    # What members do

    @rule(static=st.sampled_from([None, None, "s", "t"]))
    def come(self, static: str | None) -> None:
        """Also under a name that somebody has: then that one is fenced when it is admitted."""
        if len(self.people) > 6:
            return
        person = Person(static)
        self.people.append(person)
        self.join(person)

    @precondition(lambda self: self.people)
    @rule(data=st.data())
    def join_again(self, data: Any) -> None:
        self.join(self.draw(data))

    @precondition(lambda self: self.people)
    @rule()
    def all_join_and_followers_sync(self) -> None:
        """As far as a rebalance gets without its leader."""
        for person in self.people:
            if not person.asked:
                self.join(person)
            if not person.id or person.generation < 0:
                self.join(person)
        for person in self.people:
            if not person.asked and not person.to_assign and person.generation > 0:
                self.wait_for(person, self.bench.ask_sync(person.id, person.generation))

    def join(self, person: Person) -> None:
        takes_name = not person.id and person.instance_id is not None
        ticket = self.bench.ask_join(
            person.id,
            instance_id=person.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        person.stable_ms = person.called_ms = None
        self.wait_for(person, ticket)
        if takes_name:
            person.is_fenced = False  # Though another one may have had it meanwhile.
            for other in self.people:
                if other is not person and other.instance_id == person.instance_id:
                    other.is_fenced, other.stable_ms, other.called_ms = True, None, None

    @precondition(lambda self: any(one.generation > 0 for one in self.people))
    @rule(data=st.data())
    def sync(self, data: Any) -> None:
        person = self.draw(data)
        shares: dict[str, bytes] = {}
        for partition in range(PARTITIONS if person.to_assign else 0):
            owner = person.to_assign[partition % len(person.to_assign)].replace("-", "_")
            shares[owner] = shares.get(owner, b"") + bytes([partition])
        ticket = self.bench.ask_sync(person.id, person.generation, **shares)
        self.wait_for(person, ticket)

    @precondition(lambda self: self.people)
    @rule(data=st.data())
    def beat(self, data: Any) -> None:
        person = self.draw(data)
        must_be_known = self.is_in(person)
        code = self.bench.beat(person.id, person.generation, person.instance_id)
        if must_be_known:
            assert code in KNOWN, code.name
            if code is ErrorCode.NONE:
                person.stable_ms = self.bench.now_ms
        if person.is_fenced and person.id:
            assert code not in KNOWN, code.name

    @precondition(lambda self: self.people)
    @rule(data=st.data())
    def commit(self, data: Any) -> None:
        person, bench = self.draw(data), self.bench
        must_be_known = self.is_in(person)
        ticket, offset = bench.ticket(), self.committed + 1
        bench.carry_out(
            bench.machine.commit(
                GROUP,
                person.id,
                person.instance_id,
                person.generation,
                [Commit("t", 0, offset, -1, "")],
                ticket,
                bench.now,
            )
        )
        (code,) = bench.replies[ticket]
        if code is ErrorCode.NONE:
            self.committed = offset
        if must_be_known:
            assert code is ErrorCode.NONE, code.name
        if 0 < person.generation < self.generation_told:
            assert code is not ErrorCode.NONE, "a commit of an older generation"

    @precondition(lambda self: self.people)
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        person = self.draw(data)
        if not person.is_fenced:
            self.bench.leave(person.id, person.instance_id)
            self.hear_replies()
        self.people.remove(person)

    @rule(ms=st.sampled_from([1, 500, 5_000, 9_999, 10_000, 10_001, 31_000]))
    def wait(self, ms: int) -> None:
        self.bench.wait(ms)

    @rule()
    def restart(self) -> None:
        """Whoever waited sees its connection break."""
        self.bench.restart()
        for person in self.people:
            person.asked.clear()
            person.called_ms = None

    # What the model makes of it

    def draw(self, data: Any) -> Person:
        found: Person = data.draw(st.sampled_from(self.people))
        return found

    def is_in(self, person: Person) -> bool:
        """In the generation it was told of, for all it can know."""
        since_ms = max(
            one for one in (person.stable_ms, person.called_ms, -SESSION_MS) if one is not None
        )
        is_fresh = self.bench.now_ms - since_ms < SESSION_MS
        return is_fresh and not person.asked and not person.is_fenced

    def wait_for(self, person: Person, ticket: int) -> None:
        person.asked[ticket] = self.bench.now_ms
        self.hear_replies()

    def hear_replies(self) -> None:
        for person in self.people:
            for ticket in [one for one in person.asked if one in self.bench.replies]:
                del person.asked[ticket]
                self.hear(person, self.bench.replies[ticket], self.bench.replied_ms[ticket])

    def hear(self, person: Person, reply: Joined | Synced, at_ms: int) -> None:
        if isinstance(reply, Joined):
            if reply.member_id and reply.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                person.id = reply.member_id
            if reply.error is ErrorCode.NONE:
                person.generation = reply.generation
                person.to_assign = [one.member_id for one in reply.members]
            if reply.error is ErrorCode.UNKNOWN_MEMBER_ID:
                person.id, person.generation = "", -1
        elif reply.error is ErrorCode.NONE:
            self.hear_share(person, reply.assignment, at_ms)
        elif reply.error is ErrorCode.REBALANCE_IN_PROGRESS and not person.is_fenced:
            person.called_ms = at_ms

    def hear_share(self, person: Person, assignment: bytes, at_ms: int) -> None:
        person.stable_ms = None if person.is_fenced else at_ms
        self.generation_told = max(self.generation_told, person.generation)
        name = person.instance_id or person.id
        for partition in assignment:
            owner = self.owners.setdefault((person.generation, partition), name)
            assert owner == name, f"{owner} and {name} have {partition} in {person.generation}"

    @invariant()
    def everybody_is_answered_in_time(self) -> None:
        self.hear_replies()
        for person in self.people:
            for ticket, since_ms in person.asked.items():
                waited_ms = self.bench.now_ms - since_ms
                assert waited_ms <= REBALANCE_MS, f"{ticket} waits for {waited_ms} ms"

    @invariant()
    def who_was_answered_is_known(self) -> None:
        for person in self.people:
            if self.is_in(person):
                assert person.id in self.bench.group.members

    @invariant()
    def commits_are_where_they_were_put(self) -> None:
        known = self.bench.machine.committed(GROUP)
        assert self.committed == (known["t", 0].offset if known else -1)


ClassicGroupMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestClassicGroup = ClassicGroupMachine.TestCase
