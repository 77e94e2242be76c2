"""Deliberate faults in the group coordinator, to prove that its search can find them; as in
`bugs.py`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from tests.planted.bugs import Bug
from tests.simulation.groups import consumer_groups, groups
from tierlog.coordinator.shard import Shard
from tierlog.groups import consumer
from tierlog.groups.classic import ClassicGroup
from tierlog.groups.consumer import ConsumerGroup
from tierlog.groups.consumer_member import ConsumerMember, reconciled
from tierlog.groups.machine import GroupMachine
from tierlog.sim.world import simulate
from tierlog.wire.error_codes import ErrorCode


def hunt_groups(seed: int) -> str | None:
    """What members or judge of a simulated group complain about, if they do."""
    try:
        simulate(groups, seed=seed)
    except AssertionError as failure:
        return str(failure).splitlines()[0]
    return None


def hunt_consumer_groups(seed: int) -> str | None:
    """The same in the consumer protocol."""
    try:
        simulate(consumer_groups, seed=seed)
    except AssertionError as failure:
        return str(failure).splitlines()[0]
    return None


def replied_before_durable() -> AbstractContextManager[object]:
    """Whoever asks hears of it when it is written, not when it is safe."""
    return patch.object(Shard, "_reply_when_durable", Shard._reply)


@contextmanager
def record_lost_when_the_disk_is_full() -> Iterator[None]:
    """The machine goes on with what the log did not take."""
    append = Shard._append

    def forgiving(self: Shard[Any], records: Any) -> None:
        try:
            append(self, records)
        except Exception:  # noqa: BLE001  # that is the bug
            for record in records:
                self.machine.apply(record)

    with patch.object(Shard, "_append", forgiving):
        yield


def generation_not_checked() -> AbstractContextManager[object]:
    """Whoever names the group may commit."""
    return patch.object(GroupMachine, "_check_commit", lambda self, *args: ErrorCode.NONE)


def members_live_for_ever() -> AbstractContextManager[object]:
    """A coordinator that loads a group arms no session: who died meanwhile stays a member."""

    def forgetful(self: ClassicGroup, now: Any) -> None:
        for member in self.members.values():
            member.deadline_ms = 1 << 60

    return patch.object(ClassicGroup, "loaded", forgetful)


@contextmanager
def generation_kept_by_a_rebalance() -> Iterator[None]:
    """Who comes while all others are here joins the generation that there is."""
    complete = ClassicGroup._complete_join

    def same(self: ClassicGroup, now: Any, step: Any) -> None:
        if self.generation and self.members:
            self.generation -= 1
        complete(self, now, step)

    with patch.object(ClassicGroup, "_complete_join", same):
        yield


def loaded_up_to_the_first_group() -> AbstractContextManager[object]:
    """Loading stops when it has found something."""
    load = Shard._apply_batch

    def once(self: Shard[Any], batch: bytes) -> None:
        if not self.machine.groups:
            load(self, batch)

    return patch.object(Shard, "_apply_batch", once)


@contextmanager
def given_before_it_is_released() -> Iterator[None]:
    """A member is given what it should have, whoever has it."""

    def hasty(*args: Any, is_free: Any, **more: Any) -> ConsumerMember:
        return reconciled(*args, is_free=lambda spot: True, **more)

    with patch.object(consumer, "reconciled", hasty):
        yield


@contextmanager
def owners_forgotten_by_a_restart() -> Iterator[None]:
    """What somebody has to give back is nobody's once the log was applied."""
    loaded = ConsumerGroup.loaded

    def forgetful(self: ConsumerGroup, now: Any) -> None:
        loaded(self, now)
        self._owners.clear()

    with patch.object(ConsumerGroup, "loaded", forgetful):
        yield


@contextmanager
def sessions_that_never_end() -> Iterator[None]:
    """Who died is not given up: what it had is nobody else's ever."""

    def patient(self: ConsumerGroup, member: Any, now: Any) -> None:
        self._sessions[member.id] = self._sessions.get(member.id, 1 << 60)

    with patch.object(ConsumerGroup, "_hear", patient):
        yield


def commits_of_anybody() -> AbstractContextManager[object]:
    """Who was given up, and does not know it yet, commits where others read now."""
    return patch.object(ConsumerGroup, "check_commit", lambda self, *args, version: ErrorCode.NONE)


TRIES = 30
"""A change anywhere in the broker shifts every schedule: the pinned seed is where to begin."""


def bug(name: str, plant: Callable[[], Any], seed: int) -> Bug:
    return Bug(name, plant, hunt_groups, seed, tries=TRIES)


def consumer_bug(name: str, plant: Callable[[], Any], seed: int) -> Bug:
    return Bug(name, plant, hunt_consumer_groups, seed, tries=TRIES)


GROUP_BUGS = (
    bug("groups: reply before it is durable", replied_before_durable, 13),
    bug("groups: go on with what a full disk refused", record_lost_when_the_disk_is_full, 1),
    bug("groups: take commits of any generation", generation_not_checked, 7),
    bug("groups: arm no session at load", members_live_for_ever, 1),
    bug("groups: rebalance within a generation", generation_kept_by_a_rebalance, 1),
    bug("groups: load the beginning only", loaded_up_to_the_first_group, 1),
    consumer_bug("consumer groups: give before release", given_before_it_is_released, 0),
    consumer_bug("consumer groups: forget owners at load", owners_forgotten_by_a_restart, 4),
    consumer_bug("consumer groups: members live for ever", sessions_that_never_end, 0),
    consumer_bug("consumer groups: take commits of anybody", commits_of_anybody, 1),
)
