"""What HEADs say of the cluster, where STATE does not: its topics, and its lives.

STATE is one object. Where it is gone, cannot be read, or was rolled back, a restore and an audit
look at what is below `t/` instead: every HEAD names its topic, the number of its partitions, its
policy and the life of the cluster that wrote it; where a partition has lost its HEAD the footers of
its segments have the name at least. Other settings of a topic stand in STATE alone.

A topic whose receipt says that it was swept is none: what lies there landed late.

`survey` lists, and is not for a node that serves. `lives_of` does not.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tierlog.cold.agreed import read_agreed
from tierlog.cold.clusteroffsets import decode_offsets
from tierlog.cold.clusterstate import ClusterState, Life, TopicRecord, is_topic_id
from tierlog.cold.codec import decode_head
from tierlog.cold.errors import ColdCorrupt
from tierlog.cold.head import RETENTION_BYTES, RETENTION_MS
from tierlog.cold.layout import (
    OFFSETS,
    SEGMENTS,
    TOPICS,
    PartitionKeys,
    parse_segment_key,
    topic_receipt_key,
)
from tierlog.cold.listing import folders
from tierlog.cold.rebuild import read_footer
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Iterable, Mapping

    from tierlog.cold.head import Head, Incarnation
    from tierlog.env import Tasks
    from tierlog.objectstore.port import Got, ObjectStore

T = TypeVar("T")

READS_AT_ONCE = 16
FOOTERS_MAX = 8
"""Segments that are asked for the name of their topic, before it counts as unknown."""
NAME_CHARACTERS_MAX = 249
"""Kafka's."""


@dataclass(slots=True)
class Survey:
    topics: dict[str, TopicRecord] = field(default_factory=dict)
    """By id; those with something that tells their name. With as many partitions as HEADs say or
    folders show; the settings are those of the policy, if any HEAD has one."""
    counts: dict[str, int] = field(default_factory=dict)
    """By id, of every topic with a folder: one more than the last partition that has anything."""
    lives: dict[Incarnation, str] = field(default_factory=dict)
    """Those that HEADs and OFFSETS name, and by which key."""

    @property
    def latest(self) -> Incarnation | None:
        return max(self.lives, default=None)


async def survey(
    store: ObjectStore,
    prefix: str,
    tasks: Tasks | None = None,
    *,
    spared: Collection[str] | None = None,
) -> Survey:
    """Of the cluster below `prefix`. Of topics that are `spared` only the folders are counted, and
    lives are not looked for then. Raises `NewerFormat`: nothing below may be touched then."""
    found = Survey()
    offsets = None if spared is not None else await _offsets_life(store, prefix, tasks)
    if offsets is not None:
        found.lives[offsets] = prefix + OFFSETS
    async for topic_id in folders(store, prefix + TOPICS):
        if not is_topic_id(topic_id):
            continue
        names = [one async for one in folders(store, f"{prefix}{TOPICS}{topic_id}/")]
        places = [
            PartitionKeys(prefix, topic_id, int(one))
            for one in names
            if one.isascii() and one.isdecimal() and str(int(one)) == one
        ]
        if not places:
            continue
        found.counts[topic_id] = 1 + max(one.partition for one in places)
        if spared is None or topic_id not in spared:
            await _add_topic(store, tasks, places, found)
    return found


async def rebuilt(
    store: ObjectStore, prefix: str, cluster_id: str, found: Survey
) -> ClusterState | None:
    """What can be known of STATE without it, at version 0; None: not even a life is."""
    lives = {one.number: one for one in sorted(found.lives)}
    lineage = tuple(
        Life(lives[number], 0, "serve" if number == 1 else "restore") for number in sorted(lives)
    )
    if not lineage:
        return None
    state = ClusterState(version=0, nonce="", cluster_id=cluster_id, lineage=lineage)
    topics = apart(await unlisted(store, prefix, state, found))
    return replace(state, topics=topics)


async def unlisted(
    store: ObjectStore, prefix: str, state: ClusterState, found: Survey
) -> dict[str, TopicRecord]:
    """Topics that have data, that `state` does not know, and that no receipt tells of."""
    return {
        topic_id: topic
        for topic_id, topic in found.topics.items()
        if topic_id not in state.topics
        and topic_id not in state.deleted
        and not await _exists(store, prefix + topic_receipt_key(topic_id))
    }


def grown(state: ClusterState, found: Survey) -> dict[str, TopicRecord]:
    """Topics of `state` that have data in more partitions than it knows, with as many."""
    return {
        topic_id: replace(topic, partitions=count)
        for topic_id, topic in state.topics.items()
        if (count := found.counts.get(topic_id, 0)) > topic.partitions
    }


