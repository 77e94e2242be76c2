"""One shard: a partition of a state topic, and the machine that its records make.

An act (something that was asked for, or time that passed) is decided, its records are appended and
applied, all in one turn of the loop, so acts never see each other half done. Replies are given once
the log is durable up to where it ended then: also those that only read, since they may have read
what is not durable yet. Should the disk fail in between, nobody has heard of anything.

A log that takes no records (the disk is full) leaves a machine that has decided what never came to
be: it is thrown away, whoever waits is told to ask again, and another is loaded from the log.
Loading is tried until it is done: what the disk does not give now it may give later.
"""

from __future__ import annotations

import asyncio
import logging
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tierlog.coordinator.errors import CoordinatorError, CoordinatorGone, CoordinatorLoading
from tierlog.coordinator.step import Now, R, Reply, Step
from tierlog.errors import TierlogError
from tierlog.records.batch import iter_batches, parse_header
from tierlog.records.record import Record, decode_records, encode_batch
from tierlog.types import Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tierlog.broker.partition import Partition
    from tierlog.coordinator.step import Machine
    from tierlog.env import Env

logger = logging.getLogger(__name__)

LOAD_BYTES = 1 << 20
"""Read and applied before everybody else has a turn: some milliseconds."""
RETRY_S = 1.0
"""After a first try to load that failed; every other one waits for twice as long."""
RETRY_S_MAX = 60.0

M = TypeVar("M", bound="Machine[Any]")
V = TypeVar("V")


