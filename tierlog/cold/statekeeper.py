"""Keeps `cluster/STATE` in the bucket true to what the cluster decided.

Every change is a compare-and-swap by `Cell`, and every change first looks whose life of the cluster
the bucket belongs to: a node of an older life, or of another cluster, writes nothing any more
(`ForeignIncarnation`; its caller then serves reads only).

A topic stands in STATE before its first publish, and its deletion before any object of it goes: so
a restore never misses a topic that has data, and never brings back one whose data is half gone.
What is deleted stays deleted: ids are never used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from tierlog.cold.cell import Cell, Seen, write_once
from tierlog.cold.clusterstate import (
    ClusterState,
    DeletedTopic,
    Life,
    TopicRecord,
    decode_format,
    decode_state,
    encode_format,
    encode_state,
)
from tierlog.cold.layout import FORMAT_JSON, STATE, topic_receipt_key
from tierlog.cold.publisher import ROUNDS_MAX
from tierlog.cold.refusals import (
    ForeignIncarnation,
    ForeignObject,
    StateLost,
    SwapLost,
    TopicDeleted,
)
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from tierlog.cold.head import Incarnation
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore

UNNAMED = "?"
"""Of a deleted topic that never stood in STATE."""

Change: TypeAlias = Callable[[ClusterState], ClusterState]
"""Answers the same object where there is nothing to change."""


class StateKeeper:
    def __init__(
        self,
        store: ObjectStore,
        prefix: str,
        env: Env,
        *,
        cluster_id: str,
        incarnation: Incarnation,
    ) -> None:
        """`prefix`: the cluster's own, as `layout.cluster_prefix` gives it."""
        self.cluster_id = cluster_id
        self.incarnation = incarnation
        self.state: ClusterState | None = None
        """As last seen in the bucket."""
        self._store = store
        self._prefix = prefix
        self.key = prefix + STATE
        self._env = env
        self._cell = Cell(store, self.key, env, encode=encode_state, decode=decode_state)
        self._turn = asyncio.Lock()

    async def join(self, *, may_found: bool = True) -> ClusterState:
        """Find the cluster in the bucket, or found it. Before anything else.

        A cluster that was founded before is not founded in another store: `StateLost`.
        """
        async with self._turn:
            await self._check_format()
            if await self._read() is None:
                if not may_found:
                    raise StateLost(self.key)
                await self._found_cluster()
            return await self._read_mine()

    async def _check_format(self) -> None:
        """Raises `NewerFormat`: nothing below may be touched then."""
        try:
            got = await self._store.get(self._prefix + FORMAT_JSON)
        except NoSuchObject:
            return
        if (found := decode_format(got.data)) != self.cluster_id:
            raise ForeignObject(self._prefix + FORMAT_JSON, says=f"cluster {found}")

    async def refresh(self) -> ClusterState:
        """Read STATE: a node that does so now and then learns of a restore without publishing."""
        async with self._turn:
            return await self._read_mine()

    async def put_topics(self, topics: Mapping[str, TopicRecord]) -> ClusterState:
        """Create or alter; partition counts never fall. Raises `TopicDeleted`."""
        await self._require_unswept(topics)
        return await self.change(lambda state: _with_topics(state, topics))

    async def _require_unswept(self, topics: Mapping[str, TopicRecord]) -> None:
        """A data directory of an earlier day may know a topic that was deleted and swept since:
        STATE has forgotten it, its receipt has not. One request for a topic that is new here."""
        known = {} if self.state is None else self.state.topics
        for topic_id in sorted(topics.keys() - known.keys()):
            if await self.is_swept(topic_id):
                raise TopicDeleted(topic_id, of=topics[topic_id].name)

    async def is_swept(self, topic_id: str) -> bool:
        """Whether there is a receipt of its deletion: it outlives the note in STATE."""
        try:
            await self._store.head(self._prefix + topic_receipt_key(topic_id))
        except NoSuchObject:
            return False
        return True

    async def delete_topic(self, topic_id: str) -> ClusterState:
        """From here on the topic is gone for everybody; only now may its objects go."""
        now_ms = self._env.clock.now_ms()
        return await self.change(lambda state: _without(state, topic_id, now_ms=now_ms))

    async def swept(self, topic_id: str) -> ClusterState:
        """The last object of a deleted topic is gone: so may the note be."""
        return await self.change(lambda state: _forget(state, topic_id))

    def covers(self, topic_id: str, *, partitions: int) -> bool:
        """Whether the bucket is known to know the topic, so that it may be published to."""
        known = None if self.state is None else self.state.topics.get(topic_id)
        return known is not None and known.partitions >= partitions

    async def change(self, change: Change) -> ClusterState:
        """Apply to what the bucket holds now. After `SwapUncertain` repeat it: every change here
        finds itself done."""
        async with self._turn:
            return await self._apply(change, self._check_incarnation)

    async def begin_life(self, *, after: Incarnation) -> ClusterState:
        """A restore: this keeper's incarnation follows `after`, and its writers are fenced.

        Found done already, nothing happens. Raises `ForeignIncarnation` if somebody else's life
        has begun meanwhile.
        """

        def begin(state: ClusterState) -> ClusterState:
            if state.incarnation == self.incarnation:
                return state
            life = Life(self.incarnation, self._env.clock.now_ms(), "restore")
            return replace(state, lineage=(*state.lineage, life))

        def check(state: ClusterState) -> None:
            if state.incarnation != after:
                self._check_incarnation(state)

        async with self._turn:
            return await self._apply(begin, check)

    # Swapping

    async def _apply(self, change: Change, check: Callable[[ClusterState], None]) -> ClusterState:
        nonce = self._env.rng.randbytes(16).hex()
        for _ in range(ROUNDS_MAX):
            seen = await self._read()
            if seen is None:
                raise ForeignObject(self.key, says="nobody: it is gone")
            check(seen.value)
            changed = change(seen.value)
            if changed is seen.value:
                return self._adopt(seen)
            changed = replace(changed, version=seen.value.version + 1, nonce=nonce)
            try:
                return self._adopt(await self._cell.swap(seen, changed))
            except SwapLost:
                continue
        raise SwapLost(self.key)

    def _adopt(self, seen: Seen[ClusterState]) -> ClusterState:
        self.state = seen.value
        return seen.value

    async def _read(self) -> Seen[ClusterState] | None:
        seen = await self._cell.read()
        if seen is not None and seen.value.cluster_id != self.cluster_id:
            raise ForeignObject(self.key, says=f"cluster {seen.value.cluster_id}")
        return seen

    async def _read_mine(self) -> ClusterState:
        seen = await self._read()
        if seen is None:
            raise ForeignObject(self.key, says="nobody: it is gone")
        self._check_incarnation(seen.value)
        return self._adopt(seen)

    def _check_incarnation(self, state: ClusterState) -> None:
        if state.incarnation != self.incarnation:
            raise ForeignIncarnation(self.key, mine=self.incarnation, found=state.incarnation)

    async def _found_cluster(self) -> None:
        await write_once(
            self._store, self._prefix + FORMAT_JSON, encode_format(self.cluster_id), self._env.rng
        )
        life = Life(self.incarnation, self._env.clock.now_ms(), "serve")
        first = ClusterState(
            version=1,
            nonce=self._env.rng.randbytes(16).hex(),
            cluster_id=self.cluster_id,
            lineage=(life,),
        )
        try:
            await self._cell.swap(None, first)
        except SwapLost:
            return  # Somebody else founded it: whose it is, is read next.


