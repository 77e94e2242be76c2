"""An asyncio event loop in virtual time.

Nothing waits: when no callback is ready, the clock jumps to the next timer. Which of the ready
callbacks runs next is drawn from the seed, so every legal interleaving turns up sooner or later.
(`call_soon` promises an order; correct code must not need it across tasks, and asyncio's own
locks, queues and groups do not. Transports keep the order of one connection by themselves.)

A loop with nothing ready and nothing scheduled while its main future waits raises `SimDeadlock` and
names the tasks; one that runs on and on raises `SimOverrun`. Servers, connections and thread calls
are simulated too; processes, signals and real sockets are not there.
"""

import asyncio
import contextvars
import functools
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from random import Random
from types import FunctionType, MethodType
from typing import Any, TypeVar, TypeVarTuple

from tierlog.sim.handles import SimHandle, SimTimer
from tierlog.sim.life import LIFE, Life, current_life, life_of
from tierlog.sim.network import ProtocolFactory, SimNetwork
from tierlog.sim.server import SimServer
from tierlog.sim.trace import Trace

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CALLBACK_SECONDS = 1e-6
"""What a callback costs in virtual time: without it, code that polls would stop the clock."""

CALL_SECONDS_MAX = 0.02
"""Calls in threads: mostly well below a millisecond, now and then tens of them."""

STEPS_MAX = 20_000_000
PRUNE_EVERY = 1024


class SimDeadlock(Exception):
    """Nothing is left that could ever wake the pending tasks."""


class SimOverrun(Exception):
    """The run took more callbacks or virtual time than it was given."""


class SimFuture(asyncio.Future[T]):
    """A future with a hash that does not depend on its address: sets iterate alike in each run."""

    serial: int

    def __hash__(self) -> int:
        return self.serial


class SimTask(asyncio.Task[T]):
    """A task with such a hash, and a name that counts from the start of its loop."""

    def __init__(
        self, work: Coroutine[Any, Any, T], *, serial: int, name: str, **options: Any
    ) -> None:
        self._serial = serial
        self.context = options["context"]
        super().__init__(work, name=name, **options)

    def __hash__(self) -> int:
        return self._serial


