"""The bucket by the names that people use, without a broker. Reads only.

A path leads down: cluster, topic (its name from STATE, or its id), partition, and there `HEAD`, a
key such as `seg/...`, or an offset, which stands for the segment that holds it:

    orders            orders/0            orders/0/HEAD            orders/0/1200
    CLUSTER/orders    STATE               CLUSTER/t/TOPIC-ID/0/seg/...

The cluster may be left out where the bucket holds one. Slashes at the beginning do not count: the
id of a cluster may begin with a dash, which a command line takes for an option. What is not there
is refused with what comes nearest.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from tierlog.cold import codec, lookup
from tierlog.cold.clusterstate import decode_state
from tierlog.cold.errors import ColdCorrupt, ColdError
from tierlog.cold.head import PageRef
from tierlog.cold.layout import (
    FORMAT_JSON,
    HEAD,
    OFFSETS,
    STATE,
    TOPICS,
    PartitionKeys,
    cluster_prefix,
)
from tierlog.cold.restore import find_clusters
from tierlog.cold.survey import rebuilt, survey
from tierlog.objectstore.errors import NoSuchObject
from tierlog.types import Offset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tierlog.cold.clusterstate import ClusterState
    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head
    from tierlog.cold.page import Page
    from tierlog.objectstore.port import ObjectStore, Stat

SHORT = {"STATE": STATE, "OFFSETS": OFFSETS}
"""Names that people write for keys."""
NEAR_MAX = 1000
"""Keys that are looked at for one that was meant."""


class NotThere(ColdError):
    """The bucket has nothing under this path; the sentence says what it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a path leads to: as much of it as was given."""

    cluster_id: str | None = None
    topic_id: str | None = None
    topic: str | None = None
    """Its name; None for one that STATE does not know."""
    partition: int | None = None
    key: str | None = None
    """Of one object, from the store's own prefix on."""
    entry: Entry | None = None
    """What the manifest says of a segment that was named by an offset."""

    @property
    def keys(self) -> PartitionKeys:
        assert self.cluster_id is not None, "inside a cluster"
        assert self.topic_id is not None, "inside a topic"
        assert self.partition is not None, "inside a partition"
        return PartitionKeys(cluster_prefix("", self.cluster_id), self.topic_id, self.partition)


