"""Keeps `cluster/STATE` in the bucket true to what the cluster decided.

Every change is a compare-and-swap by `Cell`, and every change first looks whose life of the cluster
the bucket belongs to: a node of an older life, or of another cluster, writes nothing any more
(`ForeignIncarnation`; its caller then serves reads only).

STATE never goes back, either. What this node has seen it remembers, in a local copy that outlives
the process (`localcopy`): a store that shows no STATE, one that cannot be read, or an older one
lost a write, and the node puts its own back. Only by compare-and-swap of what stands there, with a
version above both; only where `format.json` names this cluster; and only if neither OFFSETS nor any
HEAD tells of a life that this node does not know: then the cluster was restored elsewhere. What a
newer tierlog wrote is never replaced.

A topic stands in STATE before its first publish, and its deletion before any object of it goes: so
a restore never misses a topic that has data, and never brings back one whose data is half gone.
What is deleted stays deleted: ids are never used again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from tierlog.cold.cell import Cell, Seen, Wrong, write_once
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
    CopyFailed,
    ForeignIncarnation,
    ForeignObject,
    StateLost,
    SwapLost,
    TopicDeleted,
)
from tierlog.cold.survey import lives_of
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from tierlog.cold.head import Incarnation
    from tierlog.cold.localcopy import LocalCopies
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore

logger = logging.getLogger(__name__)

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
        copies: LocalCopies | None = None,
    ) -> None:
        """`prefix`: the cluster's own, as `layout.cluster_prefix` gives it. `copies` outlive the
        process; without them what was seen is forgotten with it."""
        self.cluster_id = cluster_id
        self.incarnation = incarnation
        self.state: ClusterState | None = None
        """As last seen in the bucket."""
        self._known: ClusterState | None = None
        """The latest that was ever seen here: STATE never goes back behind it."""
        self._saved: ClusterState | None = None
        """What the local copy has."""
        self._copies = copies
        self._is_loaded = False
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

    async def _check_format(self) -> bool:
        """Whether there is one. Raises `NewerFormat`: nothing below may be touched then."""
        try:
            got = await self._store.get(self._prefix + FORMAT_JSON)
        except NoSuchObject:
            return False
        if (found := decode_format(got.data)) != self.cluster_id:
            raise ForeignObject(self._prefix + FORMAT_JSON, says=f"cluster {found}")
        return True

    async def refresh(self) -> ClusterState:
        """Read STATE: a node that does so now and then learns of a restore without publishing."""
        async with self._turn:
            return await self._read_mine()

    async def put_topics(self, topics: Mapping[str, TopicRecord]) -> ClusterState:
        """Create or alter; partition counts never fall. Raises `TopicDeleted`."""
        known = {} if self.state is None else self.state.topics
        unlisted: AbstractSet[str] = topics.keys() - known.keys()
        asked: frozenset[str] = frozenset()
        while True:
            await self._require_unswept({key: topics[key] for key in unlisted - asked})
            asked |= unlisted
            try:
                return await self.change(partial(_with_topics, topics=topics, asked=asked))
            except _Unlisted as found:
                unlisted = found.topic_ids

    async def _require_unswept(self, topics: Mapping[str, TopicRecord]) -> None:
        """A data directory of an earlier day may know a topic that was deleted and swept since:
        STATE has forgotten it, its receipt has not. One request for a topic that is not listed."""
        for topic_id in sorted(topics):
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

    async def begin_life(
        self,
        *,
        after: Incarnation,
        lives: Collection[Incarnation] = (),
        otherwise: ClusterState | None = None,
    ) -> ClusterState:
        """A restore: this keeper's incarnation follows `after`, and its writers are fenced. `lives`
        are those that HEADs tell of: STATE may have been rolled back over some of them. `otherwise`
        is what to begin from where there is no STATE that can be read.

        Found done already, nothing happens. Raises `ForeignIncarnation` if somebody else's life
        has begun meanwhile.
        """

        def begin(state: ClusterState) -> ClusterState:
            if state.incarnation == self.incarnation:
                return state
            last, mine = state.incarnation.number, self.incarnation.number
            missing = {one.number: one for one in (*lives, after) if last < one.number < mine}
            forgotten = tuple(Life(missing[number], 0, "restore") for number in sorted(missing))
            life = Life(self.incarnation, self._env.clock.now_ms(), "restore")
            return replace(state, lineage=(*state.lineage, *forgotten, life))

        def check(state: ClusterState) -> None:
            if state.incarnation != after and state.incarnation.number >= after.number:
                self._check_incarnation(state)

        async with self._turn:
            return await self._apply(begin, check, otherwise)

    # Swapping

    async def _apply(
        self,
        change: Change,
        check: Callable[[ClusterState], None],
        otherwise: ClusterState | None = None,
    ) -> ClusterState:
        nonce = self._new_nonce()
        for _ in range(ROUNDS_MAX):
            seen = await self._look()
            if not isinstance(seen, Seen) and otherwise is None:
                raise self._lost(seen)
            value = seen.value if isinstance(seen, Seen) else otherwise
            assert value is not None, "one of both"
            check(value)
            changed = change(value)
            if changed is value and isinstance(seen, Seen):
                return await self._adopt(seen)
            changed = replace(changed, version=value.version + 1, nonce=nonce)
            try:
                return await self._adopt(await self._cell.swap(seen, changed))
            except SwapLost:
                continue
        raise SwapLost(self.key)

    async def _adopt(self, seen: Seen[ClusterState]) -> ClusterState:
        """The copy is on disk before a change is reported."""
        self.state = self._known = seen.value
        if self._copies is not None and self._saved != seen.value:
            await self._copies.save_state(seen.value)
            self._saved = seen.value
        return seen.value

    async def _read(self) -> Seen[ClusterState] | None:
        seen = await self._look()
        if isinstance(seen, Wrong):
            raise self._lost(seen)
        return seen

    async def _read_mine(self) -> ClusterState:
        seen = await self._read()
        if seen is None:
            raise self._lost(seen)
        self._check_incarnation(seen.value)
        try:
            return await self._adopt(seen)
        except CopyFailed as fault:
            # A full disk must not keep uploads from making room: the next look saves it.
            logger.warning("%s", fault)
            return seen.value

    def _lost(self, found: Wrong | None) -> StateLost:
        if found is None:
            return StateLost(self.key)
        return StateLost(
            self.key,
            f"{self.key} cannot be read ({found.fault.reason}), and this node has no copy of it: "
            "put its newest sound version back. Nothing is uploaded or dropped until then",
        )

    # What the store lost

    async def _look(self) -> Seen[ClusterState] | Wrong | None:
        """What stands in the bucket, once what the store lost is put back."""
        await self._load()
        for _ in range(ROUNDS_MAX):
            found = await self._cell.look()
            if isinstance(found, Seen) and found.value.cluster_id != self.cluster_id:
                raise ForeignObject(self.key, says=f"cluster {found.value.cluster_id}")
            if self._known is None or not _is_lost(found, self._known):
                return found
            try:
                return await self._put_back(found, self._known)
            except SwapLost:
                continue
        raise SwapLost(self.key)

    async def _load(self) -> None:
        if self._is_loaded or self._copies is None:
            return
        self._saved = await self._copies.load_state(self.cluster_id)
        self._is_loaded = True
        if self._saved is not None and self._saved.incarnation == self.incarnation:
            self._known = self._saved

    async def _put_back(
        self, found: Seen[ClusterState] | Wrong | None, known: ClusterState
    ) -> Seen[ClusterState]:
        if not await self._check_format():
            raise StateLost(self.key)
        await self._check_latest(known)
        logger.error("%s %s; it is put back from what this node knows", self.key, _what(found))
        version = max(known.version, found.value.version if isinstance(found, Seen) else 0) + 1
        seen = await self._cell.swap(
            found, replace(known, version=version, nonce=self._new_nonce())
        )
        await self._adopt(seen)
        return seen

    async def _check_latest(self, known: ClusterState) -> None:
        """A node whose cluster was restored elsewhere must not put its own life back."""
        lives = await lives_of(self._store, self._prefix, self._env.tasks, known.topics)
        mine = {life.incarnation for life in known.lineage}
        for found, key in lives.items():
            if found not in mine:
                raise ForeignIncarnation(key, mine=self.incarnation, found=found)

    def _new_nonce(self) -> str:
        return self._env.rng.randbytes(16).hex()

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
            nonce=self._new_nonce(),
            cluster_id=self.cluster_id,
            lineage=(life,),
        )
        try:
            await self._cell.swap(None, first)
        except SwapLost:
            return  # Somebody else founded it: whose it is, is read next.


def _is_lost(found: Seen[ClusterState] | Wrong | None, known: ClusterState) -> bool:
    """Whether the store lost a write that led to `known`."""
    return not isinstance(found, Seen) or found.value.is_behind(known)


def _what(found: Seen[ClusterState] | Wrong | None) -> str:
    if found is None:
        return "is gone"
    if isinstance(found, Wrong):
        return f"cannot be read ({found.fault.reason})"
    return f"is back at version {found.value.version}, life {found.value.incarnation.number}"


class _Unlisted(Exception):
    """STATE does not list these any more, and nobody asked for their receipts yet."""

    def __init__(self, topic_ids: AbstractSet[str]) -> None:
        super().__init__()
        self.topic_ids = topic_ids


def _with_topics(
    state: ClusterState, *, topics: Mapping[str, TopicRecord], asked: AbstractSet[str]
) -> ClusterState:
    for topic_id in topics:
        if topic_id in state.deleted:
            raise TopicDeleted(topic_id, of=topics[topic_id].name)
    if unlisted := topics.keys() - state.topics.keys() - asked:
        raise _Unlisted(unlisted)
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
