"""A client of a cluster: bootstrap addresses in, calls out.

    async with Client([("localhost", 9092)], clock=env.clock, rng=env.rng) as client:
        await client.create_topics("t", partitions=3)
        await client.produce("t", 0, [NewRecord(b"hello")])

Every call finds its node, waits and tries again as its docstring says, and raises `BrokerError`
with the broker's code where the answer is no. Safe to share between tasks of one loop.
"""

from collections.abc import Sequence
from types import TracebackType

from tierlog.client.admin import Admin
from tierlog.client.cluster import Cluster, TopicInfo
from tierlog.client.data import Data
from tierlog.client.groups import Groups
from tierlog.client.pool import Address
from tierlog.client.router import Router
from tierlog.client.settings import ClientSettings
from tierlog.env import Clock, Rng
from tierlog.wire.messages.metadata import MetadataResponse


class Client(Admin, Data, Groups):
    """See the module."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        clock: Clock,
        rng: Rng,
        settings: ClientSettings | None = None,
    ) -> None:
        self._router = Router(
            bootstrap, clock=clock, rng=rng, settings=settings or ClientSettings()
        )

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._router.close()

    @property
    def router(self) -> Router:
        """For what stands on top: producer, consumer, replication."""
        return self._router

    @property
    def cluster(self) -> Cluster:
        """What is believed of the cluster at the moment."""
        return self._router.cluster

    async def metadata(self, topics: Sequence[str] | None = None) -> MetadataResponse:
        """Ask anew; None asks for all topics. Errors of single topics stand in the answer."""

        async def once() -> MetadataResponse:
            return await self._router.ask_metadata(topics)

        return await self._router.attempt(once, repeatable=True)

    async def topic(self, name: str, *, deadline_s: float | None = None) -> TopicInfo:
        """What is known of a topic; waits for one that is about to appear."""

        async def once() -> TopicInfo:
            return await self._router.topic(name)

        return await self._router.attempt(once, topic=name, deadline_s=deadline_s, repeatable=True)