def apart(topics: Mapping[str, TopicRecord], taken: Iterable[str] = ()) -> dict[str, TopicRecord]:
    """Each under a name that no other topic has: a topic that was made again under the name of a
    deleted one has another id, and STATE may have forgotten which of them lives."""
    names, chosen = set(taken), {}
    for topic_id, topic in sorted(topics.items()):
        name = topic.name
        if name in names:
            name = f"{topic.name[: NAME_CHARACTERS_MAX - 33]}.{topic_id}"
        names.add(name)
        chosen[topic_id] = replace(topic, name=name)
    return chosen


async def lives_of(
    store: ObjectStore, prefix: str, tasks: Tasks, topics: Mapping[str, TopicRecord]
) -> dict[Incarnation, str]:
    """The lives that OFFSETS and the HEADs of these topics name, and by which key. A restore claims
    OFFSETS first and then every HEAD, so they tell of one that STATE has forgotten."""
    lives: dict[Incarnation, str] = {}
    offsets = await _offsets_life(store, prefix, tasks)
    if offsets is not None:
        lives[offsets] = prefix + OFFSETS
    places = [
        PartitionKeys(prefix, topic_id, index)
        for topic_id, topic in topics.items()
        for index in range(topic.partitions)
    ]
    for keys, head in zip(places, await _heads(store, tasks, places), strict=True):
        if head is not None:
            lives.setdefault(head.incarnation, keys.head)
    return lives


async def _offsets_life(store: ObjectStore, prefix: str, tasks: Tasks | None) -> Incarnation | None:
    try:
        offsets = await read_agreed(
            store, prefix + OFFSETS, lambda got: decode_offsets(got.data), tasks
        )
    except (NoSuchObject, ColdCorrupt):
        return None
    return offsets.incarnation


async def _add_topic(
    store: ObjectStore, tasks: Tasks | None, places: list[PartitionKeys], found: Survey
) -> None:
    topic_id, count = places[0].topic_id, found.counts[places[0].topic_id]
    heads = [one for one in await _heads(store, tasks, places) if one is not None]
    for head in heads:
        keys = PartitionKeys(places[0].cluster_prefix, topic_id, head.partition)
        found.lives.setdefault(head.incarnation, keys.head)
    if heads:
        found.topics[topic_id] = _record(heads, count)
        return
    for keys in places:
        name = await _name_in_segments(store, keys)
        if name is not None:
            found.topics[topic_id] = TopicRecord(name=name, partitions=count)
            return


def _record(heads: list[Head], count: int) -> TopicRecord:
    """What the latest of them say."""
    heads = sorted(heads, key=lambda one: one.published_ms)
    policy = next((one.policy for one in reversed(heads) if one.policy is not None), None)
    configs = {}
    if policy is not None:
        configs = {
            RETENTION_MS: str(policy.retention_ms),
            RETENTION_BYTES: str(policy.retention_bytes),
        }
    return TopicRecord(
        name=heads[-1].topic,
        partitions=max(count, *(one.partition_count for one in heads)),
        configs=configs,
    )


async def _heads(
    store: ObjectStore, tasks: Tasks | None, places: list[PartitionKeys]
) -> list[Head | None]:
    turns = asyncio.Semaphore(READS_AT_ONCE)

    async def in_turn(work: Coroutine[Any, Any, T]) -> T:
        async with turns:
            return await work

    return await asyncio.gather(*(in_turn(_head(store, tasks, keys)) for keys in places))


async def _head(store: ObjectStore, tasks: Tasks | None, keys: PartitionKeys) -> Head | None:
    """None: there is none, or it cannot be read, or it belongs elsewhere."""
    try:
        head = await read_agreed(store, keys.head, partial(_decoded, keys.head), tasks)
    except (NoSuchObject, ColdCorrupt):
        return None
    is_here = (head.topic_id, head.partition) == (keys.topic_id, keys.partition)
    return head if is_here else None


def _decoded(key: str, got: Got) -> Head:
    return decode_head(got.data, key=key)


async def _name_in_segments(store: ObjectStore, keys: PartitionKeys) -> str | None:
    left = FOOTERS_MAX
    async for page in store.list(keys.full(SEGMENTS)):
        for stat in page:
            if parse_segment_key(keys.relative(stat.key) or "") is None:
                continue
            try:
                footer = await read_footer(store, stat.key)
            except (NoSuchObject, ColdCorrupt):
                left -= 1
            else:
                if footer.topic_id == keys.topic_id:
                    return footer.topic
                left -= 1
            if not left:
                return None
    return None


async def _exists(store: ObjectStore, key: str) -> bool:
    try:
        await store.head(key)
    except NoSuchObject:
        return False
    return True