class SimLoop(asyncio.BaseEventLoop):
    """See the module."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[tuple[float, int, SimTimer]]
    """When, and a number of its own: tuples compare without a call of Python code."""
    _closed: bool
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, rng: Random, *, steps_max: int = STEPS_MAX) -> None:
        super().__init__()
        self.set_debug(False)  # Python's debug mode keeps tracebacks of every handle: far too slow.
        self.trace = Trace()
        self.steps = 0
        self.steps_max = steps_max
        self.seconds_max = float("inf")
        self.before_callback: Callable[[], None] | None = None
        """For a test that looks at the world between any two callbacks."""
        self.lost_errors: list[BaseException] = []
        """Exceptions of tasks that nobody ever asked."""
        self.call_seconds_max = CALL_SECONDS_MAX
        """The longest wait of a call in a thread, before it and after it: disks may be slow."""
        self.network = SimNetwork(self, Random(rng.getrandbits(64)), self.trace)
        self._rng = rng
        self._now = 0.0
        self._serial = 0
        self._timer_serial = 0
        self._tasks: list[SimTask[Any]] = []
        self._generator_lives: dict[int, Life | None] = {}
        """By identity, for look-up only: weak references are gone when a generator is finalised."""

    # Time and order

    def time(self) -> float:
        return self._now

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = SimHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        timer = SimTimer(when, callback, args, self, context)
        self._timer_serial += 1
        heapq.heappush(self._scheduled, (when, self._timer_serial, timer))
        if self._timer_cancelled_count * 2 > len(self._scheduled) + 100:
            self._forget_cancelled_timers()
        return timer

    def _run_once(self) -> None:
        """Overrides the heart of `BaseEventLoop`: one callback after the other until the loop is to
        stop. What is in here runs ten thousand times a seed, so it makes few calls."""
        ready, scheduled = self._ready, self._scheduled
        draw = self._rng.getrandbits
        while True:
            if scheduled and scheduled[0][0] <= self._now:
                self._wake_due_timers()
            if not ready:
                self._jump_to_next_timer()
            if (count := len(ready)) > 1:
                # As `randrange` draws, without its four calls.
                bits = count.bit_length()
                while (place := draw(bits)) >= count:
                    pass
                ready.rotate(-place)
            handle: Any = ready.popleft()
            if not handle._cancelled:
                self._run_handle(handle)
            if self._stopping:
                return

    def _run_handle(self, handle: Any) -> None:
        context: contextvars.Context = handle._context
        callback = handle._callback
        life = context.get(LIFE)
        if life is not None:
            if not life.alive:
                return
            if life.frozen:
                life.stalled.append(handle)
                return
        self.steps += 1
        self._now = now = self._now + CALLBACK_SECONDS
        self.trace.fold(f"{now:.6f} {name_of(callback)}")
        if self.before_callback is not None:
            self.before_callback()
        if self.steps > self.steps_max or now > self.seconds_max:
            raise SimOverrun(f"{self.steps} callbacks, {now:.1f} s: {self._waiting()}")
        try:
            context.run(callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  asyncio reports and goes on
            message = f"exception in callback {name_of(callback)}"
            self.call_exception_handler({"message": message, "exception": error})

    def _wake_due_timers(self) -> None:
        """Also drops cancelled ones from the front, so that nothing waits for them."""
        scheduled, now = self._scheduled, self._now
        while scheduled and (scheduled[0][0] <= now or scheduled[0][2]._cancelled):
            timer = heapq.heappop(scheduled)[2]
            timer._scheduled = False
            if timer._cancelled:
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(timer)

    def _jump_to_next_timer(self) -> None:
        self._wake_due_timers()
        while not self._ready:
            if not self._scheduled:
                raise SimDeadlock(f"nothing can wake: {self._waiting()}")
            self._now = self._scheduled[0][0]
            self._wake_due_timers()

    def _forget_cancelled_timers(self) -> None:
        """Most timeouts are cancelled long before they are due; keep the heap small. In place: the
        heart of the loop holds on to the list."""
        for _, _, timer in self._scheduled:
            timer._scheduled = not timer._cancelled
        self._scheduled[:] = [each for each in self._scheduled if not each[2]._cancelled]
        heapq.heapify(self._scheduled)
        self._timer_cancelled_count = 0

    def _write_to_self(self) -> None:
        """There is no other thread that could have to wake this one."""

    def thaw(self, life: Life) -> None:
        """Let a frozen process run on."""
        life.frozen = False
        stalled, life.stalled = life.stalled, []
        self._ready.extend(stalled)

    # Futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        self._serial += 1
        future: SimFuture[Any] = SimFuture(loop=self)
        future.serial = self._serial
        return future

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        self._check_closed()  # type: ignore[attr-defined]  # private
        self._serial += 1
        work: Any = coro
        task: SimTask[T] = SimTask(
            work,
            serial=self._serial,
            name=str(name or f"{name_of(work)}-{self._serial}"),
            loop=self,
            context=contextvars.copy_context() if context is None else context,
        )
        self._tasks.append(task)
        if len(self._tasks) % PRUNE_EVERY == 0:
            self.pending_tasks()
        return task

    def pending_tasks(self) -> list[SimTask[Any]]:
        """Tasks that are not done, oldest first. Errors that nobody asked for are kept."""
        for task in self._tasks:
            # The flag falls when somebody looks at the exception.
            if task.done() and not task.cancelled() and task._log_traceback:
                self._keep_lost_error(task)
        self._tasks = [task for task in self._tasks if not task.done()]
        return self._tasks.copy()

    def _keep_lost_error(self, task: SimTask[Any]) -> None:
        life = life_of(task.context)
        error = task.exception()
        if error is not None and (life is None or life.alive):
            self.lost_errors.append(error)

    def _waiting(self) -> str:
        names = [task.get_name() for task in self.pending_tasks()]
        return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")

    # Asynchronous generators: overrides of `BaseEventLoop`

    def _asyncgen_firstiter_hook(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generator_lives[id(generator)] = current_life()
        super()._asyncgen_firstiter_hook(generator)  # type: ignore[misc]  # private

    def _asyncgen_finalizer_hook(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._is_alive(generator):
            super()._asyncgen_finalizer_hook(generator)  # type: ignore[misc]  # private

    async def shutdown_asyncgens(self) -> None:
        """Closes those of living processes. A dead one closes nothing, and a generator that it
        died in counts as running for ever: asyncio would refuse to close it."""
        started: Any = self._asyncgens  # type: ignore[attr-defined]  # private
        for generator in list(started):
            if not self._is_alive(generator):
                started.discard(generator)
        await super().shutdown_asyncgens()

    def _is_alive(self, generator: AsyncGenerator[Any, Any]) -> bool:
        life = self._generator_lives[id(generator)]
        return life is None or life.alive

    # Connections

    async def create_connection(  # type: ignore[override]  # no TLS, no ready sockets
        self,
        protocol_factory: ProtocolFactory,
        host: str | None = None,
        port: int | None = None,
        *,
        local_addr: tuple[str, int] | None = None,
        **options: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """`local_addr` names the host to connect from; by default that of the running process."""
        _refuse_real_sockets(options)
        source = None if local_addr is None else local_addr[0]
        return await self.network.connect(
            protocol_factory, source=source, host=host or "", port=port or 0
        )

    async def create_server(  # type: ignore[override]  # no TLS, no ready sockets
        self,
        protocol_factory: ProtocolFactory,
        host: object = None,
        port: int | None = None,
        **options: object,
    ) -> SimServer:
        """Listens on the host of the running process, whatever address is named."""
        _refuse_real_sockets(options)
        return self.network.listen(protocol_factory, port=port or 0)

    # Calls in threads

    def run_in_executor(  # type: ignore[override]  # callables as in `Tasks`
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """The call happens on the loop: at once, as if a thread were quick, or at a drawn later
        moment. Either way its answer comes later still, so that nobody can take what was written
        meanwhile for part of it."""
        future = self.create_future()
        if self._rng.random() < 0.25:
            self._run_call(future, func, args)
        else:
            self.call_later(self.draw_call_delay(), self._run_call, future, func, args)
        return future

    def draw_call_delay(self) -> float:
        """Mostly a small part of `call_seconds_max`."""
        return float(self.call_seconds_max * self._rng.random() ** 4)

    def _run_call(
        self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        # A pool drops a cancelled call that it has not begun; one in the kernel goes on.
        if future.cancelled() and self._rng.random() < 0.5:
            return
        try:
            result = func(*args)
        except BaseException as error:  # noqa: BLE001  handed to whoever waits, as a pool does
            self.call_later(self.draw_call_delay(), _answer, future, None, error)
        else:
            self.call_later(self.draw_call_delay(), _answer, future, result, None)


def _answer(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def name_of(callback: Any) -> str:
    """A name without addresses. Steps of a task carry the task's name."""
    if isinstance(callback, (MethodType, FunctionType)):
        return callback.__qualname__
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    if isinstance(callback, functools.partial):
        return name_of(callback.func)
    return str(getattr(callback, "__qualname__", type(callback).__name__))


def _refuse_real_sockets(options: dict[str, object]) -> None:
    if options.get("ssl") or options.get("sock"):
        raise NotImplementedError("the simulated network has neither TLS nor real sockets")
