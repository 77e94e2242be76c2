"""The simulated metastore: a cluster that never forgets, and clients that it may fail.

`SimMetaCluster` is the store, somewhere else on the network: it outlives every process, answers in
some order (linearizable: a request takes effect at one moment between call and answer), and on
demand is away for a while, loses requests or answers, forgets history and expires sessions.
`SimMetaStore` is the client of one process. A process that dies takes its requests with it, at
whichever point they were; its sessions expire when their time to live is over.
"""

import asyncio
from collections.abc import Sequence
from random import Random

from tierlog.env import Env
from tierlog.metastore.errors import (
    MetaStoreClosed,
    MetaStoreUnavailable,
    SessionLost,
    TxnUncertain,
)
from tierlog.metastore.port import (
    Change,
    Compare,
    Delete,
    Entries,
    Entry,
    Events,
    Put,
    TxnResult,
)
from tierlog.metastore.state import State, Watch, check_txn
from tierlog.sim.life import context_of

DELAY_SECONDS_MAX = 0.02
RENEWALS_PER_TTL = 3


class SimMetaCluster:
    """The store and its knobs."""

    def __init__(self, rng: Random, *, delay_seconds_max: float = DELAY_SECONDS_MAX) -> None:
        self.state = State()
        self.uncertain_share = 0.0
        """How many transactions of all get no answer, half of them applied."""
        self._rng = rng
        self._delay_seconds_max = delay_seconds_max
        self._is_up = True
        self._lost_answers = self._lost_requests = 0
        self._sessions: dict[int, SimSession] = {}
        self._session_count = 0

    # What goes wrong

    def stop(self) -> None:
        """From now on nothing is taken. Watches wait; sessions are not judged."""
        self._is_up = False

    def start(self) -> None:
        """Back again. Sessions get their whole time to live anew, as a new etcd leader gives."""
        self._is_up = True
        for session in self._sessions.values():
            session.renew()
        self.state.wake()

    def lose_answers(self, count: int = 1) -> None:
        """The next transactions are applied, and nobody hears of it."""
        self._lost_answers += count

    def lose_requests(self, count: int = 1) -> None:
        """The next transactions do not arrive, and nobody hears of it."""
        self._lost_requests += count

    def compact(self) -> None:
        """Forget all history: watches that are behind are lost."""
        self.state.compact(self.state.revision)

    def expire_sessions(self) -> None:
        """All of them, now, whatever their holders do."""
        for session in list(self._sessions.values()):
            self.end(session)

    # Asked by clients

    @property
    def is_up(self) -> bool:
        return self._is_up

    async def travel(self) -> None:
        """A request on its way there, or an answer on its way back."""
        delay = self._delay_seconds_max
        await asyncio.sleep(delay * self._rng.random() ** 2 if delay else 0)

    def check_up(self) -> None:
        if not self._is_up:
            raise MetaStoreUnavailable("the metastore cannot be reached; nothing was changed")

    def take(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        """Apply the transaction, or lose it, or lose the answer."""
        self.check_up()
        is_drawn = self._rng.random() < self.uncertain_share
        if self._lost_requests or (is_drawn and self._rng.random() < 0.5):
            self._lost_requests = max(0, self._lost_requests - 1)
            raise TxnUncertain("no answer from the metastore: read back what became of it")
        self._check_sessions(changes)
        result = self.commit(compares, changes)
        if self._lost_answers or is_drawn:
            self._lost_answers = max(0, self._lost_answers - 1)
            raise TxnUncertain("no answer from the metastore: read back what became of it")
        return result

    def _check_sessions(self, changes: Sequence[Change]) -> None:
        for each in changes:
            if isinstance(each, Put) and each.session and each.session.id not in self._sessions:
                raise SessionLost(f"{each.key} cannot be put under a session that is over")

    def commit(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        group = self.state.begin()
        self.state.decide(group, compares, changes)
        self.state.apply(group)
        return group.results[0]

    # Sessions

    def begin(self, session: "SimSession") -> int:
        self._session_count += 1
        self._sessions[self._session_count] = session
        return self._session_count

    def knows(self, session: "SimSession") -> bool:
        return session.id in self._sessions

    def end(self, session: "SimSession") -> None:
        """Delete what it held. Its holder learns of it at its next renewal."""
        if self._sessions.pop(session.id, None) is not None:
            held = [each.key for each in self.state.entries.values() if each.session == session.id]
            self.commit((), [Delete(key) for key in held])


class SimSession:
    """Implements `Session`. Renewed by a task of its process, expired by a timer of the cluster."""

    def __init__(self, env: Env, cluster: SimMetaCluster, *, ttl_ms: int) -> None:
        self._env = env
        self._cluster = cluster
        self._ttl_seconds = ttl_ms / 1000
        self._id = 0
        self._ended = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def id(self) -> int:
        return self._id

    @property
    def is_alive(self) -> bool:
        return self._id > 0 and not self._ended.is_set()

    async def start(self) -> None:
        await self._cluster.travel()
        self._cluster.check_up()
        self._id = self._cluster.begin(self)
        self.renew()
        self._keeper = self._env.tasks.spawn(self._keep(), name="metastore session")
        await self._cluster.travel()

    def renew(self) -> None:
        """The cluster heard of the holder, or judges anew."""
        if self._timer is not None:
            self._timer.cancel()
        # The timer is the cluster's: it must ring also when the holder's process is dead.
        self._timer = asyncio.get_running_loop().call_later(
            self._ttl_seconds, self._expire, context=context_of(None)
        )

    def _expire(self) -> None:
        if self._cluster.is_up:
            self._cluster.end(self)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_seconds / RENEWALS_PER_TTL)
            await self._cluster.travel()
            if not self._cluster.is_up:
                continue
            if not self._cluster.knows(self):
                self._ended.set()
                return
            self.renew()

    async def lost(self) -> None:
        await self._ended.wait()

    async def close(self) -> None:
        if self._id:
            await self._cluster.travel()
            self._cluster.check_up()
            self._cluster.end(self)
        self.abandon()

    def abandon(self) -> None:
        """No more renewals: the cluster expires it when its time is over."""
        self._ended.set()
        if self._keeper is not None:
            self._keeper.cancel()


class SimMetaStore:
    """Implements `MetaStore` for one process."""

    def __init__(self, env: Env, cluster: SimMetaCluster) -> None:
        self._env = env
        self._cluster = cluster
        self._sessions: list[SimSession] = []
        self.is_closed = False

    async def get(self, key: str) -> Entry | None:
        await self._go()
        entry = self._cluster.state.entries.get(key)
        await self._cluster.travel()
        return entry

    async def list(self, prefix: str) -> tuple[Entries, int]:
        await self._go()
        answer = self._cluster.state.listing(prefix), self._cluster.state.revision
        await self._cluster.travel()
        return answer

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        self._check_open()
        check_txn(compares, changes)
        await self._cluster.travel()
        try:
            return self._cluster.take(compares, changes)
        finally:
            await self._cluster.travel()

    def watch(self, prefix: str, *, after: int) -> "SimWatch":
        self._check_open()
        return SimWatch(self, self._cluster, prefix, after=after)

    def session(self, *, ttl_ms: int) -> SimSession:
        self._check_open()
        session = SimSession(self._env, self._cluster, ttl_ms=ttl_ms)
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        self.is_closed = True
        for session in self._sessions:
            session.abandon()
        self._cluster.state.wake()

    async def _go(self) -> None:
        self._check_open()
        await self._cluster.travel()
        self._cluster.check_up()

    def _check_open(self) -> None:
        if self.is_closed:
            raise MetaStoreClosed("the metastore's client is closed")


class SimWatch(Watch):
    """Ends with its client, waits while the cluster is away; events take their time to arrive."""

    def __init__(
        self, store: SimMetaStore, cluster: SimMetaCluster, prefix: str, *, after: int
    ) -> None:
        super().__init__(cluster.state, prefix, after=after)
        self._store = store
        self._cluster = cluster

    def is_over(self) -> bool:
        return self._store.is_closed

    def is_paused(self) -> bool:
        return not self._cluster.is_up

    async def __anext__(self) -> Events:
        events = await super().__anext__()
        await self._cluster.travel()
        if self.is_over():
            raise StopAsyncIteration
        return events
