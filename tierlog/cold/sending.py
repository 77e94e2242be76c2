"""Sending segment objects, and asking the store what it has of them.

Every attempt has a key of its own, so a write that lands late meets nothing (U2). The store is
given the checksum with the bytes and asked for it afterwards: only what it answers for rightly is
ever published or relied upon (U4, U6).
"""

import logging
from contextlib import suppress
from typing import Protocol

from crc32c import crc32c

from tierlog.cold.refusals import object_of
from tierlog.cold.staging import Staged
from tierlog.cold.troubles import ObjectWrong
from tierlog.env import Tasks
from tierlog.objectstore.errors import NoSuchObject, StoreError, StoreUnavailable
from tierlog.objectstore.port import ObjectStore, Outcome, Part, Span, Stat, Upload, Written
from tierlog.types import Position

logger = logging.getLogger(__name__)

CHECK_BYTES = 8 << 20
"""Read at once where a store keeps no checksum of its own."""


class Answered(Protocol):
    """What the store must answer for: an entry, or whatever else lists an object."""

    @property
    def version_id(self) -> str | None: ...

    @property
    def size(self) -> int: ...

    @property
    def crc32c(self) -> int: ...


async def send(store: ObjectStore, key: str, staged: Staged) -> None:
    """Write the object under a key that nobody has used.

    Returns where the store took it, or may have: `verify` tells. Raises `StoreUnavailable` where it
    surely did not; the next attempt takes another key.
    """
    if staged.parts:
        written = await _send_parts(store, key, staged)
    else:
        written = await store.put_if_absent(key, staged.body)
    if written.outcome is Outcome.LOST:
        raise StoreUnavailable(f"{key} is there already: {written.detail or 'an earlier write'}")


async def _send_parts(store: ObjectStore, key: str, staged: Staged) -> Written:
    upload = await store.begin_upload(key)
    try:
        parts: list[Part] = []
        for number, body in enumerate(staged.parts, start=1):
            parts.append(await store.put_part(upload, number, body))
        written = await store.complete_upload(upload, parts, crc32c=staged.body.crc32c)
    except BaseException:
        await _abort(store, upload)
        raise
    if written.outcome is Outcome.LOST:
        await _abort(store, upload)
    return written


async def _abort(store: ObjectStore, upload: Upload) -> None:
    """Not worth a second failure: leftovers are aborted by the sweep, and by the bucket's rule."""
    try:
        await store.abort_upload(upload)
    except StoreError as fault:
        logger.info("the parts of %s are left behind: %s", upload.key, fault)


async def verify(
    store: ObjectStore, key: str, entry: Answered, tasks: Tasks, *, of: str = ""
) -> Stat:
    """What the store knows of the object. Raises `ObjectWrong` unless size and checksum are right,
    and `NoSuchObject`."""
    stat = await store.head(key, version_id=entry.version_id)
    if stat.size != entry.size:
        raise ObjectWrong(key, wanted=f"{entry.size} bytes", found=f"{stat.size} bytes", of=of)
    found = stat.crc32c
    if found is None:
        found = await _read_crc(store, key, entry, tasks)
    if found != entry.crc32c:
        raise ObjectWrong(key, wanted=f"CRC-32C {entry.crc32c:08x}", found=f"{found:08x}", of=of)
    return stat


async def _read_crc(store: ObjectStore, key: str, entry: Answered, tasks: Tasks) -> int:
    crc = 0
    for start in range(0, entry.size, CHECK_BYTES):
        span = Span(Position(start), Position(min(start + CHECK_BYTES, entry.size)))
        got = await store.get(key, span=span, version_id=entry.version_id)
        crc = await tasks.in_thread(crc32c, got.data, crc)
    return crc


async def landed(
    store: ObjectStore, key: str, entry: Answered, tasks: Tasks, *, of: str = ""
) -> Stat:
    """As `verify`, right after `send`: an object that is not there was not taken."""
    with suppress(NoSuchObject):
        return await verify(store, key, entry, tasks, of=of)
    raise StoreUnavailable(f"{object_of(key, of)} was sent and is not there")
