"""Sends the batches of one partition: the shell around `window`.

One task does all the sending, so batches leave in order. Answers come by callback, mark the window
and wake the task. After a failure the task lets the window drain, settles it, pauses, finds the
leader anew and sends what is left, oldest first, before anything new.
"""

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tierlog.client.data import id_version, produce_request, produced
from tierlog.client.errors import BrokerError, ClientError, NotConnected, ProducerFailed
from tierlog.client.pool import PRODUCE
from tierlog.client.router import Router
from tierlog.client.settings import ProducerSettings
from tierlog.client.values import Placed, TopicPartition
from tierlog.client.window import Batch, Identity, Window, ends_producer
from tierlog.records.record import Record
from tierlog.types import Offset
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.produce import ProduceResponse
from tierlog.wire.schema import Response

if TYPE_CHECKING:
    from tierlog.client.connection import Connection


class Owner(Protocol):
    """What the producer does for its partitions."""

    router: Router
    settings: ProducerSettings

    async def identity(self, used: Identity) -> Identity:
        """A producer id other than the used one."""
        ...

    def admitted(self, place: TopicPartition) -> None:
        """A batch is complete and under way."""
        ...

    def settled(self, batch: Batch) -> None:
        """Nobody waits for the batch any more."""
        ...

    def troubled(self, place: TopicPartition, error: ClientError) -> None:
        """Something failed that is tried again."""
        ...

    def end(self, error: ProducerFailed) -> None:
        """The whole producer is over."""
        ...


