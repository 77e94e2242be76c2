"""Metadata, v0-v13. v1: null is all topics, an empty list none; v4 lets the client forbid automatic
creation; v7 leader epochs; v10 topic ids; v12 asks by id; v13 has an error for the whole answer.

An unknown topic is listed with an error, never left out; one that is named twice is listed once. A
topic that may be created is, and the answer waits for it, though not for ever. The address told is
the one that the client used, unless the node advertises another: it reached us there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of
from tierlog.broker.controller import NewTopic
from tierlog.broker.deadline import Deadline
from tierlog.broker.errors import RequestTimedOut, TopicExists, UnknownTopic
from tierlog.broker.limits import REQUEST_ELEMENTS_MAX
from tierlog.broker.topics import check_name
from tierlog.broker.turns import Turns
from tierlog.errors import TierlogError
from tierlog.metastore import MetaStoreError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.codec import decode_whole
from tierlog.wire.described import FLEXIBLE_FROM, encode_led, encode_metadata, encode_topic
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.header import framed_response
from tierlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from tierlog.wire.quirks import SURPLUS_BYTES, asks_for_all_topics_wrongly
from tierlog.wire.schema import NO_UUID

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.broker.request import Answer, Parts
    from tierlog.broker.topics import Topic
    from tierlog.types import Bytes

API: Final = ApiKey.METADATA
VERSIONS: Final = (0, 13)
PARTITIONS_A_TURN: Final = 5000
"""Described in one go: some 3 ms."""
TOPIC_COST: Final = 20
"""What a topic takes beside its partitions, in partitions."""
CREATING_MS_MAX: Final = 5000
"""How long an answer waits for topics that are created for it."""


def answer(frame: memoryview, position: int, call: Call) -> Answer:
    # librdkafka's all-topics request has four bytes too many; wire/quirks.py tells the story.
    if asks_for_all_topics_wrongly(frame, position, call.version):
        position += SURPLUS_BYTES
    request = decode_whole(
        MetadataRequest, call.version, frame, position, elements_max=REQUEST_ELEMENTS_MAX
    )
    may_create = request.allow_auto_topic_creation and call.node.settings.auto_create_topics_enable
    work = Asked(call, may_create=may_create).answer(request)
    return call.node.env.tasks.spawn(work, name=API.name)


class Asked:
    """One request on its way to its answer."""

    __slots__ = ("_call", "_deadline", "_is_late", "_may_create", "_parts", "_turns")

    def __init__(self, call: Call, *, may_create: bool) -> None:
        self._call = call
        self._may_create = may_create
        self._deadline = Deadline(call.node.env, CREATING_MS_MAX)
        self._is_late = False
        self._parts: list[Bytes] = []
        self._turns = Turns(PARTITIONS_A_TURN)

    async def answer(self, request: MetadataRequest) -> Parts:
        node, version = self._call.node, self._call.version
        if request.topics is None or (version == 0 and not request.topics):
            topics = list(node.topics)
            for topic in topics:
                await self._describe(topic)
            count = len(topics)
        else:
            wanted = {(one.topic_id, one.name): one for one in request.topics}
            for one in wanted.values():
                await self._look_for(one)
            count = len(wanted)
        host, port = node.address_for(self._call.peer)
        response = MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=node.node_id, host=host, port=port)],
            cluster_id=node.cluster_id,
            controller_id=node.node_id,
            topics=[],
        )
        return framed_response(
            encode_metadata(response, version, topic_count=count, topics=self._parts),
            correlation_id=self._call.correlation_id,
            flexible=version >= FLEXIBLE_FROM,
        )

    async def _look_for(self, wanted: MetadataRequestTopic) -> None:
        """One topic of the request."""
        topics = self._call.node.topics
        try:
            if wanted.topic_id != NO_UUID:
                topic = topics.with_id(wanted.topic_id)
            elif wanted.name is None:
                return await self._refuse(wanted, ErrorCode.INVALID_REQUEST)
            else:
                if self._may_create and wanted.name not in topics.by_name:
                    await self._create(wanted.name)
                topic = topics.named(wanted.name)
        except UnknownTopic as error:
            await self._refuse(wanted, invalid_name(wanted.name or "") or code_of(error))
        except (MetaStoreError, RequestTimedOut):
            # The topic cannot be created now; clients ask again after this one.
            await self._refuse(wanted, ErrorCode.LEADER_NOT_AVAILABLE)
        except TierlogError as error:
            await self._refuse(wanted, code_of(error))
        else:
            await self._describe(topic)

    async def _create(self, name: str) -> None:
        if self._is_late:
            raise RequestTimedOut(f"{name}: topics named before took all the time")
        creation = self._call.node.controller.create(NewTopic(name=name))
        try:
            await self._deadline.wait(creation, what=f"creation of {name}")
        except TopicExists:
            return  # Another client asked at the same moment.
        except RequestTimedOut:
            self._is_late = True
            raise

    async def _describe(self, topic: Topic) -> None:
        version, node_id = self._call.version, self._call.node.node_id
        epochs = [partition.leader_epoch for partition in topic.partitions]
        led: list[Bytes] = []
        for first in range(0, len(epochs), PARTITIONS_A_TURN):
            some = epochs[first : first + PARTITIONS_A_TURN]
            led.append(encode_led(version, node_id, some, first=first))
            await self._turns.spend(len(some))
        self._parts += encode_topic(
            version,
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.is_internal,
            partition_count=len(epochs),
            partitions=led,
        )
        await self._turns.spend(TOPIC_COST)

    async def _refuse(self, wanted: MetadataRequestTopic, code: ErrorCode) -> None:
        name = None if wanted.topic_id != NO_UUID else wanted.name or ""
        self._parts += encode_topic(
            self._call.version, name=name, topic_id=wanted.topic_id, error_code=code
        )
        await self._turns.spend(TOPIC_COST)


def invalid_name(name: str) -> ErrorCode | None:
    try:
        check_name(name)
    except TierlogError as error:
        return code_of(error)
    return None