class Shard(Generic[M]):
    def __init__(
        self,
        env: Env,
        partition: Partition,
        make: Callable[[], M],
        settle: Callable[[M], Iterable[Step[Any]]] | None = None,
    ) -> None:
        """`make` gives a machine that remembers nothing. `settle` says what a machine has to take
        back, now that its log is applied, before anybody is served by it."""
        self.machine = make()
        self._make = make
        self._settle = settle
        self._loading: asyncio.Task[None] | None = None
        self.is_loaded = False
        self._env = env
        self._partition = partition
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tickets = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms: float = inf
        self._is_closed = False
        self.records_skipped = 0
        """Of kinds that are not known here."""

    # Loading

    async def load(self) -> None:
        """Apply the log. Until then every act is refused, retriably."""
        self.machine, self.records_skipped = self._make(), 0
        log, offset = self._partition.log, self._partition.log.log_start
        end = log.log_end
        await log.wait_visible(end)
        while offset < end:
            data = bytes(log.read(offset, bytes_max=LOAD_BYTES, end=end))
            if not data:
                break
            for position, header in iter_batches(data):
                batch = data[position : position + header.length + 12]
                self._apply_batch(batch)
                offset = Offset(header.base_offset + header.last_offset_delta + 1)
            await asyncio.sleep(0)
        await self._take_back()
        self.is_loaded = True
        self.machine.loaded(self.now())
        self._arm()
        if self.records_skipped:
            logger.warning("%d records of a coordinator say nothing", self.records_skipped)

    def load_later(self) -> None:
        """It could not be loaded, or has to be loaded again: until it is, or the shard closes."""
        self._loading = self._env.tasks.spawn(self._load_at_last(), name="coordinator loads again")

    async def _load_at_last(self) -> None:
        pause_s = 0.0
        while True:
            await asyncio.sleep(pause_s)
            try:
                return await self.load()
            except (TierlogError, OSError) as error:
                pause_s = min(max(2 * pause_s, RETRY_S), RETRY_S_MAX)
                logger.warning("a coordinator cannot be loaded: %s; again in %d s", error, pause_s)

    async def _take_back(self) -> None:
        """A log that takes nothing now is no reason to remember it: whoever loads next finds it
        again, and takes it back again."""
        for step in self._settle(self.machine) if self._settle is not None else ():
            try:
                if step.records:
                    self._append(step.records)
            except (TierlogError, OSError) as error:
                logger.warning("a coordinator could not write: %s", error)
                for record in step.records:
                    self.machine.apply(record)
            await asyncio.sleep(0)

    def _apply_batch(self, batch: bytes) -> None:
        for record in decode_records(batch):
            if record.key is None:
                continue
            known = self.machine.decode(record.key, record.value)
            if known is None:
                self.records_skipped += 1
            else:
                self.machine.apply(known)

    # Acting

    def act(self, decide: Callable[[int, Now], Step[R]]) -> asyncio.Future[Any]:
        """Decide with a ticket of its own; the future is the reply to that ticket. Raises
        `CoordinatorLoading`, `CoordinatorGone` and what keeps the log from being written."""
        self.check()
        ticket = self._tickets = self._tickets + 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        try:
            self._carry_out(decide(ticket, self.now()))
        except BaseException:
            self._waiting.pop(ticket, None)
            if future.done():
                future.exception()  # Who asked hears of it here, and not by the future.
            raise
        return future

    def read(self, look: Callable[[M], V]) -> asyncio.Future[V]:
        """What the machine says now, told once that is durable."""

        def decide(ticket: int, _: Now) -> Step[Any]:
            step: Step[Any] = Step()
            step.reply(ticket, look(self.machine))
            return step

        return self.act(decide)

    @property
    def is_durable(self) -> bool:
        """Whether everything that the machine remembers is on the disk: what only reads may be
        answered at once."""
        log = self._partition.log
        return log.log_end <= log.visible_end

    def check(self) -> None:
        if self._is_closed:
            raise CoordinatorGone
        if not self.is_loaded:
            raise CoordinatorLoading

    def carry_out(self, step: Step[Any]) -> None:
        """What nobody asked for: time passed, a topic is gone. A log that takes nothing now is no
        reason to fail for whoever noticed."""
        try:
            self._carry_out(step)
        except (TierlogError, OSError) as error:
            logger.warning("a coordinator could not write: %s", error)

    def _carry_out(self, step: Step[Any]) -> None:
        """Append and apply what was decided; reply when it is durable."""
        if step.records:
            try:
                self._append(step.records)
            except BaseException:
                self._begin_anew()
                raise
        if step.replies:
            self._reply_when_durable(step.replies)
        self._arm()

    def _begin_anew(self) -> None:
        """See the module. What was decided before and is on its way to the disk counts; who asked
        for it finds that out by asking again."""
        self.is_loaded = False
        self.machine = self._make()
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at_ms = None, inf
        self._fail_all(CoordinatorLoading)
        self.load_later()

    def _fail_all(self, fault: type[CoordinatorError]) -> None:
        waiting = list(self._waiting.values())
        self._waiting.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(fault())

    def _append(self, records: Sequence[Any]) -> None:
        now_ms = self._env.clock.now_ms()
        machine = self.machine
        encoded = [
            Record(Offset(number), TimestampMs(now_ms), *machine.encode(record))
            for number, record in enumerate(records)
        ]
        batch = memoryview(encode_batch(encoded))
        partition = self._partition
        partition.log.append(
            batch, parse_header(batch), leader_epoch=partition.leader_epoch, now_ms=now_ms
        )
        for record in records:
            machine.apply(record)

    def _reply_when_durable(self, replies: list[Reply]) -> None:
        log = self._partition.log
        end = log.log_end
        if end <= log.visible_end:
            self._reply(replies)
            return
        durable = log.wait_visible(end)
        durable.add_done_callback(lambda done: self._durable(done, replies))

    def _durable(self, done: asyncio.Future[None], replies: list[Reply]) -> None:
        fault = CoordinatorGone() if done.cancelled() else done.exception()
        if fault is None:
            self._reply(replies)
            return
        for ticket, _ in replies:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_exception(fault)

    def _reply(self, replies: list[Reply]) -> None:
        for ticket, value in replies:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(value)

    # Time

    def now(self) -> Now:
        clock = self._env.clock
        return Now(int(clock.monotonic() * 1000), clock.now_ms())

    def _arm(self) -> None:
        at_ms = self.machine.wake_ms
        if at_ms >= self._timer_at_ms or self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(at_ms - self._env.clock.monotonic() * 1000, 0) / 1000 + 0.001
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake)
        self._timer_at_ms = at_ms

    def _wake(self) -> None:
        self._timer, self._timer_at_ms = None, inf
        if self.is_loaded and not self._is_closed:
            self.carry_out(self.machine.tick(self.now()))

    def close(self) -> None:
        """Whoever waits hears that the coordinator is gone."""
        self._is_closed = True
        if self._loading is not None:
            self._loading.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._fail_all(CoordinatorGone)
