"""Reading what may be damaged: one bad answer is not believed.

A store, or the way to it, garbles an answer now and then. So whoever is about to say that an object
is damaged reads it again: the same wrong bytes twice are damage, other bytes each time are a store
that cannot be relied upon just now (`StoreUnavailable`).
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

from tierlog.cold.errors import ColdCorrupt, InvariantBroken
from tierlog.objectstore.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.env import Tasks
    from tierlog.objectstore.port import Got, ObjectStore

T = TypeVar("T")

READS_MAX = 6
"""Before the store counts as away. Two are enough but for very bad lines."""

WRONG = (ColdCorrupt, InvariantBroken)


async def read_agreed(
    store: ObjectStore, key: str, check: Callable[[Got], T], tasks: Tasks | None = None
) -> T:
    """What `check` makes of the object, in a thread if there are any. Raises what it raises only
    if the same bytes made it do so twice; `NoSuchObject` as the store says."""
    seen: set[bytes] = set()
    for _ in range(READS_MAX):
        got = await store.get(key)
        try:
            return check(got) if tasks is None else await tasks.in_thread(check, got)
        except WRONG:
            digest = sha256(got.data).digest()
            if digest in seen:
                raise
            seen.add(digest)
    raise differs(key)


def differs(key: str) -> StoreUnavailable:
    return StoreUnavailable(f"{key}: the store gives other bytes each time that it is read")
