"""Holds as somebody asks for them: placed, released and listed over the partitions of a topic.

Each partition has its own HEAD, so each is told for itself: done once its HEAD says so (U7b), or
why not, and whether asking again may help. Asking again with the same id completes what is missing.

- From the moment that a hold is asked for, neither DeleteRecords nor a deletion of the topic takes
  what it covers, though nobody was told yet; also after a try of which nobody knows whether it came
  to HEAD, until the hold is placed or released, or the node starts again. Retention goes by HEAD:
  where it comes first, the hold is refused.
- A topic that is being deleted takes no hold, and one that has a hold is not deleted.
- The answer waits for a store that is away, but not for long. What is under way then goes on:
  nobody knows how a publish ended that was given up half way.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tierlog.broker.errors import PolicyViolation, UnknownTopic
from tierlog.cold.head import Hold
from tierlog.cold.holds import (
    NO_END,
    PlaceHold,
    ReleaseHold,
    check_is_there,
    check_room,
    check_words,
)
from tierlog.cold.refusals import HoldRefused
from tierlog.errors import Kind, TierlogError
from tierlog.objectstore.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from tierlog.broker.partition import Partition
    from tierlog.broker.topics import Topic
    from tierlog.cold.prefix import ColdPrefix
    from tierlog.cold.tier import ColdTier
    from tierlog.env import Env
    from tierlog.types import Offset

WAIT_S: Final = 15.0
"""How long an answer waits for the store: half of what the HTTP side gives it."""
POLL_S: Final = 0.1
AT_ONCE: Final = 16
"""Partitions that are told side by side; somebody waits for it."""
RETRIABLE: Final = (Kind.RETRY, Kind.UNAVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What to hold of a partition; None: from where it begins, and without an end."""

    index: int
    start: Offset | None = None
    end: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How it went with one partition."""

    partition: int
    hold: Hold | None = None
    """As it was asked for, and HEAD covers it; or as HEAD had it before it was released. None: it
    is not known to be there."""
    error: str | None = None
    """None: it is done, and HEAD says so."""
    is_retriable: bool = False
    """Whether asking again may help, with the same id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    topic: str
    partition: int
    hold: Hold
    is_placed: bool
    """False: it was asked for, and whether HEAD has it is not known."""


