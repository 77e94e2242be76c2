"""The cold side of one fetch: records that come from the bucket, now or a little later.

All partitions of the fetch ask at once, so their downloads run side by side. What has not arrived
when the fetch is answered goes on into the cache, where the next fetch finds it. What went wrong is
told once, as a retriable error, and asked for again by the next fetch.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tierlog.fetchproxy.proxy import ColdRead
from tierlog.types import Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.broker.partition import Partition
    from tierlog.fetchproxy.proxy import FetchProxy
    from tierlog.wire.messages.fetch import FetchPartition

Place = tuple[str | bytes, int]


class ColdReads:
    __slots__ = ("_allowance", "_changed", "_coming", "_done", "_proxy", "_told")

    def __init__(self, proxy: FetchProxy | None, *, bytes_max: int) -> None:
        self._proxy = proxy
        self._coming: dict[Place, asyncio.Future[ColdRead]] = {}
        self._done: dict[Place, asyncio.Future[ColdRead]] = {}
        self._allowance = None if proxy is None else proxy.allowance(bytes_max)
        self._changed: Callable[[], None] | None = None
        self._told = False

    @property
    def is_waiting(self) -> bool:
        return bool(self._coming)

    def awaits(self, key: str | bytes, ask: FetchPartition) -> bool:
        """Whether this partition's records are on their way."""
        return (key, ask.partition) in self._coming

    def begin(self) -> None:
        """All partitions are about to be read anew."""
        self._coming = {}

    def read(
        self, partition: Partition, key: str | bytes, ask: FetchPartition, *, bytes_max: int
    ) -> ColdRead | None:
        """Whole batches, or None while they are on their way. Raises what kept them from coming."""
        place = key, ask.partition
        if (done := self._done.pop(place, None)) is not None:
            return done.result()
        assert self._proxy is not None, "only a node with a bucket drops what is local"
        assert partition.cold is not None
        found = self._proxy.read(
            partition.cold,
            Offset(ask.fetch_offset),
            bytes_max=bytes_max,
            allowance=self._allowance,
        )
        if isinstance(found, ColdRead):
            return found
        self._coming[place] = found
        return None

    def watch(self, changed: Callable[[], None]) -> None:
        """Call once, after something has arrived or failed."""
        self._changed = changed
        self._told = False
        for place, task in self._coming.items():
            task.add_done_callback(partial(self._arrived, place))

    def _arrived(self, place: Place, task: asyncio.Future[ColdRead]) -> None:
        if self._changed is None or task.cancelled():
            return
        self._done[place] = task
        if not self._told:
            self._told = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed()

    def end(self) -> None:
        """The fetch is answered."""
        self._changed = None