class PartitionProducer:
    """See the module."""

    def __init__(self, place: TopicPartition, owner: Owner) -> None:
        settings = owner.settings
        self.place = place
        self.hurry = False
        """Do not wait for company: somebody flushes."""
        self._owner = owner
        self._settings = settings
        self._router = owner.router
        self._ready: deque[Batch] = deque()
        self._window = Window(
            idempotent=settings.idempotent,
            codec=settings.codec,
            acks=settings.acks,
            size_max=settings.in_flight_max,
        )
        self._connection: Connection | None = None
        self._pause_s = self._router.settings.backoff_s
        self._work = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._task = asyncio.create_task(
            self._run(), name=f"produce {place.topic}-{place.partition}"
        )

    def append(self, record: Record, size_bytes: int) -> asyncio.Future[Placed]:
        """Put the record into the batch that gathers; its offset is set to its place there."""
        now = self._router.clock.monotonic()
        if not self._ready or self._is_full(self._ready[-1], size_bytes):
            deadline = now + self._settings.delivery_timeout_s
            self._ready.append(Batch(begun_at=now, deadline=deadline))
        batch = self._ready[-1]
        future: asyncio.Future[Placed] = asyncio.get_running_loop().create_future()
        batch.records.append(record._replace(offset=Offset(len(batch.records))))
        batch.waiters.append(future)
        batch.size_bytes += size_bytes
        self._work.set()
        return future

    def wake(self) -> None:
        self._work.set()

    async def stop(self, error: ClientError) -> None:
        """End the task and fail what is left."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self.fail_all(error)

    def fail_all(self, error: ClientError) -> None:
        left = [*self._window.batches, *self._ready]
        self._window.batches.clear()
        self._ready.clear()
        for batch in left:
            self._lose(batch, error)

    def _is_full(self, batch: Batch, more_bytes: int) -> bool:
        return batch.size_bytes + more_bytes > self._settings.batch_bytes_max

    # The task

    async def _run(self) -> None:
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                while await self._step():
                    pass
        except ProducerFailed as error:
            self._owner.end(error)
        except Exception as error:  # noqa: BLE001  a bug must not leave senders waiting for ever
            self._owner.end(ProducerFailed(f"{type(error).__name__}: {error}"))

    async def _step(self) -> bool:
        """Do the next thing; False when there is nothing to do until something happens."""
        window = self._window
        if window.is_in_trouble:
            return window.is_drained and await self._recover()
        if window.wants_identity:
            return bool(self._ready or window.batches) and await self._identify()
        self._admit()
        return bool(window.to_send()) and await self._send()

    async def _recover(self) -> bool:
        first = self._window.batches[0].fault
        if first is not None and (end := ends_producer(first)) is not None:
            raise end
        for batch, error in self._window.settle(now=self._router.clock.monotonic()):
            self._lose(batch, error)
        if first is not None:
            self._expire_ready(first)
        await self._pause()
        return True

    async def _identify(self) -> bool:
        try:
            self._window.adopt(await self._owner.identity(self._window.identity))
        except ClientError as error:
            if not error.retriable:
                raise ProducerFailed(f"no producer id: {error}") from error
            self._owner.troubled(self.place, error)
            self._expire_ready(error)
            await self._pause()
        return True

    def _admit(self) -> None:
        now = self._router.clock.monotonic()
        while self._window.has_room and self._ready and self._is_due(now):
            self._window.admit(self._ready.popleft())
            self._owner.admitted(self.place)

    def _is_due(self, now: float) -> bool:
        """Whether the oldest batch may go, or should wait for company."""
        wait = self._ready[0].begun_at + self._settings.linger_s - now
        full = len(self._ready) > 1 or self._is_full(self._ready[0], 1)
        if wait <= 0 or full or self.hurry:
            return True
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(wait, self._ring)
        return False

    def _ring(self) -> None:
        self._alarm = None
        self._work.set()

    async def _send(self) -> bool:
        window, router = self._window, self._router
        try:
            topic = await router.topic(self.place.topic)
            leader = topic.leader_of(self.place.partition).leader
            connection = await router.connection_to(leader, PRODUCE)
            version = id_version(connection, ApiKey.PRODUCE, topic)
        except ClientError as error:
            router.note(error, self.place.topic)
            self._unsent(error)
            return True
        if window.is_in_trouble:
            return True
        if connection is not self._connection and not window.is_drained:
            return False  # Others are under way on another connection: they must not be overtaken.
        self._connection = connection
        for batch in window.to_send():
            request = produce_request(
                topic,
                self.place.partition,
                batch.data,
                acks=self._settings.acks,
                timeout_ms=self._settings.append_timeout_ms,
            )
            try:
                answer = connection.send(request, version=version)
            except NotConnected as error:
                self._unsent(error)
                return True
            batch.is_out = True
            answer.add_done_callback(partial(self._answered, batch))
        return False

    def _answered(self, batch: Batch, answer: asyncio.Future[Response]) -> None:
        answer.exception()  # seen, also where nobody waits for it any more
        if batch not in self._window.batches:
            return  # The producer has ended meanwhile.
        try:
            response = answer.result()
            assert isinstance(response, ProduceResponse)
            acks = self._settings.acks
            self._written(batch, produced(response, self.place.partition, acks=acks).base_offset)
        except BrokerError as error:
            if error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                # Written before, so long ago that the broker forgot where.
                self._written(batch, -1)
            else:
                self._refused(batch, error)
        except ClientError as error:
            self._refused(batch, error)
        self._work.set()

    def _written(self, batch: Batch, base_offset: int) -> None:
        self._pause_s = self._router.settings.backoff_s
        self._window.written(batch)
        batch.succeed(self.place.partition, base_offset)
        self._owner.settled(batch)

    def _refused(self, batch: Batch, error: ClientError) -> None:
        self._router.note(error, self.place.topic)
        self._window.refused(batch, error)
        if error.retriable:
            self._owner.troubled(self.place, error)

    def _unsent(self, error: ClientError) -> None:
        self._window.unsent(error)
        if error.retriable:
            self._owner.troubled(self.place, error)

    def _lose(self, batch: Batch, error: ClientError) -> None:
        batch.fail(error)
        self._owner.settled(batch)

    def _expire_ready(self, error: ClientError) -> None:
        """Batches that were never sent run out of time, too."""
        now = self._router.clock.monotonic()
        while self._ready and self._ready[0].deadline <= now:
            self._lose(self._ready.popleft(), NotConnected(f"not sent in time; last: {error}"))

    async def _pause(self) -> None:
        """Longer from time to time, until something is written."""
        pause = self._pause_s * (0.5 + self._router.rng.random())
        self._pause_s = min(2 * self._pause_s, self._router.settings.backoff_max_s)
        await asyncio.sleep(pause)
