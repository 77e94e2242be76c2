"""What lies in the bucket of a cluster and is referred to by nobody: a report, nothing is changed.

Made from the bucket alone, beside nodes that may be at work: an object that is younger than a day
may be on its way into a manifest, and is only counted. A manifest is read before the listing and
again behind it, so that what was published in between is no finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierlog.cold.clusterstate import decode_state
from tierlog.cold.codec import decode_head
from tierlog.cold.errors import ColdError
from tierlog.cold.layout import STATE, TOPICS, PartitionKeys
from tierlog.cold.listing import folders
from tierlog.cold.orphans import Manifest, is_old, look_at
from tierlog.cold.tiersettings import DAY_MS
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.cold.clusterstate import ClusterState
    from tierlog.cold.head import Head
    from tierlog.cold.orphans import Orphan
    from tierlog.objectstore.port import ObjectStore, Upload


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOrphans:
    topic: str
    partition: int
    objects: int
    """In all."""
    bytes: int
    orphans: tuple[Orphan, ...]
    """Old enough."""
    more: int = 0
    """Beyond those, of any age."""
    young: int = 0
    """Not known by the manifest either, and younger than a day."""
    strange: int = 0
    """Called like nothing of ours."""
    problem: str = ""
    """Why nothing can be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A deleted topic that is not swept yet."""

    topic: str
    topic_id: str
    deleted_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanReport:
    cluster_id: str
    now_ms: int
    partitions: tuple[PartitionOrphans, ...]
    unknown: tuple[str, ...]
    """Topic ids with objects that STATE does not know."""
    waiting: tuple[Waiting, ...]
    uploads: tuple[Upload, ...]
    """Multipart uploads that were begun and neither completed nor aborted, of any age."""


async def report(
    store: ObjectStore, prefix: str, *, now_ms: int, age_ms: int = DAY_MS
) -> OrphanReport:
    """`prefix`: the cluster's own. Raises `NoSuchObject` where there is no STATE."""
    state = await _state(store, prefix)
    names = [name async for name in folders(store, prefix + TOPICS)]
    partitions = [
        await _partition(store, prefix, topic_id, index, topic.name, now_ms=now_ms, age_ms=age_ms)
        for topic_id, topic in state.topics.items()
        for index in range(topic.partitions if topic_id in names else 0)
    ]
    unknown = await _unknown(store, prefix, names, state)
    return OrphanReport(
        cluster_id=state.cluster_id,
        now_ms=now_ms,
        partitions=tuple(sorted(partitions, key=lambda one: (one.topic, one.partition))),
        unknown=unknown,
        waiting=tuple(
            Waiting(topic=one.name, topic_id=key, deleted_ms=one.deleted_ms)
            for key, one in state.deleted.items()
        ),
        uploads=tuple([one async for page in store.list_uploads(prefix) for one in page]),
    )


async def _state(store: ObjectStore, prefix: str) -> ClusterState:
    return decode_state((await store.get(prefix + STATE)).data)


async def _unknown(
    store: ObjectStore, prefix: str, names: Sequence[str], state: ClusterState
) -> tuple[str, ...]:
    """A topic that was made after STATE was read is found when it is read again."""
    found = [one for one in names if one not in state.topics and one not in state.deleted]
    if found:
        state = await _state(store, prefix)
    return tuple(one for one in found if one not in state.topics and one not in state.deleted)


async def _partition(
    store: ObjectStore,
    prefix: str,
    topic_id: str,
    index: int,
    topic: str,
    *,
    now_ms: int,
    age_ms: int,
) -> PartitionOrphans:
    keys = PartitionKeys(prefix, topic_id, index)
    try:
        look = await look_at(store, keys, await _head(store, keys), paid=_nothing)
        manifest = Manifest(store, keys, await _head(store, keys)) if look.orphans else None
        unknown = [one for one in look.orphans if manifest and not await manifest.knows(one.key)]
    except (ColdError, NoSuchObject) as fault:
        return PartitionOrphans(
            topic=topic, partition=index, objects=0, bytes=0, orphans=(), problem=str(fault)
        )
    old = [one for one in unknown if is_old(one, now_ms=now_ms, age_ms=age_ms)]
    return PartitionOrphans(
        topic=topic,
        partition=index,
        objects=look.objects,
        bytes=look.bytes,
        orphans=tuple(old),
        more=look.more,
        young=len(unknown) - len(old),
        strange=look.strange,
    )


async def _head(store: ObjectStore, keys: PartitionKeys) -> Head | None:
    try:
        return decode_head((await store.get(keys.head)).data, key=keys.head)
    except NoSuchObject:
        return None


async def _nothing() -> None:
    """A command goes as fast as the store answers, one request at a time."""
