"""Metadata, v0-v13. v1: null is all topics, an empty list none; v4 lets the client forbid automatic
creation; v7 leader epochs; v10 topic ids; v12 asks by id; v13 has an error for the whole answer.

An unknown topic is listed with an error, never left out. A topic that may be created is, and the
answer waits for it. The address told is the one that the client used, unless the node advertises
another: it reached us there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of
from tierlog.broker.controller import NewTopic
from tierlog.broker.dispatch import typed
from tierlog.broker.errors import TopicExists, UnknownTopic
from tierlog.broker.topics import check_name
from tierlog.broker.turns import in_turns
from tierlog.errors import TierlogError
from tierlog.metastore import MetaStoreError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tierlog.wire.quirks import SURPLUS_BYTES, asks_for_all_topics_wrongly
from tierlog.wire.schema import NO_UUID

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.broker.request import Answer
    from tierlog.broker.topics import Topic

API: Final = ApiKey.METADATA
VERSIONS: Final = (0, 13)
OPERATIONS_UNKNOWN: Final = -2147483648


def answer(frame: memoryview, position: int, call: Call) -> Answer:
    # librdkafka's all-topics request has four bytes too many; wire/quirks.py tells the story.
    if asks_for_all_topics_wrongly(frame, position, call.version):
        position += SURPLUS_BYTES
    return _answer(frame, position, call)


async def handle(request: MetadataRequest, call: Call) -> MetadataResponse:
    node = call.node
    if request.topics is None or (call.version == 0 and not request.topics):
        topics = [described(topic, call) async for topic in in_turns(node.topics)]
    else:
        may_create = request.allow_auto_topic_creation and node.settings.auto_create_topics_enable
        topics = [
            await asked(wanted, call, may_create=may_create)
            async for wanted in in_turns(request.topics)
        ]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=host, port=port)
            for host, port in (node.address_for(call.peer),)
        ],
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        topics=topics,
    )


_answer: Final = typed(handle, API)


async def asked(
    wanted: MetadataRequestTopic, call: Call, *, may_create: bool
) -> MetadataResponseTopic:
    """One topic of the request."""
    topics = call.node.topics
    try:
        if wanted.topic_id != NO_UUID:
            return described(topics.with_id(wanted.topic_id), call)
        if wanted.name is None:
            return unknown(wanted, ErrorCode.INVALID_REQUEST)
        if may_create and wanted.name not in topics.by_name:
            await create(wanted.name, call)
        return described(topics.named(wanted.name), call)
    except UnknownTopic as error:
        return unknown(wanted, invalid_name(wanted.name or "") or code_of(error))
    except MetaStoreError:
        # The topic cannot be created now; clients ask again after this one.
        return unknown(wanted, ErrorCode.LEADER_NOT_AVAILABLE)
    except TierlogError as error:
        return unknown(wanted, code_of(error))


def invalid_name(name: str) -> ErrorCode | None:
    try:
        check_name(name)
    except TierlogError as error:
        return code_of(error)
    return None


async def create(name: str, call: Call) -> None:
    try:
        await call.node.controller.create(NewTopic(name=name))
    except TopicExists:
        return  # Another client asked at the same moment.


def described(topic: Topic, call: Call) -> MetadataResponseTopic:
    node_id = call.node.node_id
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                error_code=0,
                partition_index=partition.index,
                leader_id=node_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=[node_id],
                isr_nodes=[node_id],
            )
            for partition in topic.partitions
        ],
    )


def unknown(wanted: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    by_id = wanted.topic_id != NO_UUID
    return MetadataResponseTopic(
        error_code=code,
        name=None if by_id else wanted.name or "",
        topic_id=wanted.topic_id,
        partitions=[],
    )
