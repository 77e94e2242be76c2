"""Groups and their offsets, as an operator looks at them and changes them.

Each question goes to the group's coordinator, which is asked for first; while that loads or moves
it is asked again. Offsets are committed as by somebody outside the group: the broker takes that
only while nobody is in it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tierlog.client.connection import Connection
from tierlog.client.errors import BrokerError, check
from tierlog.client.router import Router, call
from tierlog.client.values import TopicPartition
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages import consumer_group_describe as consumers
from tierlog.wire.messages import delete_groups as deleting
from tierlog.wire.messages import describe_groups as describing
from tierlog.wire.messages import find_coordinator as finding
from tierlog.wire.messages import list_groups as listing
from tierlog.wire.messages import offset_commit as committing
from tierlog.wire.messages import offset_fetch as fetching

T = TypeVar("T")

BATCHED_FROM = 4
MANY_FROM = 8
NAMES_UP_TO = 9
"""From the next version on topics are named by their ids."""


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Groups:
    """The part of `Client` that speaks with coordinators."""

    _router: Router

    async def list_groups(self) -> list[listing.ListedGroup]:
        """Of the node that answers; with one node, all."""

        async def once() -> list[listing.ListedGroup]:
            request = listing.ListGroupsRequest(states_filter=[], types_filter=[])
            connection = await self._router.any_connection()
            answer = await call(connection, request, listing.ListGroupsResponse)
            check(answer.error_code)
            return answer.groups

        return await self._router.attempt(once, repeatable=True)

    async def describe_classic_group(self, group: str) -> describing.DescribedGroup:
        """One that nobody knows is Dead, or `GROUP_ID_NOT_FOUND`."""

        async def once(connection: Connection) -> describing.DescribedGroup:
            request = describing.DescribeGroupsRequest(groups=[group])
            answer = await call(connection, request, describing.DescribeGroupsResponse)
            (found,) = answer.groups
            check(found.error_code, found.error_message)
            return found

        return await self._at_coordinator(group, once)

    async def describe_consumer_group(self, group: str) -> consumers.DescribedGroup:
        """Of the protocol of KIP-848."""

        async def once(connection: Connection) -> consumers.DescribedGroup:
            request = consumers.ConsumerGroupDescribeRequest(
                group_ids=[group], include_authorized_operations=False
            )
            answer = await call(connection, request, consumers.ConsumerGroupDescribeResponse)
            (found,) = answer.groups
            check(found.error_code, found.error_message)
            return found

        return await self._at_coordinator(group, once)

    async def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Everything that the group has committed; nothing for one that nobody knows."""

        async def once(connection: Connection) -> dict[TopicPartition, CommittedOffset]:
            asked = fetching.OffsetFetchRequestGroup(group_id=group, topics=None)
            request = fetching.OffsetFetchRequest(groups=[asked])
            version = min(connection.version_of(ApiKey.OFFSET_FETCH), NAMES_UP_TO)
            if version < MANY_FROM:
                request = fetching.OffsetFetchRequest(group_id=group, topics=None)
            answer = await call(connection, request, fetching.OffsetFetchResponse, version=version)
            if version < MANY_FROM:
                check(answer.error_code)
                return _found(answer.topics)
            check(answer.groups[0].error_code)
            return _found(answer.groups[0].topics)

        return await self._at_coordinator(group, once)

    async def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """From outside the group. The first error raises: `UNKNOWN_MEMBER_ID` while somebody is in
        it. The rest may have been taken."""
        by_topic: dict[str, list[committing.OffsetCommitRequestPartition]] = {}
        for place, one in offsets.items():
            by_topic.setdefault(place.topic, []).append(
                committing.OffsetCommitRequestPartition(
                    partition_index=place.partition,
                    committed_offset=one.offset,
                    committed_leader_epoch=one.leader_epoch,
                    committed_metadata=one.metadata,
                )
            )
        request = committing.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                committing.OffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in by_topic.items()
            ],
        )

        async def once(connection: Connection) -> None:
            version = min(connection.version_of(ApiKey.OFFSET_COMMIT), NAMES_UP_TO)
            answer = await call(
                connection, request, committing.OffsetCommitResponse, version=version
            )
            for topic in answer.topics:
                for each in topic.partitions:
                    check(each.error_code, f"{topic.name}-{each.partition_index}")

        await self._at_coordinator(group, once)

    async def delete_group(self, group: str) -> None:
        """With its offsets. Raises `NON_EMPTY_GROUP` while somebody is in it."""

        async def once(connection: Connection) -> None:
            request = deleting.DeleteGroupsRequest(groups_names=[group])
            answer = await call(connection, request, deleting.DeleteGroupsResponse)
            check(answer.results[0].error_code, f"group {group}")

        await self._at_coordinator(group, once)

    async def _at_coordinator(self, group: str, once: Callable[[Connection], Awaitable[T]]) -> T:
        async def work() -> T:
            return await once(await self._coordinator(group))

        # Whatever is asked here may be asked twice: a commit says the same, and what was deleted
        # and is not there any more is told by its caller.
        return await self._router.attempt(work, repeatable=True)

    async def _coordinator(self, group: str) -> Connection:
        connection = await self._router.any_connection()
        is_batched = connection.version_of(ApiKey.FIND_COORDINATOR) >= BATCHED_FROM
        request = finding.FindCoordinatorRequest(
            key="" if is_batched else group, coordinator_keys=[group] if is_batched else []
        )
        answer = await call(connection, request, finding.FindCoordinatorResponse)
        found = answer.coordinators[0] if is_batched else answer
        check(found.error_code, found.error_message)
        if found.node_id not in self._router.cluster.nodes:
            await self._router.ask_metadata([])
        return await self._router.connection_to(found.node_id)


def _found(
    topics: Sequence[fetching.OffsetFetchResponseTopics | fetching.OffsetFetchResponseTopic],
) -> dict[TopicPartition, CommittedOffset]:
    found = {}
    for topic in topics:
        for one in topic.partitions:
            check(one.error_code, f"{topic.name}-{one.partition_index}")
            if one.committed_offset >= 0:
                found[TopicPartition(topic.name, one.partition_index)] = CommittedOffset(
                    one.committed_offset, one.committed_leader_epoch, one.metadata or ""
                )
    return found


def is_unknown_group(error: BrokerError) -> bool:
    return error.code is ErrorCode.GROUP_ID_NOT_FOUND
