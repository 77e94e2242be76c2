"""The life that every crash point is taken from, and what happens behind the point.

    round 0    a node starts, claims, uploads, seals pages, publishes, drops, and stops in order
    round 1    its second start; objects go in parts
    repair     a life that keeps its segments; what the store loses, the scrubber puts back
    restore    from the bucket alone, into an empty directory of another machine
    round 2    the restored node goes on

A round fills and rolls segments of two partitions, and ends when all of it is cold and dropped.
Whatever the shot does, the story is told to its end: a dead process is started again, a frozen one
is succeeded by another, who uploads and publishes a round before the zombie wakes.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from tests.crashpoints.ledger import Ledger
from tests.crashpoints.member import CLUSTER, DATA, PREFIX, Member, Role, Unsettled
from tests.crashpoints.points import End, Gate, Shot
from tests.crashpoints.stage_repair import KEEPING, Losses, repairing, scrub
from tierlog.cold.changes import Append
from tierlog.cold.head import Incarnation
from tierlog.cold.layout import STATE
from tierlog.cold.restore import restore
from tierlog.cold.restoreplan import is_unfinished
from tierlog.cold.tree import Limits
from tierlog.config.directories import META
from tierlog.errors import TierlogError
from tierlog.metastore import LocalMetaStore, values
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.sim import HostDied, SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.sim.objectstore import SimStore
from tierlog.sim.storefaults import When

SEED = 5
SMALL_PAGES = Limits(entries_inline=1, leaf_entries=2, leaves_inline=1, index_leaves=8)
POLL_SECONDS = 0.05
WAKE_SECONDS = 30.0
"""Virtual time that a zombie is given to meet its fence, at the end of the story."""
DROP_SECONDS = 2.0
"""Time in which it might drop something after that."""


class Story:
    def __init__(self, world: SimWorld, shot: Shot | None) -> None:
        self.world = world
        self.shot = shot
        self.bucket = SimBucket(world.rng("bucket"), world=world)
        self.gate = Gate(world, self.bucket, shot, on_call=self._look_for_early_drops)
        self.ledger = Ledger(self.bucket)
        self.problems: list[str] = []
        self.role = Role(host="first", leader_epoch=0, incarnation=Incarnation(1, "first life"))
        self.round = 0
        self.members: list[Member] = []
        self._is_restoring = False
        self._zombie: asyncio.Future[None] | None = None
        self._zombie_host = ""
        self._starts: dict[Member, dict[object, int]] = {}

    async def tell(self) -> None:
        await self._live(until=1)
        await self._live(until=2, sends_parts=True)
        await self._repair()
        await self._restore("spare")
        if lost := self.ledger.cut():
            self.problems.append(f"the restore misses {lost} records that were cold")
        await self._live(until=3)
        await self._end_zombie()
        self.problems += self.ledger.problems()
        for member in self.members:
            self.problems += self.ledger.drop_problems(member)

    # Chapters

    async def _live(self, *, until: int, sends_parts: bool = False) -> None:
        """Lives of the owner, until so many rounds are played."""
        while self.round < until:
            epoch = self.role.leader_epoch + 1
            self.role = replace(self.role, leader_epoch=epoch, sends_parts=sends_parts)
            await self._watch(self._life(self.role, until))

    async def _life(self, role: Role, until: int) -> None:
        member = Member(self.gate.env(role.host), self.bucket, role, self.ledger)
        self.members.append(member)
        await member.open()
        while self.round < until:
            await member.play_round(lambda: self._is_owner(role))
            if not self._is_owner(role):
                # A zombie. It takes records that its successor does not have, and must keep them.
                await member.play_round(lambda: False)
                return
            self.round += 1
            self._thaw()
        await member.close()

    def _is_owner(self, role: Role) -> bool:
        return role == self.role

    async def _repair(self) -> None:
        """Lives of the owner, until its scrubber has put back what the store lost."""
        with repairing(self.bucket) as losses:
            while not losses.is_over:
                epoch = self.role.leader_epoch + 1
                self.role = replace(self.role, leader_epoch=epoch, sends_parts=False)
                await self._watch(self._repair_life(self.role, losses))

    async def _repair_life(self, role: Role, losses: Losses) -> None:
        member = Member(self.gate.env(role.host), self.bucket, role, self.ledger, KEEPING)
        self.members.append(member)
        await member.open()
        scrub(member)
        if not losses.began:
            await member.play_round(lambda: self._is_owner(role))
        if self._is_owner(role):
            await losses.play(lambda: self._is_owner(role))
        if not self._is_owner(role):
            await member.play_round(lambda: False)
            return
        self._thaw()
        await member.close()

    async def _restore(self, host: str) -> None:
        """Into an empty directory, as often as it takes; then the new owner is known."""
        self.role = replace(self.role, host=host)
        self._is_restoring = True
        while not await self._watch(self._restore_once(self.role.host)):
            pass
        self._is_restoring = False
        host = self.role.host
        self.role = await self.world.start(host, self._restored_role(host), what="read the role")
        self.world.kill(host)

    async def _restore_once(self, host: str) -> None:
        env = self.gate.env(host)
        disk = self.world.disk(host)
        if disk.exists(f"{DATA}/{META}") and not is_unfinished(disk, DATA):
            return  # It was cut off behind its last step.
        report = await restore(env, SimStore(self.bucket, env), DATA, cluster_id=CLUSTER)
        if not report.is_sound:
            self.problems += [f"restore: {one.outcome.value}" for one in report.partitions]

    async def _restored_role(self, host: str) -> Role:
        metastore = await LocalMetaStore.open(self.world.env(host), f"{DATA}/{META}")
        content = {entry.key: entry.value for entry in (await metastore.list("/"))[0]}
        await metastore.close()
        cluster = values.ClusterState.from_bytes(content[values.CLUSTER])
        epochs = [
            values.PartitionState.from_bytes(value).leader_epoch
            for key, value in content.items()
            if key.startswith(values.PARTITIONS)
        ]
        return Role(
            host=host,
            leader_epoch=max(epochs, default=0),
            incarnation=Incarnation(cluster.incarnation, cluster.incarnation_id),
        )

    # The shot

    async def _watch(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run it on the owner's host. False: it was cut off, and the owner may be another now."""
        host = self.role.host
        answer = self.world.start(host, work, what="the story")
        while not answer.done() and not self.world.is_frozen(host):  # noqa: ASYNC110  it is frozen
            await asyncio.sleep(POLL_SECONDS)
        if not answer.done():
            await self._succeed(host, answer)
            return False
        try:
            await answer
        except HostDied:
            self._power_may_go(host)
            return False
        except StoreUnavailable:
            self.world.kill(host)
            return False  # A restore, which says so and is repeated.
        self.world.kill(host)  # Its end: the next process draws its own numbers.
        return True

    def _power_may_go(self, host: str) -> None:
        """In doubt the whole machine went, and with it what was not synced, by chance."""
        if self.shot is not None and self.shot.when is When.AMBIGUOUS:
            self.world.power_cut(host)

    async def _succeed(self, host: str, answer: asyncio.Future[None]) -> None:
        assert self.shot is not None, "nobody freezes by itself"
        self._zombie, self._zombie_host = answer, host
        if self._is_restoring:  # Copies of its directory are it, too: the plan names who restores.
            self.role = replace(self.role, host="another spare")
        elif self.shot.end is End.RESTORED and PREFIX + STATE in self.bucket.shelf.items:
            self._zombie_may_not_own()
            await self._restore("successor")
            self.ledger.cut()
        else:
            self._clone(host, "successor")
            self.role = replace(self.role, host="successor")

    def _zombie_may_not_own(self) -> None:
        self.role = replace(self.role, host="nobody yet")

    def _clone(self, host: str, target: str) -> None:
        disk = self.world.disk(host).snapshot()
        disk.kill()
        self.world.host(target).disk = disk

    def _thaw(self) -> None:
        if self._zombie is not None and self.world.is_frozen(self._zombie_host):
            self.world.thaw(self._zombie_host)

    async def _end_zombie(self) -> None:
        if self._zombie is None:
            return
        self._thaw()
        await asyncio.wait([self._zombie], timeout=WAKE_SECONDS)
        await asyncio.sleep(DROP_SECONDS)
        if self._zombie.done():
            fault = self._zombie.exception()
            if fault is not None and not isinstance(fault, TierlogError):
                self.problems.append(f"the zombie ends with {fault!r}")
        for member in self.members:
            if member.role.host == self._zombie_host and member.is_still_trying:
                self.problems.append(f"{member.role} was not told that it is succeeded")
        self.world.kill(self._zombie_host)

    # Judging

    def _look_for_early_drops(self) -> None:
        """Asked at every call: what is dropped is published."""
        for member in self.members:
            starts = {place: log.log_start for place, log in member.logs.items()}
            if self._starts.get(member) != starts:
                self._starts[member] = dict(starts)
                self.problems += self.ledger.early_drops(member)


@contextmanager
def small_pages() -> Iterator[None]:
    """Pages are sealed and replaced after a few segments."""
    with patch("tierlog.cold.uploader.Append", partial(Append, limits=SMALL_PAGES)):
        yield


def tell(shot: Shot | None, *, seed: int = SEED) -> Story:
    """The story with this shot, told and judged."""
    world = SimWorld(seed, seconds_max=3600)
    story = Story(world, shot)
    with small_pages():
        try:
            world.run(story.tell())
        except Unsettled as fault:
            story.problems.append(f"never settled: {fault}")
        except Exception as fault:  # noqa: BLE001  whatever it is, it is a finding
            story.problems.append(f"{type(fault).__name__}: {fault}")
    return story
