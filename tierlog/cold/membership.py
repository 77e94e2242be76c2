"""The node's place in the bucket: whether the store may be trusted, and what STATE knows.

- `probe` asks whether the store lies (U11); `join` finds the cluster there, or founds it, once in
  its life. After that a store without it is a wrong one (`StateLost`): it gets nothing.
- A topic stands in `cluster/STATE` before its first publish, so that a restore finds it: what is
  noted here is written with the next `save`, and `is_saved` says whether it has been.
- STATE is read now and then, so that an idle node learns of a restore, and so that what the store
  lost of it is put back (`statekeeper`). A topic that is not in it is deleted only if STATE, or a
  receipt, says so: else it is written again.

What the store raises passes through: whoever calls repeats it.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.head import Incarnation
from tierlog.cold.localcopy import LocalCopies
from tierlog.cold.publisher import Place
from tierlog.cold.refusals import TopicDeleted
from tierlog.cold.statekeeper import StateKeeper
from tierlog.env import Env
from tierlog.objectstore.port import ObjectStore
from tierlog.objectstore.probe import probe as probe_store

logger = logging.getLogger(__name__)

STATE_LOOK_SECONDS = 60.0
"""How often STATE is read, so that an idle node learns of a restore: 44,000 requests a month."""

Probe: TypeAlias = Callable[[], Awaitable[None]]
"""Raises `StoreLies`; what the store raises passes through."""

Hook: TypeAlias = Callable[[], Awaitable[None]]


class Membership:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        prefix: str,
        *,
        cluster_id: str,
        incarnation: Incarnation,
        probe: Probe | None = None,
        is_founded: bool = False,
        on_founding: Hook | None = None,
        on_founded: Hook | None = None,
        copies: LocalCopies | None = None,
    ) -> None:
        """`prefix`: the cluster's own. A cluster that `is_founded` is not founded again;
        `on_founding` may refuse that it is, `on_founded` hears that it was."""
        self.probe: Probe = probe or (lambda: probe_store(store, env.rng))
        self.keeper = StateKeeper(
            store,
            prefix,
            env,
            cluster_id=cluster_id,
            incarnation=incarnation,
            copies=copies,
        )
        self._is_founded = is_founded
        self._on_founding = on_founding
        self._on_founded = on_founded
        self._topics: dict[str, TopicRecord] = {}
        self._unsaved: set[str] = set()
        """Topics that the bucket may not know as they are now."""
        self._clock = env.clock
        self._next_look = env.clock.monotonic() + STATE_LOOK_SECONDS

    async def join(self) -> None:
        if not self._is_founded and self._on_founding is not None:
            await self._on_founding()
        state = await self.keeper.join(may_found=not self._is_founded)
        if not self._is_founded:
            self._is_founded = True
            if self._on_founded is not None:
                await self._on_founded()
            life = state.incarnation.number
            logger.info("cluster %s is in the store, life %d", state.cluster_id, life)

    @property
    def is_founded(self) -> bool:
        """Whether the cluster was in the store once: then it must be there."""
        return self._is_founded

    @property
    def is_look_due(self) -> bool:
        return self._clock.monotonic() >= self._next_look

    async def look(self) -> None:
        """Read STATE. Raises `ForeignIncarnation` where another life has begun."""
        self._next_look = self._clock.monotonic() + STATE_LOOK_SECONDS
        await self.keeper.refresh()

    # Topics

    def note(self, topic_id: str, topic: TopicRecord) -> None:
        """The topic is as it says from now on; STATE hears of it with the next `save`."""
        if self._topics.get(topic_id) != topic:
            self._topics[topic_id] = topic
            self._unsaved.add(topic_id)

    def forget(self, topic_id: str) -> None:
        """Nothing of the topic is here any more; what STATE says of it stays."""
        self._topics.pop(topic_id, None)
        self._unsaved.discard(topic_id)

    @property
    def has_unsaved(self) -> bool:
        return bool(self._unsaved)

    def is_saved(self, place: Place) -> bool:
        """Whether a restore would find the topic: only then it may be published to."""
        return self.keeper.covers(place.topic_id, partitions=place.partition_count)

    async def require_saved(self, place: Place) -> None:
        """A restore would find the topic when this returns. Raises `TopicDeleted`."""
        if self.is_saved(place):
            return
        state = self.keeper.state
        if state is not None and place.topic_id in state.deleted:
            raise TopicDeleted(place.topic_id, of=place.topic)
        if place.topic_id in self._topics:
            self._unsaved.add(place.topic_id)
        await self.save()
        if not self.is_saved(place):
            raise TopicDeleted(place.topic_id, of=place.topic)

    async def save(self) -> None:
        """Write what the bucket may not know; a topic that is altered meanwhile comes again."""
        unsaved = {key: self._topics[key] for key in self._unsaved}
        if unsaved:
            if self.keeper.state is None:
                await self.join()
            try:
                await self.keeper.put_topics(unsaved)
            except TopicDeleted as gone:
                self._unsaved.discard(gone.topic_id)  # The others do not wait for it.
                raise
        self._unsaved -= {key for key, one in unsaved.items() if self._topics.get(key) == one}

    async def delete_topic(self, topic_id: str) -> None:
        """Its deletion stands in STATE when this returns: only now may its objects go."""
        await self.join()
        await self.keeper.delete_topic(topic_id)
