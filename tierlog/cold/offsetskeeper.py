"""Keeps `cluster/OFFSETS` in the bucket: the offsets of the groups, for a restore.

A compare-and-swap by `Cell`, like STATE, and fenced like HEAD. Of two lives of the cluster the
later one writes: a restore claims the object before it reads on, so that a node of the older life,
whose condition does not hold any more, looks, finds out and stops (`ForeignIncarnation`). Within a
life the later leader of `__consumer_offsets` writes, and of two with one epoch (a copied disk) the
one that came first (`Fenced`).

Where nothing changed nothing is written; what this process wrote last is not read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.cold.cell import Cell, Seen
from tierlog.cold.clusteroffsets import ClusterOffsets, decode_offsets, encode_offsets
from tierlog.cold.head import Writer
from tierlog.cold.layout import OFFSETS
from tierlog.cold.publisher import ROUNDS_MAX
from tierlog.cold.refusals import (
    FencedByNewer,
    FencedByTwin,
    ForeignIncarnation,
    ForeignObject,
    SwapLost,
)
from tierlog.types import LeaderEpoch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tierlog.cold.clusteroffsets import Groups
    from tierlog.cold.head import Incarnation
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore

NOT_LED = LeaderEpoch(0)
"""Of a restore, which leads nothing: every node that starts on it comes later."""


class OffsetsKeeper:
    def __init__(
        self,
        store: ObjectStore,
        prefix: str,
        env: Env,
        *,
        cluster_id: str,
        incarnation: Incarnation,
        process: str,
        check_life: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`prefix`: the cluster's own. `check_life` raises `ForeignIncarnation` where STATE belongs
        to another life; it is asked before the object is made, when there is none to tell."""
        self.key = prefix + OFFSETS
        self._env = env
        self._cluster_id = cluster_id
        self._incarnation = incarnation
        self._process = process
        self._check_life = check_life
        self._cell = Cell(store, self.key, env, encode=encode_offsets, decode=decode_offsets)
        self._seen: Seen[ClusterOffsets] | None = None
        """What this process wrote last, if nothing came in between."""

    async def put(self, groups: Groups, *, leader_epoch: LeaderEpoch) -> bool:
        """The bucket says so when this returns; False where it did already. After `SwapUncertain`
        and `SwapLost` repeat it. Raises `ForeignIncarnation` and `Fenced`, for good."""
        writer = Writer(leader_epoch, self._process)
        nonce = self._env.rng.randbytes(16).hex()
        for _ in range(ROUNDS_MAX):
            seen, self._seen = self._seen or await self._read(), None
            if seen is None and self._check_life is not None:
                await self._check_life()
            self._check(seen, writer)
            if seen is not None and _says(seen.value, groups, writer, self._incarnation):
                self._seen = seen
                return False
            try:
                self._seen = await self._cell.swap(seen, self._next(seen, groups, writer, nonce))
            except SwapLost:
                continue
            return True
        raise SwapLost(self.key)

    async def claim(self) -> ClusterOffsets:
        """A restore: what the older life left, and from here on it writes no more. Found claimed
        already, nothing is written."""
        writer = Writer(NOT_LED, self._process)
        nonce = self._env.rng.randbytes(16).hex()
        for _ in range(ROUNDS_MAX):
            seen = await self._read()
            if seen is not None and seen.value.incarnation == self._incarnation:
                return seen.value
            self._check(seen, writer)
            groups = {} if seen is None else seen.value.groups
            try:
                swapped = await self._cell.swap(seen, self._next(seen, groups, writer, nonce))
            except SwapLost:
                continue
            return swapped.value
        raise SwapLost(self.key)

    async def _read(self) -> Seen[ClusterOffsets] | None:
        seen = await self._cell.read()
        if seen is not None and seen.value.cluster_id != self._cluster_id:
            raise ForeignObject(self.key, says=f"cluster {seen.value.cluster_id}")
        return seen

    def _check(self, seen: Seen[ClusterOffsets] | None, mine: Writer) -> None:
        if seen is None or seen.value.incarnation.number < self._incarnation.number:
            return
        if seen.value.incarnation != self._incarnation:
            found = seen.value.incarnation
            raise ForeignIncarnation(self.key, mine=self._incarnation, found=found)
        writer = seen.value.writer
        if writer.process == mine.process or writer.leader_epoch < mine.leader_epoch:
            return
        fence = FencedByTwin if writer.leader_epoch == mine.leader_epoch else FencedByNewer
        raise fence(self.key, mine=mine, found=writer)

    def _next(
        self, seen: Seen[ClusterOffsets] | None, groups: Groups, writer: Writer, nonce: str
    ) -> ClusterOffsets:
        return ClusterOffsets(
            version=1 if seen is None else seen.value.version + 1,
            nonce=nonce,
            cluster_id=self._cluster_id,
            incarnation=self._incarnation,
            writer=writer,
            written_ms=self._env.clock.now_ms(),
            groups=groups,
        )


def _says(found: ClusterOffsets, groups: Groups, writer: Writer, life: Incarnation) -> bool:
    return found.groups == groups and found.writer == writer and found.incarnation == life
