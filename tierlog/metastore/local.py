"""The metastore of one node: a directory on its disk.

A transaction is in the journal, fdatasynced, before it is visible or acknowledged; after a crash
the store holds the transactions up to some moment, every acknowledged one among them, each whole or
not at all. Those that wait while the disk is busy become durable together. One writer at a time:
its blocking calls run in a thread, decisions and reads on the loop.

After a failed write or fsync the store is broken until it is opened again. A full disk is not a
failure: the transaction is refused and nothing has changed. A second process that opens the
directory is refused.

Sessions live as long as the process: there is nobody to expire them. What they held is removed when
the store is closed or opened again. History for watches begins when the store is opened.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tierlog.env import Env
from tierlog.metastore.errors import (
    MetaStoreBroken,
    MetaStoreClosed,
    MetaStoreError,
    MetaStoreUnavailable,
    SessionLost,
)
from tierlog.metastore.journal import Journal
from tierlog.metastore.port import (
    Change,
    Compare,
    Delete,
    Entries,
    Entry,
    Put,
    TxnResult,
)
from tierlog.metastore.state import Group, State, Watch, check_txn

JOURNAL_BYTES_MIN = 4 << 20
"""The journal may always grow this far, and beyond as far as the snapshot is large: so compaction
writes at most about as much as the transactions themselves did."""

GROUP_CHANGES_MAX = 20_000
"""Where a group is full: it bounds how long the loop is busy with one."""


logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Waiting:
    compares: Sequence[Compare]
    changes: Sequence[Change]
    answer: asyncio.Future[TxnResult]
    ends: int = 0
    """A session whose keys are to be deleted, whatever they are by then."""


class LocalSession:
    """Implements `Session`."""

    def __init__(self, store: "LocalMetaStore", number: int) -> None:
        self._store = store
        self._number = number
        self._ended = asyncio.Event()
        self._is_started = False

    @property
    def id(self) -> int:
        return self._number

    @property
    def is_alive(self) -> bool:
        return self._is_started and not self._ended.is_set()

    async def start(self) -> None:
        self._is_started = True

    async def lost(self) -> None:
        await self._ended.wait()

    def end(self) -> None:
        self._ended.set()

    async def close(self) -> None:
        self.end()
        await self._store.forget_session(self)


class LocalMetaStore:
    """Implements `MetaStore`. Made by `open`."""

    def __init__(self, env: Env, journal: Journal, state: State, *, journal_bytes_min: int) -> None:
        self._env = env
        self._journal = journal
        self._state = state
        self._journal_bytes_min = journal_bytes_min
        self._compact_at = self._next_compaction()
        self._waiting: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._fault: MetaStoreBroken | None = None
        self._is_closing = False
        self._sessions: dict[int, LocalSession] = {}
        self._session_count = 0

    @classmethod
    async def open(
        cls, env: Env, path: str, *, journal_bytes_min: int = JOURNAL_BYTES_MIN
    ) -> "LocalMetaStore":
        """Open the directory, or make it. See `errors` for what can be wrong with it."""
        journal = Journal(env, path)
        await env.tasks.in_thread(journal.open)
        state = State(journal.entries.values(), revision=journal.revision)
        journal.entries = {}
        return cls(env, journal, state, journal_bytes_min=journal_bytes_min)

    # Reading

    async def get(self, key: str) -> Entry | None:
        self._check_open()
        return self._state.entries.get(key)

    async def list(self, prefix: str) -> tuple[Entries, int]:
        self._check_open()
        return self._state.listing(prefix), self._state.revision

    def watch(self, prefix: str, *, after: int) -> Watch:
        return self._state.watch(prefix, after=after)

    # Transactions

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        self._check_open()
        check_txn(compares, changes)
        return await self._enqueue(tuple(compares), tuple(changes))

    async def _enqueue(
        self, compares: Sequence[Compare], changes: Sequence[Change], *, ends: int = 0
    ) -> TxnResult:
        answer: asyncio.Future[TxnResult] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(compares, changes, answer, ends))
        if self._writer is None:
            self._writer = self._env.tasks.spawn(self._write(), name="metastore writer")
        return await answer

    def _check_open(self) -> None:
        if self._fault is not None:
            raise self._fault.with_traceback(None)  # Else it grows with everybody who is told.
        if self._is_closing:
            raise MetaStoreClosed("the metastore is closed")

    async def _write(self) -> None:
        """Commit group after group until nobody waits."""
        taken: Sequence[_Waiting] = ()
        try:
            while self._waiting:
                taken = self._take()
                await self._commit(taken)
                await self._compact_if_due()
        except MetaStoreBroken as broken:
            self._break(broken, taken)
        except BaseException as fault:
            # Whatever it is, nobody may wait for ever, and the state on disk is unknown.
            self._break(MetaStoreBroken(f"the metastore's writer ended: {fault!r}"), taken)
            raise
        finally:
            self._writer = None

    def _take(self) -> Sequence[_Waiting]:
        taken: list[_Waiting] = []
        room = GROUP_CHANGES_MAX
        while self._waiting and (room > 0 or not taken):
            each = self._waiting.popleft()
            if not each.answer.done():  # Its caller went away before it began.
                taken.append(each)
                room -= len(each.changes)
        return taken

    async def _commit(self, taken: Sequence[_Waiting]) -> None:
        group, members = self._decide(taken)
        try:
            if group.applied:
                await self._env.tasks.in_thread(self._journal.append, group.applied)
        except MetaStoreUnavailable as full:
            for each in members:
                _fail(each, full)
            return
        self._state.apply(group)
        for each, result in zip(members, group.results, strict=True):
            if not each.answer.done():
                each.answer.set_result(result)

    def _decide(self, taken: Sequence[_Waiting]) -> tuple[Group, Sequence[_Waiting]]:
        group, members = self._state.begin(), []
        for each in taken:
            if lost := self._lost_session(each.changes):
                _fail(each, lost)
                continue
            changes = self._held(group, each.ends) if each.ends else each.changes
            self._state.decide(group, each.compares, changes)
            members.append(each)
        return group, members

    def _lost_session(self, changes: Sequence[Change]) -> SessionLost | None:
        for each in changes:
            if isinstance(each, Put) and each.session is not None and not each.session.is_alive:
                return SessionLost(f"{each.key} cannot be put under a session that is not alive")
        return None

    def _next_compaction(self) -> int:
        return self._journal.journal_bytes + max(
            self._journal_bytes_min, self._journal.snapshot_bytes
        )

    async def _compact_if_due(self) -> None:
        if self._journal.journal_bytes >= self._compact_at:
            # Where there is no room the journal serves as well: it grows on until the next try.
            with suppress(MetaStoreUnavailable):
                await self._compact()
            self._compact_at = self._next_compaction()

    async def _compact(self) -> None:
        # The entries stay as they are meanwhile: only the writer, who waits here, changes them.
        await self._env.tasks.in_thread(self._journal.compact, self._state.entries.values())

    def _break(self, broken: MetaStoreBroken, taken: Sequence[_Waiting]) -> None:
        self._fault = broken
        waiting, self._waiting = self._waiting, deque()
        for each in (*taken, *waiting):
            _fail(each, broken)
        self._state.fail(broken)
        self._end_sessions()

    # Sessions

    def session(self, *, ttl_ms: int) -> LocalSession:
        """The time to live is not needed: nobody can outlive the process that keeps the store."""
        self._check_open()
        self._session_count += 1
        session = LocalSession(self, self._session_count)
        self._sessions[session.id] = session
        return session

    async def forget_session(self, session: LocalSession) -> None:
        """Delete what it held. After an error it may be asked for again."""
        if session.id in self._sessions:
            self._check_open()
            await self._enqueue((), (), ends=session.id)
            self._sessions.pop(session.id, None)

    def _held(self, group: Group, number: int) -> Sequence[Change]:
        now = {**self._state.entries, **group.merged}
        return [Delete(key) for key, each in now.items() if each and each.session == number]

    def _end_sessions(self) -> None:
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()

    # The end

    async def close(self) -> None:
        """Finish what was begun, end watches and sessions, give up the lock."""
        if self._is_closing:
            return
        self._is_closing = True
        while self._writer is not None:
            await asyncio.wait([self._writer])
        is_sound = self._fault is None
        self._end_sessions()
        self._state.close()
        await self._env.tasks.in_thread(self._close_files, is_sound)

    def _close_files(self, is_sound: bool) -> None:
        try:
            if is_sound:
                self._journal.settle(self._state.entries)
        except MetaStoreError as fault:
            logger.warning("the metastore closes with its journal as it is: %s", fault)
        finally:
            self._journal.close()


def _fail(each: _Waiting, error: MetaStoreError) -> None:
    if not each.answer.done():
        each.answer.set_exception(error)
