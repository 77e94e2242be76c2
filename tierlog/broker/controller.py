"""Changes to topics: checked here, decided by a transaction of the metastore.

Each change returns once this node acts on it. Two changes that meet are settled by the revisions
they compare: the loser looks again and is refused, or tries once more, as if it had come later.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tierlog.broker.errors import (
    Contended,
    InternalTopic,
    InvalidAssignment,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicName,
    PolicyViolation,
    TopicDeletionDisabled,
    TopicExists,
    UnknownTopic,
)
from tierlog.broker.topics import INTERNAL, Topic, check_name, collides_with
from tierlog.config import altered, check_change, topic_config
from tierlog.config.errors import InvalidConfig
from tierlog.metastore import Compare, Delete, Put, values
from tierlog.metastore.values import DeletedState, PartitionState, TopicState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tierlog.broker.catalogue import Catalogue
    from tierlog.broker.space import Space
    from tierlog.config import Change, NodeSettings, TopicConfig
    from tierlog.env import Rng
    from tierlog.metastore import MetaStore

PARTITIONS_MAX = 10_000
"""In one topic, and so in one request: each is a directory with files."""

TRIES = 5
FIRST_LEADER_EPOCH = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """What somebody asks for; -1 means the node's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: dict[int, list[int]] = field(default_factory=dict)
    """Replicas by partition, where the client chose them itself."""
    configs: dict[str, str] = field(default_factory=dict)
    is_internal: bool = False
    """Asked for by the node itself, for its own state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """How a topic came out, or would."""

    name: str
    id: bytes
    partitions: int
    replication_factor: int
    config: TopicConfig


class Controller:
    def __init__(
        self,
        metastore: MetaStore,
        catalogue: Catalogue,
        settings: NodeSettings,
        *,
        rng: Rng,
        space: Space,
    ) -> None:
        self._metastore = metastore
        self._catalogue = catalogue
        self._settings = settings
        self._rng = rng
        self._space = space
        self._coming_count = 0
        """Partitions that are being created, and not yet counted by the catalogue."""

    # Topics

    async def create(self, wanted: NewTopic, *, validate_only: bool = False) -> CreatedTopic:
        """Make a topic. Raises what is wrong with the wish."""
        count = self._check_new(wanted)
        config = topic_config(wanted.configs, self._settings)
        topic_id = self._rng.uuid().bytes
        made = CreatedTopic(
            name=wanted.name, id=topic_id, partitions=count, replication_factor=1, config=config
        )
        if validate_only:
            return made
        topic = TopicState(name=wanted.name, configs=wanted.configs)
        with self._room_for(count):
            result = await self._metastore.txn(
                [Compare(values.name_key(wanted.name), 0)],
                [
                    Put(values.name_key(wanted.name), topic_id.hex().encode()),
                    Put(values.topic_key(topic_id), topic.to_bytes()),
                    *self._new_partitions(topic_id, range(count)),
                ],
            )
            # Also for the one who comes second: who hears that the topic exists may use it.
            await self._catalogue.applied(result.revision, name=wanted.name)
        if not result.succeeded:
            raise TopicExists(wanted.name)
        return made

    @contextmanager
    def _room_for(self, count: int) -> Iterator[None]:
        """Hold so many of the node's partitions until they are there."""
        most = self._settings.tierlog_partitions_max
        if self._catalogue.partition_count + self._coming_count + count > most:
            raise PolicyViolation(
                f"{count} more partitions would be more than the {most} that this node holds "
                "(tierlog.partitions.max)"
            )
        self._coming_count += count
        try:
            yield
        finally:
            self._coming_count -= count

    def _check_new(self, wanted: NewTopic) -> int:
        """The number of partitions, if everything but the settings is right."""
        self._space.check()
        check_name(wanted.name)
        if wanted.name in INTERNAL and not wanted.is_internal:
            raise InternalTopic(wanted.name)
        names = self._catalogue.topics.by_name
        if wanted.name in names:
            raise TopicExists(wanted.name)
        if (other := collides_with(wanted.name, names)) is not None:
            raise InvalidTopicName(
                f"topic {wanted.name!r} differs from {other!r} only in '.' and '_', which metrics "
                "cannot tell apart"
            )
        if wanted.assignments:
            return self._check_assignments(wanted)
        if wanted.replication_factor not in (-1, 1):
            raise InvalidReplicationFactor(
                f"{wanted.replication_factor} replicas are asked for, and there is one node"
            )
        count = self._settings.num_partitions if wanted.partitions == -1 else wanted.partitions
        if not 0 < count <= PARTITIONS_MAX:
            raise InvalidPartitions(
                f"a topic has 1 to {PARTITIONS_MAX} partitions; {count} are asked for"
            )
        return count

    def _check_assignments(self, wanted: NewTopic) -> int:
        """A manual assignment names every partition from 0 on, and this node as its replica."""
        if wanted.partitions != -1 or wanted.replication_factor != -1:
            raise InvalidRequest(
                "a manual assignment already says how many partitions and replicas there are; "
                "leave both numbers at -1"
            )
        self._check_replicas(wanted.assignments, first=0)
        return len(wanted.assignments)

    def _check_replicas(self, assignments: dict[int, list[int]], *, first: int) -> None:
        expected = list(range(first, first + len(assignments)))
        if sorted(assignments) != expected:
            raise InvalidAssignment(
                f"partitions {sorted(assignments)} are assigned; they must be numbered from {first}"
            )
        if len(assignments) > PARTITIONS_MAX:
            raise InvalidPartitions(f"a topic has at most {PARTITIONS_MAX} partitions")
        for index, replicas in assignments.items():
            if replicas != [self._settings.node_id]:
                raise InvalidAssignment(
                    f"partition {index} is assigned to nodes {replicas}; "
                    f"the only node is {self._settings.node_id}"
                )

    def _new_partitions(self, topic_id: bytes, indexes: range) -> list[Put]:
        node = self._settings.node_id
        value = PartitionState(
            replicas=(node,), isr=(node,), leader=node, leader_epoch=FIRST_LEADER_EPOCH
        ).to_bytes()
        return [Put(values.partition_key(topic_id, index), value) for index in indexes]

    async def delete(self, topic: Topic) -> None:
        """Nobody finds the topic any more when this returns; its files go after that."""
        if not self._settings.delete_topic_enable:
            raise TopicDeletionDisabled("delete.topic.enable is false on this cluster")
        if topic.is_internal:
            raise InternalTopic(topic.name)  # Every group's offsets would go with it.
        tiering = self._catalogue.tiering
        async with nullcontext() if tiering is None else tiering.holds.none_on(topic):
            await self._delete(topic)

    async def _delete(self, topic: Topic) -> None:
        key = values.topic_key(topic.id)
        for _ in range(TRIES):
            known = await self._metastore.get(key)
            if known is None:
                return  # Somebody else was quicker; what was asked for has happened.
            # Partitions that were added a moment ago must be seen here, or they would stay behind.
            await self._catalogue.applied(known.revision, name=topic.name)
            gone = DeletedState(name=topic.name, partitions=len(topic.partitions))
            result = await self._metastore.txn(
                [Compare(key, known.revision)],
                [
                    Put(values.deleted_key(topic.id), gone.to_bytes()),
                    Delete(key),
                    Delete(values.name_key(topic.name)),
                    *(
                        Delete(values.partition_key(topic.id, one.index))
                        for one in topic.partitions
                    ),
                ],
            )
            if result.succeeded:
                await self._catalogue.applied(result.revision)
                return
        raise Contended(topic.name)

    async def add_partitions(
        self,
        topic: Topic,
        count: int,
        *,
        assignments: list[list[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise the number of partitions to `count`."""
        if topic.is_internal:
            raise InternalTopic(topic.name)  # Its number says where a group's state is.
        for _ in range(TRIES):
            self._check_more(topic, count, assignments)
            if validate_only or await self._put_partitions(topic, count):
                return
        raise Contended(topic.name)

    def _check_more(self, topic: Topic, count: int, assignments: list[list[int]] | None) -> None:
        self._space.check()
        present = len(topic.partitions)
        if count <= present:
            raise InvalidPartitions(
                f"topic {topic.name!r} has {present} partitions; the number can only rise, "
                f"and {count} are asked for"
            )
        if count > PARTITIONS_MAX:
            raise InvalidPartitions(f"a topic has at most {PARTITIONS_MAX} partitions")
        if assignments is None:
            return
        if len(assignments) != count - present:
            raise InvalidAssignment(
                f"{count - present} partitions are new, {len(assignments)} are assigned"
            )
        self._check_replicas(dict(enumerate(assignments, present)), first=present)

    async def _put_partitions(self, topic: Topic, count: int) -> bool:
        """False if somebody changed the topic meanwhile: look again."""
        new = self._new_partitions(topic.id, range(len(topic.partitions), count))
        known = await self._metastore.get(values.topic_key(topic.id))
        if known is None:
            raise UnknownTopic(topic.name)
        # The topic itself is written again, so that a deletion meanwhile is noticed, and so that
        # two who add partitions at once do not both think they were alone.
        with self._room_for(len(new)):
            result = await self._metastore.txn(
                [Compare(known.key, known.revision), Compare(new[0].key, 0)],
                [Put(known.key, known.value), *new],
            )
            await self._catalogue.applied(result.revision, name=topic.name)
        return result.succeeded

    async def config_of(self, topic_id: bytes) -> TopicConfig | None:
        """As the metastore has it now, whatever this node has heard; None: it is gone."""
        known = await self._metastore.get(values.topic_key(topic_id))
        if known is None:
            return None
        return topic_config(TopicState.from_bytes(known.value).configs, self._settings)

    async def alter(
        self, topic: Topic, changes: Sequence[Change], *, validate_only: bool = False
    ) -> None:
        """Change overrides one by one."""
        for _ in range(TRIES):
            overrides = altered(topic.overrides, changes)
            if await self._put_overrides(topic, overrides, validate_only=validate_only):
                return
        raise Contended(topic.name)

    async def replace_configs(
        self, topic: Topic, configs: dict[str, str], *, validate_only: bool = False
    ) -> None:
        """Make these the only overrides (AlterConfigs)."""
        for _ in range(TRIES):
            if await self._put_overrides(topic, configs, validate_only=validate_only):
                return
        raise Contended(topic.name)

    async def _put_overrides(
        self, topic: Topic, overrides: dict[str, str], *, validate_only: bool
    ) -> bool:
        """False if somebody changed the topic meanwhile: look again."""
        base = topic.overrides
        config = topic_config(overrides, self._settings)
        check_change(topic.config, config)
        if topic.is_internal and config.cleanup_policy != {"compact"}:
            # Its state is read from the local log, where the last record of a key stays for good.
            raise InvalidConfig("cleanup.policy", f"{topic.name} stays compacted, and nothing else")
        if validate_only:
            return True
        key = values.topic_key(topic.id)
        known = await self._metastore.get(key)
        if known is None:
            raise UnknownTopic(topic.name)
        if TopicState.from_bytes(known.value).configs != base:
            await self._catalogue.applied(known.revision)
            return False
        value = TopicState(name=topic.name, configs=overrides).to_bytes()
        result = await self._metastore.txn([Compare(key, known.revision)], [Put(key, value)])
        await self._catalogue.applied(result.revision)
        return result.succeeded