class BucketView:
    def __init__(self, store: ObjectStore, *, cluster_id: str | None = None) -> None:
        self.store = store
        self._cluster_id = cluster_id
        self._states: dict[str, ClusterState] = {}

    # Paths

    async def find(self, path: str) -> Place:
        """Raises `NotThere`. Whether an object is there is seen when it is read."""
        words = [one for one in path.split("/") if one]
        clusters = await self.clusters()
        if words and words[0] in clusters:
            cluster_id, words = words[0], words[1:]
        elif not words and len(clusters) != 1:
            return Place()
        else:
            cluster_id = self.one_cluster(clusters, path)
        return await self._in_cluster(cluster_id, words)

    async def clusters(self) -> list[str]:
        found = await find_clusters(self.store)
        if not found:
            raise NotThere("the store holds no cluster; is it the right one, and the right prefix?")
        if self._cluster_id is not None and self._cluster_id not in found:
            raise NotThere(f"there is no cluster {self._cluster_id}; there are {_listed(found)}")
        return found if self._cluster_id is None else [self._cluster_id]

    def one_cluster(self, clusters: list[str], path: str = "") -> str:
        """Raises `NotThere` where it cannot be told which is meant."""
        if len(clusters) == 1:
            return clusters[0]
        if not path:
            raise NotThere(
                f"the store holds {len(clusters)} clusters, {_listed(clusters)}; name one with "
                "--cluster-id"
            )
        raise NotThere(
            f"the store holds {len(clusters)} clusters, and {path} may be of any; write one of "
            f"{_listed(clusters)} before it"
        )

    async def _in_cluster(self, cluster_id: str, words: list[str]) -> Place:
        above = cluster_prefix("", cluster_id)
        if not words:
            return Place(cluster_id=cluster_id)
        name = "/".join(words)
        name = SHORT.get(name, name)
        if name in (FORMAT_JSON, STATE, OFFSETS):
            return Place(cluster_id=cluster_id, key=above + name)
        if words[0] == TOPICS.rstrip("/") and len(words) > 1:
            words = words[1:]  # As keys have it.
        topic_id, topic = await self._topic(cluster_id, words[0])
        place = Place(cluster_id=cluster_id, topic_id=topic_id, topic=topic)
        return await self._in_topic(place, words[1:]) if words[1:] else place

    async def _topic(self, cluster_id: str, word: str) -> tuple[str, str | None]:
        state = await self.state(cluster_id)
        for topic_id, topic in state.topics.items():
            if word in (topic.name, topic_id):
                return topic_id, topic.name
        for topic_id, gone in state.deleted.items():
            if word in (gone.name, topic_id):
                return topic_id, gone.name
        raise NotThere(f"there is no topic {word} in the store; {_nearest(word, _names(state))}")

    async def _in_topic(self, place: Place, words: list[str]) -> Place:
        if not _is_number(words[0]):
            raise NotThere(f"{place.topic}/{words[0]}: a partition is a number from 0 on")
        place = Place(
            cluster_id=place.cluster_id,
            topic_id=place.topic_id,
            topic=place.topic,
            partition=int(words[0]),
        )
        if not words[1:]:
            return place
        if len(words) == 2 and _is_number(words[1]):
            return await self._at_offset(place, Offset(int(words[1])))
        return _at_key(place, place.keys.full("/".join(words[1:])))

    async def _at_offset(self, place: Place, offset: Offset) -> Place:
        head = await self.head(place)
        where = f"{place.topic}/{place.partition}"
        if not head.log_start <= offset < head.next_offset:
            raise NotThere(
                f"offset {offset} of {where} is not in the store, which has "
                f"{head.log_start} to {head.next_offset - 1}"
                if head.next_offset > head.log_start
                else f"{where} has no records in the store"
            )
        entry = await self.entry_at(place, head, offset)
        if entry is None or not entry.base <= offset:
            raise NotThere(f"offset {offset} of {where} was deleted before it was uploaded")
        return _at_key(place, place.keys.full(entry.key), entry)

    # What lies there

    async def state(self, cluster_id: str) -> ClusterState:
        if cluster_id not in self._states:
            self._states[cluster_id] = await self._read_state(cluster_id)
        return self._states[cluster_id]

    async def _read_state(self, cluster_id: str) -> ClusterState:
        """Where STATE cannot be had: what HEADs say."""
        prefix = cluster_prefix("", cluster_id)
        try:
            return decode_state((await self.store.get(prefix + STATE)).data)
        except (NoSuchObject, ColdCorrupt) as fault:
            state = await rebuilt(self.store, prefix, cluster_id, await survey(self.store, prefix))
            if state is None:
                raise NotThere(
                    f"{STATE} of cluster {cluster_id} cannot be used: {fault}"
                ) from fault
            return state

    async def head(self, place: Place) -> Head:
        """Raises `NotThere` where the partition never published."""
        try:
            got = await self.store.get(place.keys.head)
        except NoSuchObject:
            raise await self._no_head(place) from None
        return codec.decode_head(got.data, key=place.keys.head)

    async def _no_head(self, place: Place) -> NotThere:
        assert place.cluster_id is not None
        where = f"{place.topic}/{place.partition}"
        topic = (await self.state(place.cluster_id)).topics.get(place.topic_id or "")
        if (
            topic is not None
            and place.partition is not None
            and place.partition >= topic.partitions
        ):
            return NotThere(f"{place.topic} has partitions 0 to {topic.partitions - 1}")
        return NotThere(f"{where} has nothing in the store: it never published, or {HEAD} is lost")

    async def entry_at(self, place: Place, head: Head, offset: Offset) -> Entry | None:
        opened: dict[str, Page] = {}
        while isinstance(found := lookup.find(head, offset, opened), PageRef):
            opened[found.key] = await self.page(place, found)
        return found

    async def page(self, place: Place, ref: PageRef) -> Page:
        return codec.open_page(ref, (await self.store.get(place.keys.full(ref.key))).data)

    async def entries(
        self,
        place: Place,
        head: Head,
        *,
        wanted: Callable[[Entry | PageRef], bool] = lambda _: True,
    ) -> AsyncIterator[Entry]:
        """Oldest first, from the log start on; one page in memory at a time. Pages that are not
        `wanted` are not opened."""

        def passes(row: Entry | PageRef) -> bool:
            return row.next_offset > head.log_start and wanted(row)

        for ref in filter(passes, (*head.indexes, *head.leaves)):
            async for entry in self._below(place, ref, passes):
                yield entry
        for entry in filter(passes, head.entries):
            yield entry

    async def _below(
        self, place: Place, ref: PageRef, passes: Callable[[Entry | PageRef], bool]
    ) -> AsyncIterator[Entry]:
        for row in filter(passes, codec.rows_of(await self.page(place, ref))):
            if isinstance(row, PageRef):
                async for entry in self._below(place, row, passes):
                    yield entry
            else:
                yield row

    async def stat(self, place: Place) -> Stat:
        """Raises `NotThere` with the key that comes nearest."""
        assert place.key is not None, "one object"
        try:
            return await self.store.head(place.key)
        except NoSuchObject:
            raise await self._no_object(place.key) from None

    async def _no_object(self, key: str) -> NotThere:
        above, _, name = key.rpartition("/")
        names: list[str] = []
        async for page in self.store.list(f"{above}/"):
            names += (one.key.removeprefix(f"{above}/") for one in page)
            if len(names) >= NEAR_MAX:
                break
        if not names:
            return NotThere(f"there is no object {key}, nor anything else below {above}/")
        close = get_close_matches(name, names, n=1)
        at = min(bisect(names, name), len(names) - 1)
        return NotThere(f"there is no object {key}; nearest is {(close or names[at:])[0]}")


def _at_key(place: Place, key: str, entry: Entry | None = None) -> Place:
    return Place(
        cluster_id=place.cluster_id,
        topic_id=place.topic_id,
        topic=place.topic,
        partition=place.partition,
        key=key,
        entry=entry,
    )


def _names(state: ClusterState) -> list[str]:
    return sorted(topic.name for topic in state.topics.values())


def _nearest(word: str, names: list[str]) -> str:
    close = get_close_matches(word, names, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"there are {_listed(names)}" if names else "it has none"


def _listed(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 19
