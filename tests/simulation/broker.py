"""Scenario: one node, its clients, and everything that can go wrong between them.

The node is composed as in production. Writers (idempotent, plain, acks=1) send to topics of several
partitions, on fsync and on the page cache alone; readers follow, peek and trim; an owner makes and
deletes a topic again and again. Meanwhile connections are reset, delayed and cut, one way or both;
processes are killed or stopped in order; the machine loses power between callbacks and in the
middle of disk operations; syncs fail, the disk is slow or full, the clock jumps. One seed in ten
has no faults at all.

Checked at the end, after one more kill, stop or power cut: the history of all clients (see
`tierlog.sim.history`); that no client met an answer to another question; and that all of them came
to their end soon after the last fault.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random

from tests.simulation.broker_clients import (
    DELIVERY_S,
    NODE,
    PORT,
    Follower,
    HastyWriter,
    Ledger,
    Peeker,
    WatchedClient,
    Work,
    Writer,
    probe,
    run_client,
)
from tests.simulation.broker_owner import Owner, read_whole
from tierlog.client import Client, ProducerSettings
from tierlog.config import NodeSettings
from tierlog.env import Env
from tierlog.errors import TierlogError
from tierlog.server import Server
from tierlog.sim.history import Place
from tierlog.sim.loop import CALL_SECONDS_MAX
from tierlog.sim.verdict import anomalies
from tierlog.sim.world import HostDied, SimWorld

SETTINGS = NodeSettings(
    data="/data",
    listen=f"0.0.0.0:{PORT}",
    http="off",
    auto_create_topics_enable=False,
    log_retention_check_interval_ms=1000,
    tierlog_disk_free_min_bytes=0,
    tierlog_disk_free_min_ratio=0.0,
    tierlog_drain_timeout_ms=2000,
    log_index_interval_bytes=256,
)
TOPICS = {
    "kept": {"segment.bytes": "4096"},
    "cached": {"segment.bytes": "4096", "flush.messages": "20"},
    "expiring": {"segment.bytes": "2048", "retention.bytes": "6000"},
}
PARTITIONS = 2
WRITES = 40
FAULT_COUNT = 12
ROOMY = 1 << 40
STOP_S = 30.0
"""How long a node may take to stop once it must."""
LIVENESS_S = 60.0
"""How long after the last fault all clients may still be busy."""

PRODUCERS = {
    "writer-0": ProducerSettings(delivery_timeout_s=DELIVERY_S),
    "writer-1": ProducerSettings(delivery_timeout_s=DELIVERY_S, linger_s=0.02),
    "writer-2": ProducerSettings(delivery_timeout_s=DELIVERY_S, idempotent=False),
}
CLIENTS = (*PRODUCERS, "hasty", "follower", "peeker", "owner")


async def broker(world: SimWorld) -> int:
    """Tells how many records were acknowledged."""
    with quiet():
        return await run(world)


@contextmanager
def quiet() -> Iterator[None]:
    """Torn tails and failed syncs are the daily bread here."""
    logger = logging.getLogger("tierlog")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


async def run(world: SimWorld) -> int:
    ledger = Ledger(world)
    lives = Lives(world, ledger)
    running = asyncio.create_task(lives.run(), name="lives")
    await world.start("owner", make_topics(world.env("owner"), ledger), what="make topics")
    clients = start_clients(world, ledger)
    if world.seed % 10:
        await torment(world, lives, world.rng("nemesis"))
    await finish(ledger, clients, running)
    async with bounded("the probe"):
        await world.start("judge", probe(world.env("judge"), ledger), what="probe")
    await lives.end_somehow(world.rng("end"))
    async with bounded("the last reading"):
        await world.start("judge", read_all(world.env("judge"), ledger), what="judge")
    running.cancel()
    found = anomalies(ledger.history)
    assert not found, "; ".join(str(each) for each in found[:5])
    assert not ledger.complaints, ledger.complaints[0]
    return ledger.history.acknowledged()


async def make_topics(env: Env, ledger: Ledger) -> None:
    async with WatchedClient(ledger, env) as client:
        for name, configs in TOPICS.items():
            made = await client.create_topics(name, partitions=PARTITIONS, configs=configs)
            topic_id = made[name].topic_id.hex()
            ledger.places += [Place(name, topic_id, index) for index in range(PARTITIONS)]
    history = ledger.history
    history.lossy |= {place for place in ledger.places if place.topic == "cached"}
    history.expiring |= {place for place in ledger.places if place.topic == "expiring"}


def start_clients(world: SimWorld, ledger: Ledger) -> dict[str, "asyncio.Task[None]"]:
    works: dict[str, Work] = {
        **{
            name: Writer(name, ledger, WRITES, settings).run for name, settings in PRODUCERS.items()
        },
        "hasty": HastyWriter("hasty", ledger, WRITES // 2).run,
        "follower": Follower("follower", ledger).run,
        "peeker": Peeker("peeker", ledger).run,
        "owner": Owner("owner", ledger, 5).run,
    }
    return {
        host: asyncio.create_task(run_client(world, host, work), name=host)
        for host, work in works.items()
    }


async def finish(
    ledger: Ledger, clients: dict[str, "asyncio.Task[None]"], running: "asyncio.Task[None]"
) -> None:
    """All who write come to their end, then all who read."""
    readers = [clients.pop("follower"), clients.pop("peeker")]
    async with bounded("the writers"):
        await unless_over(running, clients.values())
    ledger.over = True
    async with bounded("the readers"):
        await unless_over(running, readers)


async def unless_over(
    running: "asyncio.Task[None]", clients: Iterable["asyncio.Task[None]"]
) -> None:
    """Wait for the clients; what goes wrong with the node itself ends the wait."""
    left = set(clients)
    while left:
        done, _ = await asyncio.wait([*left, running], return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
        left -= done


@asynccontextmanager
async def bounded(who: str) -> AsyncIterator[None]:
    """Liveness: what is inside ends in time."""
    try:
        async with asyncio.timeout(LIVENESS_S):
            yield
    except TimeoutError:
        raise AssertionError(f"{who} did not end within {LIVENESS_S:g} s") from None


async def read_all(env: Env, ledger: Ledger) -> None:
    async with WatchedClient(ledger, env) as client:
        for place in ledger.places:
            await check_id(client, place)
            await read_whole(ledger.history, client, place)


async def check_id(client: Client, place: Place) -> None:
    (found,) = (await client.metadata([place.topic])).topics
    assert found.topic_id.hex() == place.topic_id, f"{place} was made and is gone"


# The node


class Lives:
    """Runs the node, one process after the other."""

    def __init__(self, world: SimWorld, ledger: Ledger, settings: NodeSettings = SETTINGS) -> None:
        self.sync_may_fail = False
        self._settings = settings
        self._world = world
        self._ledger = ledger
        self._rng = world.rng("lives")
        self._stopping: asyncio.Future[None] | None = None

    async def run(self) -> None:
        world = self._world
        while True:
            try:
                await world.start(NODE, self._live(world.env(NODE)), what="serve")
                world.kill(NODE)
            except HostDied:
                pass
            except (TierlogError, OSError):
                world.kill(NODE)  # It could not open, or not close, for the disk's sake.
            if self.sync_may_fail:
                self._ledger.history.lost()
            await asyncio.sleep(0.01 + self._rng.random() * 0.3)

    async def _live(self, env: Env) -> None:
        server = Server(env, self._settings)
        await server.start()
        self._stopping = asyncio.get_running_loop().create_future()
        broken = server.node.broken
        broken.add_done_callback(lambda _: self.stop())
        await self._stopping
        if broken.done() and not isinstance(fault := broken.result(), TierlogError | OSError):
            raise AssertionError(f"the node broke by itself: {fault!r}") from fault
        try:
            async with asyncio.timeout(STOP_S):
                await server.stop()
        except TimeoutError:
            raise AssertionError(f"the node did not stop within {STOP_S:g} s") from None

    def stop(self) -> None:
        """In order."""
        if self._stopping is not None and not self._stopping.done():
            self._stopping.set_result(None)

    def kill(self) -> None:
        self._world.kill(NODE)

    def cut_power(self) -> None:
        self._ledger.history.lost()
        self._world.power_cut(NODE)

    def cut_power_in_a_call(self, op_count: int) -> None:
        if self._world.disk(NODE).on_op is None:
            done = self._world.power_cut_after(NODE, op_count)
            done.add_done_callback(lambda _: self._ledger.history.lost())

    async def end_somehow(self, rng: Random) -> None:
        """One more end of the process, so that the last reading is that of another."""
        rng.choice((self.stop, self.kill, self.cut_power, self.cut_power))()
        await asyncio.sleep(STOP_S)


# The faults


async def torment(world: SimWorld, lives: Lives, rng: Random) -> None:
    """Every seed has its own few kinds of faults: some bugs need the same ones again and again."""
    faults = rng.sample(FAULTS, rng.randint(3, len(FAULTS)))
    calmness = rng.random()
    for _ in range(FAULT_COUNT):
        await asyncio.sleep(rng.random() * 1.2)
        if rng.random() < calmness:
            calm(world)
        rng.choice(faults)(world, lives, rng)
    await asyncio.sleep(rng.random())
    calm(world)
    world.disk(NODE).on_op = None
    world.disk(NODE).forget_faults()


def calm(world: SimWorld) -> None:
    world.disk(NODE).capacity = ROOMY
    world.loop.call_seconds_max = CALL_SECONDS_MAX
    world.network.heal()
    for host in CLIENTS:
        world.network.set_delay(host, NODE, low=0.0001, high=0.002)


def some_client(rng: Random) -> str:
    return rng.choice(CLIENTS)


def stop(world: SimWorld, lives: Lives, rng: Random) -> None:
    lives.stop()


def kill(world: SimWorld, lives: Lives, rng: Random) -> None:
    lives.kill()


def cut_power(world: SimWorld, lives: Lives, rng: Random) -> None:
    lives.cut_power()


def cut_power_in_a_call(world: SimWorld, lives: Lives, rng: Random) -> None:
    lives.cut_power_in_a_call(1 + rng.randrange(60))


def fail_fsync(world: SimWorld, lives: Lives, rng: Random) -> None:
    lives.sync_may_fail = True
    world.disk(NODE).fail_fsync(rng=rng)


def fail_sync_dir(world: SimWorld, lives: Lives, rng: Random) -> None:
    lives.sync_may_fail = True
    world.disk(NODE).fail_sync_dir()


def fill_disk(world: SimWorld, lives: Lives, rng: Random) -> None:
    disk = world.disk(NODE)
    disk.capacity = disk.used + rng.randrange(4) * 4096


def slow_disk(world: SimWorld, lives: Lives, rng: Random) -> None:
    world.loop.call_seconds_max = rng.random() * 2


def jump_clock(world: SimWorld, lives: Lives, rng: Random) -> None:
    world.host(NODE).clock.step((rng.random() - 0.5) * 600_000)


def kill_client(world: SimWorld, lives: Lives, rng: Random) -> None:
    world.kill(some_client(rng))


def reset(world: SimWorld, lives: Lives, rng: Random) -> None:
    for host in rng.sample(CLIENTS, 3):
        world.network.reset(host, NODE)


def partition(world: SimWorld, lives: Lives, rng: Random) -> None:
    for host in rng.sample(CLIENTS, 3):
        world.network.partition(host, NODE)


def deafen(world: SimWorld, lives: Lives, rng: Random) -> None:
    """Answers arrive, requests do not."""
    for host in rng.sample(CLIENTS, 3):
        world.network.lose_one_way(host, NODE)


def silence(world: SimWorld, lives: Lives, rng: Random) -> None:
    """Requests arrive, answers do not."""
    for host in rng.sample(CLIENTS, 3):
        world.network.lose_one_way(NODE, host)


def delay(world: SimWorld, lives: Lives, rng: Random) -> None:
    for host in rng.sample(CLIENTS, 3):
        world.network.set_delay(host, NODE, low=0.01, high=rng.random())


FAULTS = (
    stop,
    kill,
    cut_power,
    cut_power_in_a_call,
    cut_power_in_a_call,
    fail_fsync,
    fail_sync_dir,
    fill_disk,
    slow_disk,
    jump_clock,
    kill_client,
    reset,
    reset,
    partition,
    deafen,
    silence,
    delay,
)
