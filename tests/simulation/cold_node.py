"""The node of the simulated cold tier: one process after the other, restored when its disk is lost.

Composed as `tierlog serve` does it, with the simulated bucket for a store.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random

from tests.simulation.broker_clients import NODE, PORT
from tests.simulation.cold_clients import ColdLedger
from tests.simulation.cold_oracle import STATE, WatchedBucket, Where
from tests.simulation.cold_watch import Watch
from tierlog.cold.clusterstate import decode_state
from tierlog.cold.restore import restore
from tierlog.cold.restoreplan import is_unfinished
from tierlog.cold.tierstats import TierStats
from tierlog.config import NodeSettings
from tierlog.config.directories import LOGS, META
from tierlog.env import Env
from tierlog.errors import TierlogError
from tierlog.objectstore.counted import Counted
from tierlog.objectstore.port import ObjectStore
from tierlog.objectstore.retrying import Retrying
from tierlog.server import Server
from tierlog.sim.history import Place
from tierlog.sim.objectstore import SimStore
from tierlog.sim.world import HostDied, SimWorld

SETTINGS = NodeSettings(
    data="/data",
    listen=f"0.0.0.0:{PORT}",
    http="off",
    auto_create_topics_enable=False,
    tierlog_disk_free_min_bytes=0,
    tierlog_disk_free_min_ratio=0.0,
    tierlog_drain_timeout_ms=2000,
    tierlog_cache_bytes=12_000,
    tierlog_garbage_grace_ms=3_000,
    log_index_interval_bytes=256,
)
GRACE_MS = 3_000
"""Of garbage, where something expires."""
TWIN = "twin"
TWIN_S = 20.0
START_S = STOP_S = 60.0
"""How long a node may take to start, or to stop once it must."""


def store_of(bucket: WatchedBucket, env: Env) -> ObjectStore:
    return Retrying(Counted(SimStore(bucket, env), env.clock), env)


class ColdServer(Server):
    def __init__(self, env: Env, bucket: WatchedBucket) -> None:
        grace_ms = GRACE_MS if bucket.oracle.expires else SETTINGS.tierlog_garbage_grace_ms
        super().__init__(env, replace(SETTINGS, tierlog_garbage_grace_ms=grace_ms))
        self._bucket = bucket

    def _open_store(self) -> ObjectStore:
        self.store = store_of(self._bucket, self._env)
        return self.store


class ColdLives:
    """Runs the node, and ends it."""

    def __init__(self, world: SimWorld, ledger: ColdLedger, bucket: WatchedBucket) -> None:
        self.bucket = bucket
        self.ledger = ledger
        self.watch = Watch(bucket, [world.host(name).clock for name in (NODE, TWIN)])
        self.disk_is_lost = False
        self.twin_is_wanted = False
        self.restore_count = 0
        self.stats = list[TierStats]()
        """Of every life, the last one last."""
        self._world = world
        self._rng = world.rng("lives")
        self._stopping: asyncio.Future[None] | None = None
        self._had_twin = False

    async def run(self) -> None:
        world = self._world
        while True:
            self.watch.tier = None
            try:
                await world.start(NODE, self._live(world.env(NODE)), what="serve")
                self._clone()
                world.kill(NODE)
            except HostDied:
                pass
            except (TierlogError, OSError):
                world.kill(NODE)  # It could not open, or not close, for the disk's or store's sake.
            self.watch.tier = None
            await asyncio.sleep(0.01 + self._rng.random() * 0.3)

    async def _live(self, env: Env) -> None:
        if self.disk_is_lost:
            await self._restore(env)
        server = ColdServer(env, self.bucket)
        await server.start()
        tiering = server.node.tiering
        assert tiering is not None
        self.watch.tier = tiering.tier
        self.stats.append(tiering.tier.stats)
        self._stopping = asyncio.get_running_loop().create_future()
        broken = server.node.broken
        broken.add_done_callback(lambda _: self.stop())
        await self._stopping
        if broken.done() and not isinstance(fault := broken.result(), TierlogError | OSError):
            raise AssertionError(f"the node broke by itself: {fault!r}") from fault
        self.watch.tier = None
        try:
            async with asyncio.timeout(STOP_S):
                await server.stop()
        except TimeoutError:
            raise AssertionError(f"the node did not stop within {STOP_S:g} s") from None

    # The ends of a process

    def stop(self) -> None:
        """In order."""
        if self._stopping is not None and not self._stopping.done():
            self._stopping.set_result(None)

    def kill(self) -> None:
        self._world.kill(NODE)

    def cut_power(self) -> None:
        self._world.power_cut(NODE)

    def cut_power_in_a_call(self, op_count: int) -> None:
        if self._world.disk(NODE).on_op is None:
            self._world.power_cut_after(NODE, op_count)

    async def end_somehow(self, rng: Random) -> None:
        """One more end of the process, so that the last reading is that of another."""
        rng.choice((self.stop, self.kill, self.cut_power, self.lose_disk))()
        await asyncio.sleep(1.0)

    # The loss of a disk

    def lose_disk(self) -> None:
        """For good; unless the bucket does not know the topics yet, or cannot be believed."""
        if not self.bucket.oracle.trusts or not self._can_be_restored():
            self.cut_power()
            return
        self.disk_is_lost = True
        self._world.lose_disk(NODE)

    def _can_be_restored(self) -> bool:
        items = self.bucket.shelf.items
        found = [decode_state(one.data) for key, one in items.items() if key.endswith(STATE)]
        known = {topic for state in found for topic in state.topics}
        return known >= {place.topic_id for place in self.ledger.places}

    async def _restore(self, env: Env) -> None:
        """As often as it takes. A process that died right after the last step finds it done."""
        is_made = env.disk.exists(f"/data/{META}") and not is_unfinished(env.disk, "/data")
        if not is_made:
            report = await restore(env, store_of(self.bucket, env), "/data")
            if not report.is_complete:
                raise TierlogError("; ".join(one.outcome.value for one in report.partitions))
        self.disk_is_lost = False
        self.restore_count += 1
        self.watch.lost.clear()
        for place in self.ledger.places:
            where = Where(place.topic_id, place.partition)
            head = self.bucket.oracle.heads[where]
            end = max(head.next_offset, head.log_start)
            self._rewind(place, end)
        known = {Where(place.topic_id, place.partition) for place in self.ledger.places}
        for where in self.watch.seen.keys() - known:
            del self.watch.seen[where]  # Nobody remembers what was promised of it.

    def lose_log(self) -> None:
        """One partition's files, by an accident: what was not published is gone with them. The
        store is away then, so that nobody can say where the log ended, for a while."""
        if self.disk_is_lost or not self.ledger.places or not self.bucket.oracle.trusts:
            return
        place = self._rng.choice(self.ledger.places)
        where = Where(place.topic_id, place.partition)
        disk = self._world.disk(NODE)
        path = f"/data/{LOGS}/{place.topic_id}-{place.partition}"
        self.kill()
        disk.on_op = None  # A power cut that waited for the node's next call has nobody to hit.
        self.watch.tier = None  # Its log is not the one that begins again.
        if where in self.bucket.oracle.heads and disk.exists(path):
            self.watch.lost[where] = partial(self._rewind, place)
            for name in disk.listdir(path):
                disk.unlink(f"{path}/{name}")
            disk.sync_dir(path)

    def _rewind(self, place: Place, end: int) -> None:
        where = Where(place.topic_id, place.partition)
        self.ledger.past.rewind(place, end)
        self.watch.seen[where] = min(self.watch.seen[where], end)

    # A twin

    def clone(self) -> None:
        """Stop, copy the disk, and start from both: somebody restored a snapshot of the machine."""
        self.twin_is_wanted = True
        self.stop()

    def _clone(self) -> None:
        if not self.twin_is_wanted or self.disk_is_lost:
            return
        self.twin_is_wanted = False
        world = self._world
        self._had_twin = True
        world.kill(TWIN)
        world.host(TWIN).use(world.disk(NODE).after_power_cut(self._rng))
        twin = world.start(TWIN, self._live_as_twin(world.env(TWIN)), what="twin")
        twin.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _live_as_twin(self, env: Env) -> None:
        """It may have fenced the node, which then is read-only: somebody finds out in the end."""
        with suppress(TierlogError, OSError):
            await ColdServer(env, self.bucket).start()
            await asyncio.sleep(TWIN_S)
        self.stop()
        await self._world.die()

    async def end_twin(self) -> None:
        """Whoever finds out about it ends the one and starts the other again, which then leads
        under a leader epoch of its own."""
        self.twin_is_wanted = False
        if self._had_twin:
            self._world.kill(TWIN)
            # One that is still starting hears of no stop, and may be about to take the twin's
            # leader epoch.
            async with asyncio.timeout(START_S):
                while self.watch.tier is None:  # noqa: ASYNC110  # there is no event for it
                    await asyncio.sleep(0.1)
            self.stop()
            await asyncio.sleep(1.0)
