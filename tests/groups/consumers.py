"""Drives one consumer group (KIP-848) without a clock, a loop or a log, as `classics` does for a
classic one. `Consumer` is a client as KIP-848 wants it: it lets go of what it is not assigned any
more before it takes what is new, and says what it has."""

from dataclasses import dataclass, field
from typing import Any

from tests.groups.classics import GROUP, Bench
from tierlog.groups.assigning import Spot
from tierlog.groups.consumer import ConsumerGroup
from tierlog.groups.topicview import KnownTopic, TopicView
from tierlog.groups.values import Beaten, Commit, ConsumerBeat, GroupLimits
from tierlog.wire.error_codes import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 30_000
LIMITS = GroupLimits(
    initial_delay_ms=0, consumer_session_ms=SESSION_MS, consumer_heartbeat_ms=1_000
)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"-")


def spots(name: str, *numbers: int) -> frozenset[Spot]:
    return frozenset((topic_id(name), number) for number in numbers)


class ConsumerBench(Bench):
    def __init__(self, limits: GroupLimits = LIMITS, **topics: int) -> None:
        super().__init__(limits)
        self.view = TopicView({})
        self.set_topics(**(topics or {"t": 4}))

    def set_topics(self, **topics: int) -> None:
        """Their partitions; `view.by_name` for other ids."""
        known = {name: KnownTopic(topic_id(name), count) for name, count in topics.items()}
        self.view = TopicView(known, generation=self.view.generation + 1)

    @property
    def consumers(self) -> ConsumerGroup:
        found = self.machine.groups[GROUP]
        assert isinstance(found, ConsumerGroup)
        return found

    def send(self, member_id: str, epoch: int, **more: Any) -> Beaten:
        ticket = self.ticket()
        beat = ConsumerBeat(group=GROUP, member_id=member_id, epoch=epoch, client_id="c", **more)
        self.carry_out(self.machine.consumer_beat(beat, self.view, ticket, self.now))
        found: Beaten = self.replies[ticket]
        return found

    def arrive(self, member_id: str, **more: Any) -> Beaten:
        usual: dict[str, Any] = {"topics": ("t",), "rebalance_timeout_ms": REBALANCE_MS}
        return self.send(member_id, 0, **{**usual, "owned": frozenset(), **more})

    def commit(
        self, member_id: str, epoch: int, *numbers: int, offset: int = 7, version: int = 9
    ) -> list[ErrorCode]:
        ticket = self.ticket()
        commits = [Commit("t", number, offset, -1, "", topic_id("t")) for number in numbers]
        self.carry_out(
            self.machine.commit(
                GROUP, member_id, None, epoch, commits, ticket, self.now, version=version
            )
        )
        found: list[ErrorCode] = self.replies[ticket]
        return found

    def settle(self, *people: "Consumer", rounds: int = 8) -> None:
        """All beat in turn until nothing is new for anybody."""
        for _ in range(rounds):
            for one in people:
                one.beat()


@dataclass(eq=False)
class Consumer:
    bench: ConsumerBench
    id: str
    topics: tuple[str, ...] = ("t",)
    regex: str | None = None
    instance_id: str | None = None
    epoch: int = 0
    owned: frozenset[Spot] = frozenset()
    told: frozenset[Spot] = frozenset()
    """What it was assigned last."""
    errors: list[ErrorCode] = field(default_factory=list)

    def beat(self) -> Beaten:
        """Lets go, says so, and takes what it is given."""
        self.release()
        if self.epoch == 0:
            reply = self.bench.arrive(
                self.id, topics=self.topics, regex=self.regex, instance_id=self.instance_id
            )
        else:
            reply = self.bench.send(
                self.id, self.epoch, owned=self.owned, instance_id=self.instance_id
            )
        self.hear(reply)
        return reply

    def release(self) -> None:
        self.owned &= self.told

    def hear(self, reply: Beaten) -> None:
        if reply.error is not ErrorCode.NONE:
            self.errors.append(reply.error)
            self.lose()
            return
        self.epoch = reply.epoch
        if reply.assignment is not None:
            self.told = reply.assignment
            if self.owned <= self.told:
                self.owned = self.told

    def lose(self) -> None:
        self.epoch, self.owned, self.told = 0, frozenset(), frozenset()

    def leave(self, epoch: int = -1) -> Beaten:
        reply = self.bench.send(self.id, epoch, instance_id=self.instance_id)
        self.lose()
        return reply