def _with_topics(state: ClusterState, topics: Mapping[str, TopicRecord]) -> ClusterState:
    for topic_id in topics:
        if topic_id in state.deleted:
            raise TopicDeleted(topic_id, of=topics[topic_id].name)
    whole = {key: _not_fewer(one, state.topics.get(key)) for key, one in topics.items()}
    news = {key: one for key, one in whole.items() if state.topics.get(key) != one}
    return replace(state, topics={**state.topics, **news}) if news else state


def _not_fewer(topic: TopicRecord, known: TopicRecord | None) -> TopicRecord:
    return replace(topic, partitions=max(topic.partitions, known.partitions if known else 0))


def _without(state: ClusterState, topic_id: str, *, now_ms: int) -> ClusterState:
    if topic_id in state.deleted and topic_id not in state.topics:
        return state
    # Noted also where STATE does not list it: its creation may be on the way and land late.
    known = state.topics.get(topic_id) or TopicRecord(name=UNNAMED, partitions=1)
    note = DeletedTopic(name=known.name, partitions=known.partitions, deleted_ms=now_ms)
    return replace(
        state,
        topics={key: one for key, one in state.topics.items() if key != topic_id},
        deleted={**state.deleted, topic_id: note},
    )


def _forget(state: ClusterState, topic_id: str) -> ClusterState:
    if topic_id not in state.deleted:
        return state
    return replace(
        state, deleted={key: one for key, one in state.deleted.items() if key != topic_id}
    )
