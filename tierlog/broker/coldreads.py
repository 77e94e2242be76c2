"""The cold side of one fetch: records that come from the bucket, now or a little later.

All partitions of the fetch ask at once, so their downloads run side by side. What has not arrived
when the fetch is answered goes on into the cache, where the next fetch finds it. What went wrong is
told once, as a retriable error, and asked for again by the next fetch.

Each partition is asked for once, however often the fetch looks: what has arrived is kept until it
is answered. A second question would be late again, and the fetch would chase its own tail. Where
the node has too many reads under way, the partition has nothing yet, and the fetch waits.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tierlog.fetchproxy.errors import TooManyReads
from tierlog.fetchproxy.proxy import ColdRead
from tierlog.types import Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.broker.call import Call
    from tierlog.broker.partition import Partition
    from tierlog.wire.messages.fetch import FetchPartition

Place = tuple[str | bytes, int, int]
"""Topic, partition and offset: nobody may get what another offset asked for."""


class ColdReads:
    __slots__ = ("_allowance", "_asked", "_call", "_changed", "_proxy", "_refused", "_told")

    def __init__(self, call: Call, *, bytes_max: int) -> None:
        self._call = call
        self._proxy = proxy = call.node.proxy
        self._asked: dict[Place, ColdRead | asyncio.Future[ColdRead]] = {}
        self._refused: set[Place] = set()
        """Not begun, since too many were under way; asked for again at the next look."""
        self._allowance = None if proxy is None else proxy.allowance(bytes_max)
        self._changed: Callable[[], None] | None = None
        self._told = False

    @property
    def is_waiting(self) -> bool:
        return bool(self._refused) or any(_is_coming(found) for found in self._asked.values())

    def awaits(self, key: str | bytes, ask: FetchPartition) -> bool:
        """Whether this partition's records are on their way, or will be."""
        place = key, ask.partition, ask.fetch_offset
        return place in self._refused or _is_coming(self._asked.get(place))

    def read(
        self, partition: Partition, key: str | bytes, ask: FetchPartition, *, bytes_max: int
    ) -> ColdRead | None:
        """Whole batches, or None while they are on their way. Raises what kept them from coming."""
        place = key, ask.partition, ask.fetch_offset
        found = self._asked.get(place)
        if found is None:
            found = self._begin(partition, place, bytes_max=bytes_max)
        if found is None or isinstance(found, ColdRead):
            return found
        return found.result() if found.done() and not found.cancelled() else None

    def _begin(
        self, partition: Partition, place: Place, *, bytes_max: int
    ) -> ColdRead | asyncio.Future[ColdRead] | None:
        assert self._proxy is not None, "only a node with a bucket drops what is local"
        assert partition.cold is not None
        try:
            found = self._proxy.read(
                partition.cold,
                Offset(place[2]),
                bytes_max=bytes_max,
                allowance=self._allowance,
                client=self._call.client_id or "",
                group=self._group,
            )
        except TooManyReads:
            self._refused.add(place)
            return None
        self._refused.discard(place)
        self._asked[place] = found
        if not isinstance(found, ColdRead):
            found.add_done_callback(self._arrived)
        return found

    def _group(self) -> str:
        call = self._call
        return call.node.group_of(call.client_id or "", call.peer.host)

    def watch(self, changed: Callable[[], None]) -> None:
        """Call once, after something has arrived or failed."""
        self._changed, self._told = changed, False

    def _arrived(self, task: asyncio.Future[ColdRead]) -> None:
        if self._changed is None or task.cancelled() or self._told:
            return
        self._told = True
        asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed()

    def end(self) -> None:
        """The fetch is answered."""
        self._changed = None
        self._asked = {}
        self._refused = set()


def _is_coming(found: ColdRead | asyncio.Future[ColdRead] | None) -> bool:
    return isinstance(found, asyncio.Future) and not found.done()
