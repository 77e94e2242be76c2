"""A consumer group, whatever its members do in whatever order, against a plain model of them.

The model is what members believe: each holds what it was told, until it lets it go. Held against
the machine: no two of them hold the same partition at once, unless the machine gave one of them up;
who lets go when it is told to and beats is never thrown out; epochs only rise; offsets are where
the last accepted commit put them; who does not hold a partition is refused; when all
beat long enough they hold everything, each by itself, in one epoch; and a restart at any moment
changes none of this.
"""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.groups.classics import GROUP
from tests.groups.consumers import REBALANCE_MS, SESSION_MS, Consumer, ConsumerBench
from tierlog.groups.consumer import ConsumerGroup
from tierlog.groups.consumer_memory import ConsumerState
from tierlog.wire.error_codes import ErrorCode

PEOPLE_MAX = 5


class Person(Consumer):
    heard_ms: int = 0
    is_lagging: bool = False
    """It was told something and the answer was lost."""


class ConsumerGroupMachine(RuleBasedStateMachine):
    @initialize(partitions=st.integers(1, 6))
    def begin(self, partitions: int) -> None:
        self.bench = ConsumerBench(t=partitions)
        self.partitions = partitions
        self.people: list[Person] = []
        self.ids = 0
        self.epoch = 0
        self.committed: dict[int, int] = {}

    # What members do

    @rule(instance=st.sampled_from([None, None, "s"]))
    def come(self, instance: str | None) -> None:
        is_taken = any(one.instance_id == instance for one in self.people) and instance
        if len(self.people) < PEOPLE_MAX and not is_taken:
            self.ids += 1
            person = Person(self.bench, f"m{self.ids}", instance_id=instance)
            self.people.append(person)
            self.beats(person)

    @precondition(lambda self: self.people)
    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        self.beats(data.draw(st.sampled_from(self.people)))

    def beats(self, person: Person) -> None:
        was_known, is_late = self.is_known(person), self.is_late(person)
        reply = person.beat()
        person.heard_ms, person.is_lagging = self.bench.now_ms, False
        if reply.error is ErrorCode.UNRELEASED_INSTANCE_ID:
            assert person.instance_id is not None
        elif reply.error is not ErrorCode.NONE:
            assert is_late or not was_known, f"{person.id} beat, and heard {reply.error.name}"

    @precondition(lambda self: self.people)
    @rule(data=st.data())
    def beat_and_lose_the_answer(self, data: st.DataObject) -> None:
        """It says the same again, then or later; what it was told, it does not know."""
        person = data.draw(st.sampled_from(self.people))
        if person.epoch > 0:
            person.release()
            self.bench.send(
                person.id, person.epoch, owned=person.owned, instance_id=person.instance_id
            )
            person.heard_ms, person.is_lagging = self.bench.now_ms, True
            if not self.is_known(person):
                person.lose()
            self.resubscribe(person)

    def resubscribe(self, person: Person) -> None:
        """As clients do that heard nothing: they say everything, to hear everything."""
        if person.epoch > 0:
            reply = self.bench.send(
                person.id,
                person.epoch,
                topics=person.topics,
                rebalance_timeout_ms=REBALANCE_MS,
                owned=person.owned,
                instance_id=person.instance_id,
            )
            person.hear(reply)

    @precondition(lambda self: self.people)
    @rule(data=st.data())
    def hold_on(self, data: st.DataObject) -> None:
        """It beats without having let go."""
        person = data.draw(st.sampled_from(self.people))
        if person.epoch > 0:
            reply = self.bench.send(
                person.id, person.epoch, owned=person.owned, instance_id=person.instance_id
            )
            person.heard_ms = self.bench.now_ms
            person.hear(reply)

    @precondition(lambda self: self.people)
    @rule(data=st.data(), for_a_while=st.booleans())
    def leave(self, data: st.DataObject, for_a_while: bool) -> None:
        person = data.draw(st.sampled_from(self.people))
        is_static = person.instance_id is not None
        person.leave(-2 if for_a_while and is_static else -1)
        self.people.remove(person)

    @precondition(lambda self: self.people)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.people.remove(data.draw(st.sampled_from(self.people)))

    @precondition(lambda self: self.people)
    @rule(data=st.data(), number=st.integers(0, 5), behind=st.integers(0, 1))
    def commit(self, data: st.DataObject, number: int, behind: int) -> None:
        person = data.draw(st.sampled_from(self.people))
        offset = self.bench.now_ms
        spot = (self.bench.view.by_name["t"].topic_id, number)
        epoch = person.epoch - behind
        (error,) = self.bench.commit(person.id, epoch, number, offset=offset)
        if error is ErrorCode.NONE:
            self.committed[number] = offset
            if epoch != person.epoch:
                assert spot in person.owned, "who does not hold it is behind"
        elif spot in person.owned and not behind and self.is_known(person):
            assert person.is_lagging, f"{person.id} holds it in {epoch}, and heard {error.name}"

    # What happens to them

    @rule(ms=st.integers(1, SESSION_MS))
    def time_passes(self, ms: int) -> None:
        self.bench.wait(ms)
        for person in self.people:
            if not self.is_known(person):
                person.lose()  # As by the time that a member keeps itself.

    @rule()
    def restart(self) -> None:
        self.bench.restart()

    @rule(more=st.integers(1, 2))
    def grow(self, more: int) -> None:
        if self.partitions < 8:
            self.partitions += more
            self.bench.set_topics(t=self.partitions)

    @rule()
    def all_beat(self) -> None:
        """Long enough, and nobody who is dead has a session left."""
        for _ in range(4):
            for person in self.people:
                self.beats(person)
            self.time_passes(SESSION_MS // 2)
        for _ in range(10):
            for person in self.people:
                self.beats(person)
        if self.people:
            group = self.group()
            assert group is not None
            assert group.state is ConsumerState.STABLE
            assert {one.epoch for one in self.people} == {group.epoch}
            owned = sorted(number for one in self.people for _, number in one.owned)
            assert owned == list(range(self.partitions))

    # What always holds

    def group(self) -> ConsumerGroup | None:
        found = self.bench.machine.groups.get(GROUP)
        assert found is None or isinstance(found, ConsumerGroup)
        return found

    def is_known(self, person: Person) -> bool:
        group = self.group()
        return group is not None and person.id in group.members

    def is_late(self, person: Person) -> bool:
        return self.bench.now_ms - person.heard_ms >= min(SESSION_MS, REBALANCE_MS)

    @invariant()
    def nobody_holds_what_another_holds(self) -> None:
        held = [spot for one in self.people if self.is_known(one) for spot in one.owned]
        assert len(held) == len(set(held)), "two members hold one partition"

    @invariant()
    def the_machine_knows_who_holds_what(self) -> None:
        for one in self.people:
            if self.is_known(one):
                member = self.bench.consumers.members[one.id]
                assert one.owned <= set(member.held), f"{one.id} holds what is not its own"

    @invariant()
    def epochs_rise(self) -> None:
        group = self.group()
        if group is not None:
            assert group.epoch >= max(self.epoch, group.assignment_epoch)
            self.epoch = group.epoch

    @invariant()
    def commits_are_where_they_were_put(self) -> None:
        known = self.bench.machine.committed(GROUP)
        assert {place[1]: one.offset for place, one in known.items()} == self.committed


ConsumerGroupMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestConsumerGroup = ConsumerGroupMachine.TestCase
