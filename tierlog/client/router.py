"""Takes requests to the node that can answer them.

Holds the picture of the cluster and the connections. A picture that proves wrong is taken anew;
metadata is asked from whichever node answers, known ones first, then the bootstrap addresses.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tierlog.client.cluster import LEADER_CODES, NOBODY, Cluster, TopicInfo
from tierlog.client.connection import Connection
from tierlog.client.errors import (
    BrokerError,
    ClientError,
    NotConnected,
    OutcomeUnknown,
    check,
)
from tierlog.client.pool import CONTROL, Address, Pool
from tierlog.client.retry import Retry
from tierlog.client.settings import ClientSettings
from tierlog.env import Clock, Rng
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tierlog.wire.schema import Request, Response

R = TypeVar("R", bound=Response)
T = TypeVar("T")

UNREACHED = "no node could be reached"
"""What an error begins with when every address refused; the refusals follow."""


class Router:
    """See the module."""

    def __init__(
        self, bootstrap: Sequence[Address], *, clock: Clock, rng: Rng, settings: ClientSettings
    ) -> None:
        if not bootstrap:
            raise ValueError("a client needs an address to begin with")
        self.cluster = Cluster()
        self.clock = clock
        self.rng = rng
        self.settings = settings
        self._bootstrap = list(bootstrap)
        self._pool = Pool(settings)
        self._asking = asyncio.Lock()

    async def close(self) -> None:
        await self._pool.close()

    def retry(self, deadline_s: float | None = None) -> Retry:
        settings = self.settings
        return Retry(
            self.clock,
            self.rng,
            seconds=settings.deadline_s if deadline_s is None else deadline_s,
            pause_s=settings.backoff_s,
            pause_s_max=settings.backoff_max_s,
        )

    # Connections

    async def any_connection(self) -> Connection:
        """To some node: an open one if there is one."""
        addresses = self._addresses()
        for address in addresses:
            if (connection := self._pool.find(address)) is not None:
                return connection
        refusals = []
        for address in addresses:
            try:
                return await self._pool.get(address)
            except NotConnected as error:
                refusals.append(str(error))
        raise NotConnected(f"{UNREACHED}: " + "; ".join(refusals))

    def _addresses(self) -> list[Address]:
        """Each once, known nodes in a drawn order first."""
        nodes = sorted(self.cluster.nodes.values())
        if nodes:
            turn = self.rng.randrange(len(nodes))
            nodes = nodes[turn:] + nodes[:turn]
        return list(dict.fromkeys([*nodes, *self._bootstrap]))

    async def connection_to(self, node: int, lane: str = CONTROL) -> Connection:
        address = self.cluster.nodes.get(node)
        if address is None:
            raise NotConnected(f"node {node} is not known")
        return await self._pool.get(address, lane)

    async def controller(self) -> Connection:
        if self.cluster.controller == NOBODY:
            await self.ask_metadata([])
        if self.cluster.controller == NOBODY:
            return await self.any_connection()
        return await self.connection_to(self.cluster.controller)

    # Metadata

    async def ask_metadata(self, topics: Sequence[str] | None) -> MetadataResponse:
        """Ask once, from any node, and take over what it says. None asks for all topics."""
        names = None if topics is None else [_asked(name) for name in topics]
        request = MetadataRequest(
            topics=names, allow_auto_topic_creation=self.settings.auto_create_topics
        )
        answer = await call(await self.any_connection(), request, MetadataResponse)
        check(answer.error_code)
        self.cluster.take(answer, now=self.clock.monotonic())
        return answer

    async def topic(self, name: str) -> TopicInfo:
        """What is known of a topic, asked if it is not known or old. One attempt."""
        if (known := self._fresh(name)) is not None:
            return known
        async with self._asking:  # Whoever waited here finds what the one before has learned.
            if (known := self._fresh(name)) is not None:
                return known
            answer = await self.ask_metadata([name])
        for topic in answer.topics:
            if topic.name == name:
                check(topic.error_code, f"topic {name}")
        if (known := self.cluster.topics.get(name)) is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}")
        return known

    def _fresh(self, name: str) -> TopicInfo | None:
        known = None if name in self.cluster.doubted else self.cluster.topics.get(name)
        oldest = self.clock.monotonic() - self.settings.metadata_age_s_max
        return known if known is not None and known.asked_at >= oldest else None

    # Attempts

    def note(self, error: ClientError, topic: str | None = None) -> None:
        """Doubt what the error shows to be out of date."""
        lost = isinstance(error, NotConnected | OutcomeUnknown)
        moved = isinstance(error, BrokerError) and error.code in LEADER_CODES
        if topic is not None and (lost or moved):
            self.cluster.doubt(topic)
        if lost or (isinstance(error, BrokerError) and error.code is ErrorCode.NOT_CONTROLLER):
            self.cluster.controller = NOBODY

    async def attempt(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        topic: str | None = None,
        deadline_s: float | None = None,
        repeatable: bool,
    ) -> T:
        """Do it until it succeeds, fails for good, or the time is up.

        Work that is not `repeatable` is not tried again once its outcome is unknown.
        """
        retry = self.retry(deadline_s)
        while True:
            try:
                return await work()
            except ClientError as error:
                self.note(error, topic)
                if not error.retriable or (isinstance(error, OutcomeUnknown) and not repeatable):
                    raise
                await retry.pause(error)


async def call(
    connection: Connection,
    request: Request,
    kind: type[R],
    *,
    version: int | None = None,
    timeout_s: float | None = None,
) -> R:
    """Call, and know the type of the answer."""
    answer = await connection.call(request, version=version, timeout_s=timeout_s)
    assert isinstance(answer, kind)
    return answer


def _asked(name: str) -> MetadataRequestTopic:
    return MetadataRequestTopic(name=name)
