"""The store in memory: entries, revision, and the recent history that watches read.

Pure: no disk, no task. An adapter asks `decide` what a group of transactions comes to, makes that
durable, and only then lets `apply` show it. One group at a time.

History is bounded in changes and in bytes. A watch reads it at its own pace and keeps nothing of
its own, so a slow one costs no memory: when what it needs is gone it is told so (`WatchLost`).
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tierlog.metastore.errors import InvalidTxn, MetaStoreError, WatchLost
from tierlog.metastore.port import (
    KEY_BYTES_MAX,
    TXN_BYTES_MAX,
    VALUE_BYTES_MAX,
    Change,
    Compare,
    Delete,
    Entry,
    Event,
    Events,
    Put,
    TxnResult,
)

HISTORY_CHANGES = 1 << 16
HISTORY_BYTES = 32 << 20
"""Several starts of a node with 10,000 partitions: a watcher has that long to catch up."""


@dataclass(slots=True)
class Applied:
    """The effect of one transaction. None for a key that was deleted."""

    revision: int
    entries: dict[str, Entry | None]


@dataclass(slots=True)
class Group:
    """Transactions that become durable together, judged one behind the other."""

    revision: int
    """After the last of them."""
    applied: list[Applied] = field(default_factory=list)
    merged: dict[str, Entry | None] = field(default_factory=dict)
    results: list[TxnResult] = field(default_factory=list)


def check_txn(compares: Sequence[Compare], changes: Sequence[Change]) -> None:
    """Raise `InvalidTxn` for what no adapter takes."""
    for compare in compares:
        _check_key(compare.key)
    size = 0
    for change in changes:
        size += _check_key(change.key)
        if isinstance(change, Put):
            if len(change.value) > VALUE_BYTES_MAX:
                raise InvalidTxn(
                    f"the value of {change.key} has {len(change.value)} bytes, "
                    f"at most {VALUE_BYTES_MAX} are taken"
                )
            size += len(change.value)
    if size > TXN_BYTES_MAX:
        raise InvalidTxn(f"the changes have {size} bytes, at most {TXN_BYTES_MAX} are taken")
    if len({change.key for change in changes}) < len(changes):
        raise InvalidTxn("a transaction may change a key only once")


def _check_key(key: str) -> int:
    try:
        size = len(key) if key.isascii() else len(key.encode())
    except UnicodeEncodeError as fault:
        raise InvalidTxn(f"key {key!r} cannot be written as UTF-8") from fault
    if not 0 < size <= KEY_BYTES_MAX:
        raise InvalidTxn(f"a key has 1 to {KEY_BYTES_MAX} bytes, {key[:80]!r} has {size}")
    return size


class State:
    """See the module."""

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        revision: int = 0,
        history_changes: int = HISTORY_CHANGES,
        history_bytes: int = HISTORY_BYTES,
    ) -> None:
        self.entries = {entry.key: entry for entry in entries}
        self.revision = revision
        self.oldest = revision
        """History holds every change above this revision."""
        self._history: dict[int, Applied] = {}
        self._sizes: deque[tuple[int, int, int]] = deque()
        self._changes_max, self._bytes_max = history_changes, history_bytes
        self._changes = self._bytes = 0
        self._sorted: list[str] | None = None
        self._wakers: list[asyncio.Future[None]] = []
        self.is_closed = False
        self.fault: MetaStoreError | None = None
        """What watches are told from now on."""

    def listing(self, prefix: str) -> list[Entry]:
        if self._sorted is None:
            self._sorted = sorted(self.entries)
        keys, found = self._sorted, []
        for at in range(bisect_left(keys, prefix), len(keys)):
            if not keys[at].startswith(prefix):
                break
            found.append(self.entries[keys[at]])
        return found

    # Transactions

    def begin(self) -> Group:
        return Group(self.revision)

    def decide(self, group: Group, compares: Sequence[Compare], changes: Sequence[Change]) -> None:
        """Judge a transaction as if those before it in the group were applied."""
        succeeded = all(self._revision_of(group, each.key) == each.revision for each in compares)
        if succeeded and (entries := self._effect(group, changes)):
            group.revision += 1
            group.applied.append(Applied(group.revision, entries))
            group.merged.update(entries)
        group.results.append(TxnResult(succeeded, group.revision))

    def _before(self, group: Group, key: str) -> Entry | None:
        return group.merged[key] if key in group.merged else self.entries.get(key)

    def _revision_of(self, group: Group, key: str) -> int:
        entry = self._before(group, key)
        return 0 if entry is None else entry.revision

    def _effect(self, group: Group, changes: Sequence[Change]) -> dict[str, Entry | None]:
        revision = group.revision + 1
        effect: dict[str, Entry | None] = {}
        for change in changes:
            before = self._before(group, change.key)
            if isinstance(change, Delete):
                if before is not None:
                    effect[change.key] = None
            else:
                created = revision if before is None else before.created
                session = 0 if change.session is None else change.session.id
                effect[change.key] = Entry(change.key, change.value, revision, created, session)
        return effect

    def apply(self, group: Group) -> None:
        """Show what has become durable, and wake the watchers."""
        for key, entry in group.merged.items():
            if entry is None:
                self.entries.pop(key, None)
                self._sorted = None
            else:
                if key not in self.entries:
                    self._sorted = None
                self.entries[key] = entry
        self.revision = group.revision
        for applied in group.applied:
            self._remember(applied)
        self.wake()

    # History and watches

    def _remember(self, applied: Applied) -> None:
        size = sum(len(each.value) for each in applied.entries.values() if each is not None)
        self._history[applied.revision] = applied
        self._sizes.append((applied.revision, len(applied.entries), size))
        self._changes += len(applied.entries)
        self._bytes += size
        while self._changes > self._changes_max or self._bytes > self._bytes_max:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        revision, changes, size = self._sizes.popleft()
        del self._history[revision]
        self.oldest = revision
        self._changes -= changes
        self._bytes -= size

    def compact(self, revision: int) -> None:
        """Forget the history up to and with `revision`."""
        while self._sizes and self._sizes[0][0] <= revision:
            self._forget_oldest()

    def watch(self, prefix: str, *, after: int) -> "Watch":
        return Watch(self, prefix, after=after)

    def next_of(self, prefix: str, *, seen: int) -> tuple[int, Events]:
        """The first change behind revision `seen` that concerns the prefix, and how far that
        looked; no events when there is none yet."""
        if self.fault is not None:
            raise self.fault.with_traceback(None)  # Else it grows with everybody who is told.
        while seen < self.revision:
            if seen < self.oldest:
                raise WatchLost(seen, oldest=self.oldest)
            seen += 1
            if events := _events(self._history[seen], prefix):
                return seen, events
        return seen, []

    async def next_change(self) -> None:
        waker = asyncio.get_running_loop().create_future()
        self._wakers.append(waker)
        try:
            await waker
        finally:
            if waker in self._wakers:
                self._wakers.remove(waker)

    def wake(self) -> None:
        wakers, self._wakers = self._wakers, []
        for waker in wakers:
            if not waker.done():
                waker.set_result(None)

    def fail(self, fault: MetaStoreError) -> None:
        """Watches raise `fault` from now on."""
        self.fault = fault
        self.wake()

    def close(self) -> None:
        """Watches end."""
        self.is_closed = True
        self.wake()


class Watch:
    """Implements what the port's `watch` returns. Not a generator: a process that dies in a
    simulated world leaves nothing behind that somebody would have to close."""

    def __init__(self, state: State, prefix: str, *, after: int) -> None:
        self._state = state
        self._prefix = prefix
        self._seen = after

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Events:
        while not self.is_over():
            if not self.is_paused():
                self._seen, events = self._state.next_of(self._prefix, seen=self._seen)
                if events:
                    return events
            await self._state.next_change()
        raise StopAsyncIteration

    def is_over(self) -> bool:
        """Whoever changes the answer wakes the state's watches."""
        return self._state.is_closed

    def is_paused(self) -> bool:
        """Likewise. A paused watch delivers nothing, and misses nothing."""
        return False


def _events(applied: Applied, prefix: str) -> list[Event]:
    return [
        Event(key, None if entry is None else entry.value, applied.revision)
        for key, entry in applied.entries.items()
        if key.startswith(prefix)
    ]
