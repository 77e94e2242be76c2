"""Topics, configs, the cluster: what operators and tests change and look at.

Changes are tried again while the broker says no in a retriable way; a change whose outcome is
unknown is left to the caller, who can look. Looking is repeated freely.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import TypeVar

from tierlog.client.connection import Connection
from tierlog.client.errors import check
from tierlog.client.router import Router, call
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages import create_partitions as parts
from tierlog.wire.messages import create_topics as creates
from tierlog.wire.messages import delete_records as trims
from tierlog.wire.messages import delete_topics as deletes
from tierlog.wire.messages import describe_cluster as clusters
from tierlog.wire.messages import describe_configs as configs
from tierlog.wire.messages import describe_log_dirs as dirs
from tierlog.wire.messages import incremental_alter_configs as alters
from tierlog.wire.schema import NO_UUID

T = TypeVar("T")

TOPIC_IDS_FROM = 6
"""The first version of DeleteTopics that takes structs."""


class Resource(IntEnum):
    """What a config belongs to; the numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Admin:
    """The part of `Client` that changes and describes the cluster."""

    _router: Router

    async def create_topics(
        self,
        names: Sequence[str] | str,
        *,
        partitions: int = -1,
        replicas: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
        timeout_ms: int = 30_000,
    ) -> dict[str, creates.CreatableTopicResult]:
        """Make topics that are alike; -1 leaves a number to the broker. The first error raises."""
        wished = [
            creates.CreatableTopicConfig(name=name, value=value)
            for name, value in (configs or {}).items()
        ]
        request = creates.CreateTopicsRequest(
            topics=[
                creates.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replicas,
                    assignments=[],
                    configs=wished,
                )
                for name in _several(names)
            ],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )

        async def once(connection: Connection) -> dict[str, creates.CreatableTopicResult]:
            answer = await call(connection, request, creates.CreateTopicsResponse)
            for each in answer.topics:
                check(each.error_code, each.error_message)
            return {each.name: each for each in answer.topics}

        return await self._change(once)

    async def delete_topics(self, names: Sequence[str] | str, *, timeout_ms: int = 30_000) -> None:
        async def once(connection: Connection) -> None:
            version = connection.version_of(ApiKey.DELETE_TOPICS)
            request = _delete_request(_several(names), version, timeout_ms)
            answer = await call(connection, request, deletes.DeleteTopicsResponse, version=version)
            for each in answer.responses:
                check(each.error_code, each.error_message)

        await self._change(once)
        for name in _several(names):
            self._router.cluster.doubt(name)

    async def create_partitions(
        self, topic: str, count: int, *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> None:
        """Give the topic more partitions, `count` in all."""
        request = parts.CreatePartitionsRequest(
            topics=[parts.CreatePartitionsTopic(name=topic, count=count, assignments=None)],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )

        async def once(connection: Connection) -> None:
            answer = await call(connection, request, parts.CreatePartitionsResponse)
            for each in answer.results:
                check(each.error_code, each.error_message)

        await self._change(once)
        self._router.cluster.doubt(topic)

    async def describe_configs(
        self,
        name: str,
        *,
        resource: Resource = Resource.TOPIC,
        keys: Sequence[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[str, configs.DescribeConfigsResourceResult]:
        """The configs of a topic, or of a broker by its id, by name."""

        async def once() -> dict[str, configs.DescribeConfigsResourceResult]:
            connection = await self._owner(resource, name)
            version = connection.version_of(ApiKey.DESCRIBE_CONFIGS)
            request = configs.DescribeConfigsRequest(
                resources=[
                    configs.DescribeConfigsResource(
                        resource_type=resource,
                        resource_name=name,
                        configuration_keys=None if keys is None else list(keys),
                    )
                ],
                include_synonyms=synonyms,
                include_documentation=documentation and version >= 3,
            )
            answer = await call(
                connection, request, configs.DescribeConfigsResponse, version=version
            )
            for each in answer.results:
                check(each.error_code, each.error_message)
            return {entry.name: entry for each in answer.results for entry in each.configs}

        return await self._router.attempt(once, repeatable=True)

    async def alter_configs(
        self,
        name: str,
        *,
        resource: Resource = Resource.TOPIC,
        set: Mapping[str, str] | None = None,
        delete: Sequence[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change configs one by one (IncrementalAlterConfigs); the others stay as they are."""
        changes = [
            *_changes(Operation.SET, set or {}),
            *_changes(Operation.DELETE, dict.fromkeys(delete)),
            *_changes(Operation.APPEND, append or {}),
            *_changes(Operation.SUBTRACT, subtract or {}),
        ]
        request = alters.IncrementalAlterConfigsRequest(
            resources=[
                alters.AlterConfigsResource(
                    resource_type=resource, resource_name=name, configs=changes
                )
            ],
            validate_only=validate_only,
        )

        async def once() -> None:
            connection = await self._owner(resource, name)
            answer = await call(connection, request, alters.IncrementalAlterConfigsResponse)
            for each in answer.responses:
                check(each.error_code, each.error_message)

        await self._router.attempt(once, repeatable=False)

    async def delete_records(
        self, topic: str, offsets: Mapping[int, int], *, timeout_ms: int = 30_000
    ) -> dict[int, int]:
        """Move log start offsets up, -1 meaning the high watermark; returns the new ones.

        Repeatable: a log start never moves back.
        """

        async def once() -> dict[int, int]:
            info = await self._router.topic(topic)
            starts: dict[int, int] = {}
            for node in sorted({info.leader_of(each).leader for each in offsets}):
                led = {p: at for p, at in offsets.items() if info.leader_of(p).leader == node}
                connection = await self._router.connection_to(node)
                request = _trim_request(topic, led, timeout_ms)
                answer = await call(connection, request, trims.DeleteRecordsResponse)
                for found in answer.topics:
                    for each in found.partitions:
                        check(each.error_code, f"{topic}-{each.partition_index}")
                        starts[each.partition_index] = each.low_watermark
            return starts

        return await self._router.attempt(once, topic=topic, repeatable=True)

    async def describe_cluster(self) -> clusters.DescribeClusterResponse:
        request = clusters.DescribeClusterRequest(include_cluster_authorized_operations=False)

        async def once() -> clusters.DescribeClusterResponse:
            connection = await self._router.any_connection()
            answer = await call(connection, request, clusters.DescribeClusterResponse)
            check(answer.error_code, answer.error_message)
            return answer

        return await self._router.attempt(once, repeatable=True)

    async def describe_log_dirs(self, node: int | None = None) -> list[dirs.DescribeLogDirsResult]:
        """The log directories of a node, by default of any."""

        async def once() -> list[dirs.DescribeLogDirsResult]:
            router = self._router
            if node is not None and node not in router.cluster.nodes:
                await router.ask_metadata([])
            connection = await (
                router.any_connection() if node is None else router.connection_to(node)
            )
            request = dirs.DescribeLogDirsRequest(topics=None)
            answer = await call(connection, request, dirs.DescribeLogDirsResponse)
            check(answer.error_code)
            return answer.results

        return await self._router.attempt(once, repeatable=True)

    async def _change(self, once: Callable[[Connection], Awaitable[T]]) -> T:
        async def work() -> T:
            return await once(await self._router.controller())

        return await self._router.attempt(work, repeatable=False)

    async def _owner(self, resource: Resource, name: str) -> Connection:
        """A broker speaks for its own configs; anybody for a topic's."""
        if resource is not Resource.BROKER or not name:
            return await self._router.any_connection()
        if int(name) not in self._router.cluster.nodes:
            await self._router.ask_metadata([])
        return await self._router.connection_to(int(name))


def _several(names: Sequence[str] | str) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _delete_request(
    names: Sequence[str], version: int, timeout_ms: int
) -> deletes.DeleteTopicsRequest:
    if version < TOPIC_IDS_FROM:
        return deletes.DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
    topics = [deletes.DeleteTopicState(name=name, topic_id=NO_UUID) for name in names]
    return deletes.DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)


def _changes(
    operation: Operation, values: Mapping[str, str] | Mapping[str, None]
) -> list[alters.AlterableConfig]:
    return [
        alters.AlterableConfig(name=name, config_operation=operation, value=value)
        for name, value in values.items()
    ]


def _trim_request(
    topic: str, offsets: Mapping[int, int], timeout_ms: int
) -> trims.DeleteRecordsRequest:
    partitions = [
        trims.DeleteRecordsPartition(partition_index=partition, offset=offset)
        for partition, offset in offsets.items()
    ]
    topics = [trims.DeleteRecordsTopic(name=topic, partitions=partitions)]
    return trims.DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)