class Holds:
    def __init__(self, env: Env, tier: ColdTier) -> None:
        self._env = env
        self._tier = tier
        self._closed: Counter[bytes] = Counter()
        """Topics that are being deleted, and how often that was asked for."""
        self._running: dict[bytes, asyncio.Task[None]] = {}
        """Changes under way, by topic: one at a time."""

    async def stop(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # Asking

    async def place(
        self, topic: Topic, spans: Iterable[Span], *, hold_id: str, reason: str
    ) -> list[Told]:
        """Of each span. Raises `HoldRefused` or `PolicyViolation` where it is wrong for all."""
        check_words(hold_id, reason)
        self._require_open(topic)
        told: dict[int, Told] = {}
        wanted: dict[int, Hold] = {}
        for span in spans:
            try:
                wanted[span.index] = self._begun(topic, span, hold_id, reason)
            except TierlogError as error:
                told[span.index] = _refused(span.index, error)
        await self._change(topic, list(wanted), told, lambda one: self._placed(one, wanted))
        return [told[index] for index in sorted(told)]

    async def release(self, topic: Topic, hold_id: str) -> list[Told]:
        """Of each partition that had it, or of which that is not known; none: it was nowhere."""
        self._require_open(topic)
        told: dict[int, Told] = {}
        asked = [one.index for one in topic.partitions if _may_have(one, hold_id)]
        await self._change(topic, asked, told, lambda one: self._released(one, hold_id))
        found = (told[index] for index in sorted(told))
        return [one for one in found if one.hold is not None or one.error is not None]

    def listed(self, topics: Iterable[Topic]) -> Iterator[Listed]:
        """As the last known HEADs have them: nobody else writes these."""
        for topic in topics:
            for one in topic.partitions:
                if (cold := one.cold) is None or not cold.holds:
                    continue
                placed = () if cold.head is None else cold.head.holds
                known = {hold.id: hold for hold in (*cold.holding.values(), *placed)}
                for hold in known.values():
                    yield Listed(
                        topic=topic.name, partition=one.index, hold=hold, is_placed=hold in placed
                    )

    @asynccontextmanager
    async def none_on(self, topic: Topic) -> AsyncIterator[None]:
        """While this lasts no hold is placed on the topic. Raises `PolicyViolation` if it has one,
        and what keeps the node from knowing."""
        self._closed[topic.id] += 1
        try:
            for one in topic.partitions:
                await self._require_free(one)
            yield
        finally:
            self._closed -= Counter([topic.id])

    async def _require_free(self, partition: Partition) -> None:
        partition.check_start()
        topic, held = partition.topic, () if partition.cold is None else partition.cold.holds
        if partition.late is not None:
            copies = self._tier.maker.copies
            head = await copies.load(topic.id.hex(), partition.index)
            held = () if head is None else head.holds
        if held:
            raise PolicyViolation(
                f"topic {topic.name!r} is not deleted: hold {held[0].id} keeps partition "
                f"{partition.index} ({held[0].reason})"
            )

    # What is asked for

    def _require_open(self, topic: Topic) -> None:
        if not topic.config.remote_storage_enable:
            why = "compacted" if "compact" in topic.config.cleanup_policy else "not tiered"
            raise PolicyViolation(
                f"topic {topic.name!r} is {why}, and a hold stands in the bucket: it cannot be held"
            )
        if topic.id in self._closed:
            raise UnknownTopic(topic.name)

    def _begun(self, topic: Topic, span: Span, hold_id: str, reason: str) -> Hold:
        """From here on nobody deletes what it covers."""
        one = topic.partition(span.index)
        one.check_start()
        one.check_fence()
        assert one.cold is not None, "a tiered partition that is open"
        start = one.log_start if span.start is None else span.start
        hold = Hold(hold_id, start, NO_END if span.end is None else span.end, reason)
        name = f"{topic.name}-{span.index}"
        check_is_there(hold, one.log_start, of=name)
        if _known(one.cold, hold_id) is None:  # Also while the store is away.
            check_room(len(one.cold.holds), of=name)
        one.cold.holding[hold_id] = hold
        return hold

    async def _placed(self, partition: Partition, wanted: dict[int, Hold]) -> Told:
        hold, cold = wanted[partition.index], partition.cold
        assert cold is not None, "it was begun"
        key = partition.topic.id.hex(), partition.index
        try:
            await self._tier.change_holds(*key, PlaceHold(hold))
        except HoldRefused:
            cold.holding.pop(hold.id, None)
            raise
        cold.holding.pop(hold.id, None)
        # Not as HEAD has it: an earlier try, of which nobody was told, may cover records that were
        # deleted since.
        return Told(partition=partition.index, hold=hold)

    async def _released(self, partition: Partition, hold_id: str) -> Told:
        partition.topic.partition(partition.index).check_start()
        change, cold = ReleaseHold(hold_id), partition.cold
        assert cold is not None, "a tiered partition that is open"
        known = _known(cold, hold_id)  # An earlier try may have released it, unheard.
        await self._tier.change_holds(partition.topic.id.hex(), partition.index, change)
        cold.holding.pop(hold_id, None)
        return Told(partition=partition.index, hold=change.released or known)

    # One after the other, and in time

    async def _change(
        self,
        topic: Topic,
        indexes: list[int],
        told: dict[int, Told],
        step: Callable[[Partition], Awaitable[Told]],
    ) -> None:
        """Every partition is told when this returns, if only that it takes longer."""
        until = self._env.clock.monotonic() + WAIT_S
        if indexes and await self._is_free(topic, until):
            work = self._each([topic.partitions[index] for index in indexes], told, step, until)
            task = self._env.tasks.spawn(work, name=f"holds of {topic.name}")
            self._running[topic.id] = task
            task.add_done_callback(partial(self._ended, topic.id))
            await self._waited(task, until)
        for index in indexes:
            if index not in told:
                told[index] = _refused(index, StoreUnavailable(self._silence()))

    async def _is_free(self, topic: Topic, until: float) -> bool:
        while (task := self._running.get(topic.id)) is not None:
            if not await self._waited(task, until):
                return False
            await asyncio.sleep(0)  # Until it has left.
        return True

    async def _waited(self, task: asyncio.Task[None], until: float) -> bool:
        left_s = until - self._env.clock.monotonic()
        done, _ = await asyncio.wait([task], timeout=max(left_s, 0))
        return bool(done)

    def _ended(self, topic_id: bytes, task: asyncio.Task[None]) -> None:
        del self._running[topic_id]
        if not task.cancelled():
            task.exception()  # Those that it did not come to are told that it takes longer.

    async def _each(
        self,
        partitions: list[Partition],
        told: dict[int, Told],
        step: Callable[[Partition], Awaitable[Told]],
        until: float,
    ) -> None:
        waiting = iter(partitions)

        async def some() -> None:
            for one in waiting:
                try:
                    await self._until_ready(until)
                    told[one.index] = await step(one)
                except (TierlogError, OSError) as error:
                    told[one.index] = _refused(one.index, error)

        await asyncio.gather(*(some() for _ in partitions[:AT_ONCE]))

    async def _until_ready(self, until: float) -> None:
        while not self._tier.is_ready:
            if self._tier.refusal is not None:
                raise self._tier.refusal
            if self._env.clock.monotonic() >= until:
                raise StoreUnavailable(self._silence())
            await asyncio.sleep(POLL_S)

    def _silence(self) -> str:
        return self._tier.last_error or "the store has not answered in time"


def is_known(partition: Partition) -> bool:
    """Whether its HEAD is, or that there is none."""
    return partition.late is None and (partition.cold is None or not partition.cold.is_unknown)


def _may_have(partition: Partition, hold_id: str) -> bool:
    cold = partition.cold
    return not is_known(partition) or (cold is not None and _known(cold, hold_id) is not None)


def _known(cold: ColdPrefix, hold_id: str) -> Hold | None:
    return next((one for one in cold.holds if one.id == hold_id), None)


def _refused(index: int, error: Exception) -> Told:
    kind = error.kind if isinstance(error, TierlogError) else Kind.UNAVAILABLE
    return Told(partition=index, error=str(error), is_retriable=kind in RETRIABLE)
