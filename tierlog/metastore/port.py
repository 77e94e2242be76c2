"""The metastore as a port: versioned keys, transactions, watches, sessions.

One revision rises store-wide: every transaction that changes something takes the next one, and all
its changes carry it. Safety rests on revisions compared in transactions; sessions give liveness
only. Everything here can be had from etcd as well: compares are by mod revision, a watch starts
behind a revision, and a store may forget history at any moment.

Rules that every adapter keeps:
- Reads and transactions are linearizable. What a read shows is durable.
- A transaction names a key at most once. Deleting what is absent changes nothing.
- Revisions count up, possibly in steps above one. What an empty store's revision is, is its own
  affair; 0 is never the revision of an entry.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

KEY_BYTES_MAX = 4096
VALUE_BYTES_MAX = 1 << 20
"""etcd takes requests of 1.5 MiB; one value must fit into one with room to spare."""

TXN_BYTES_MAX = 256 << 20
"""Of keys and values together, in one transaction: far above any use, below what a frame holds."""


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    value: bytes
    revision: int
    """Of the entry's last change."""
    created: int
    """Revision that brought the key to life: names one life of it, as a broker epoch does."""
    session: int = 0
    """Id of the session whose end deletes the key; 0: it stays."""


class Session(Protocol):
    """Says that this process lives. Keys put under a session go when it ends.

    Never a lock: whoever is paused learns late that the session is over. Compare revisions.
    """

    @property
    def id(self) -> int:
        """Above 0 once started."""
        ...

    async def start(self) -> None:
        """Before anything is put under it."""
        ...

    @property
    def is_alive(self) -> bool:
        """As far as is known here."""
        ...

    async def lost(self) -> None:
        """Return once the session is known to be over, however it ended."""
        ...

    async def close(self) -> None:
        """End it: its keys go now, not when the time to live is over."""
        ...


@dataclass(frozen=True, slots=True)
class Compare:
    """Holds when the key's last change has this revision; 0: when the key is absent."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    session: Session | None = None
    """Whose end deletes the key. A later put without one makes the key stay."""


@dataclass(frozen=True, slots=True)
class Delete:
    key: str


Change: TypeAlias = Put | Delete


@dataclass(frozen=True, slots=True)
class TxnResult:
    succeeded: bool
    """Whether every compare held, and thus every change was made."""
    revision: int
    """Of the changes, or of the store where nothing changed."""


@dataclass(frozen=True, slots=True)
class Event:
    key: str
    value: bytes | None
    """None: the key was deleted."""
    revision: int


Entries: TypeAlias = list[Entry]
Events: TypeAlias = list[Event]
"""Aliases because a class with a method `list` cannot name the type any more."""


class MetaStore(Protocol):
    async def get(self, key: str) -> Entry | None: ...

    async def list(self, prefix: str) -> tuple[Entries, int]:
        """Entries whose key begins with `prefix`, by key, and the store's revision at that moment:
        a watch after it misses nothing."""
        ...

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        """All changes, if every compare holds; else none. Durable when it returns.

        `TxnUncertain`, `MetaStoreBroken` and a cancelled call leave open whether it happened: read
        back before trying again. Keep to 128 compares and changes together where the store may be
        etcd: that is its default limit, and adapters do not split.
        """
        ...

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[Events]:
        """What happens to keys with the prefix: one list per transaction, in order, none missed.

        Begins behind revision `after`, also when that is in the past. `WatchLost` when history is
        no longer kept so far back, or the reader fell behind too far. Ends when the store closes.
        """
        ...

    def session(self, *, ttl_ms: int) -> Session: ...

    async def close(self) -> None: ...
