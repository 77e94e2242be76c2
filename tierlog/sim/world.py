"""The simulated world: hosts with disks and clocks, a network, one loop, one seed.

    async def scenario(world: SimWorld) -> None:
        server = world.start("a", serve(world.env("a")), name="serve")
        ...
        world.power_cut("a")

    simulate(scenario, seed=7)

Code of a host runs through `start` or `env(host).tasks.spawn`, and whatever it starts belongs to
the same process. `kill` and `power_cut` end that process between two callbacks; `env(host)` is then
the environment of the next one. Every failure leaves with its seed and the command that replays it.
"""

import asyncio
import gc
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from inspect import iscoroutine
from random import Random
from typing import Any, TypeAlias, TypeVar

from tierlog.env import Env, PlainSenders
from tierlog.sim.disk import PowerCut, SimDisk
from tierlog.sim.life import Life, context_of, current_life, life_of
from tierlog.sim.loop import SimLoop, SimTask
from tierlog.sim.ports import SimClock, SimRng, SimTasks
from tierlog.sim.power import DataFate, NameFate

T = TypeVar("T")

CLEANUP_SECONDS = 3600.0
"""Virtual time that tasks are given to end after the scenario did."""


class HostDied(Exception):
    """The process that was to answer is dead."""


class SimHost:
    """A machine: what outlives its processes."""

    def __init__(self, name: str, loop: SimLoop) -> None:
        self.name = name
        self._loop = loop
        self.use(SimDisk())
        self.clock = SimClock(loop)
        self.life = Life(name, 0)
        self.answers: list[asyncio.Future[Any]] = []

    def use(self, disk: SimDisk) -> None:
        """Whatever was there is gone with the disk before it."""
        self.disk = disk
        disk.trace = lambda op: self._loop.trace.fold(f"{self.name} {op}")


class SimWorld:
    """See the module."""

    def __init__(self, seed: int, *, seconds_max: float = float("inf")) -> None:
        self.seed = seed
        self.loop = SimLoop(self.rng("loop"))
        self.loop.seconds_max = seconds_max
        self.loop.set_exception_handler(self._on_problem)
        self.network = self.loop.network
        self.hosts: dict[str, SimHost] = {}
        self._chance = self.rng("power")

    def rng(self, name: str) -> Random:
        """A stream of its own for each purpose: new draws in one do not shift the others."""
        return Random(f"{self.seed}/{name}")

    # Hosts

    def host(self, name: str) -> SimHost:
        if name not in self.hosts:
            self.hosts[name] = SimHost(name, self.loop)
        return self.hosts[name]

    def disk(self, name: str) -> SimDisk:
        return self.host(name).disk

    def env(self, name: str) -> Env:
        """The ports of the host's present process."""
        host = self.host(name)
        life = host.life
        return Env(
            clock=host.clock,
            rng=SimRng(self.rng(f"{name}.{life.number}")),
            disk=host.disk,
            tasks=SimTasks(self.loop, life),
            senders=PlainSenders(),
        )

    def start(self, name: str, work: Coroutine[Any, Any, T], *, what: str) -> asyncio.Future[T]:
        """Run on the host. The answer is the result, or `HostDied` if the process dies first.
        Cancelling the answer cancels the work."""
        host = self.host(name)
        task = SimTasks(self.loop, host.life).spawn(work, name=what)
        answer: asyncio.Future[T] = self.loop.create_future()
        host.answers = [each for each in host.answers if not each.done()]
        host.answers.append(answer)
        task.add_done_callback(lambda _: _pass_on(task, answer), context=context_of(None))
        answer.add_done_callback(lambda _: answer.cancelled() and task.cancel())
        return answer

    # What happens to hosts

    def kill(self, name: str) -> None:
        """kill -9: the page cache and the kernel's part of the connections survive."""
        self._check_not_own(name)
        self._end_life(name, silently=False)
        self.disk(name).kill()

    def die(self) -> asyncio.Future[None]:
        """kill -9 of the running process by itself. Await the answer at once: it never comes."""
        life = current_life()
        assert life is not None, "only a process can die"
        self._end_life(life.host, silently=False)
        self.disk(life.host).kill()
        return self.loop.create_future()

    def freeze(self, name: str) -> None:
        """SIGSTOP: the host's process stands still until it thaws or dies. If it is the one that
        runs now, the current callback still runs to its end."""
        self.loop.trace.fold(f"{name} freezes")
        self.host(name).life.frozen = True

    def thaw(self, name: str) -> None:
        self.loop.trace.fold(f"{name} thaws")
        self.loop.thaw(self.host(name).life)

    def is_frozen(self, name: str) -> bool:
        return self.host(name).life.frozen

    def power_cut(
        self, name: str, *, data: DataFate | None = None, names: NameFate | None = None
    ) -> None:
        """The machine is off and on again. Peers hear nothing until they send something."""
        self._check_not_own(name)
        self._end_life(name, silently=True)
        self.disk(name).power_cut(self._chance, data=data, names=names)

    def lose_disk(self, name: str) -> None:
        """The machine is gone for good; another one takes its name and has an empty disk."""
        self._check_not_own(name)
        self._end_life(name, silently=True)
        self.host(name).use(SimDisk())

    def power_cut_after(self, name: str, op_count: int) -> "asyncio.Future[str]":
        """Cut the power in the middle of the host's code, when it begins its `op_count`-th next
        disk operation. The answer tells which one it was, once the machine is up again."""
        disk = self.disk(name)
        done: asyncio.Future[str] = self.loop.create_future()
        last = disk.op_count + op_count - 1

        def cut(op: str) -> None:
            if disk.op_count < last:
                return
            self._end_life(name, silently=True)
            self.loop.call_soon(finish, op, context=context_of(None))
            raise PowerCut(op)

        def finish(op: str) -> None:
            disk.on_op = None
            disk.power_cut(self._chance)
            done.set_result(op)

        disk.on_op = cut
        return done

    def _check_not_own(self, name: str) -> None:
        # The rest of the callback would go on, on a disk that already serves the next process.
        assert current_life() is not self.host(name).life, "a process cannot end itself"

    def _end_life(self, name: str, *, silently: bool) -> None:
        host = self.host(name)
        self.loop.trace.fold(f"{name}.{host.life.number} dies")
        host.life.alive = False
        host.life.stalled.clear()
        host.life = Life(name, host.life.number + 1)
        self.network.end_host(name, silently=silently)
        answers, host.answers = host.answers, []
        for answer in answers:
            if not answer.done():
                answer.set_exception(HostDied(name))
                answer.exception()  # Whoever does not wait for it need not hear of it.

    # Running

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end, then end everything. A world runs once."""
        with _uncollected():
            return self._run(work)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            result = self.loop.run_until_complete(work)
            self._clean_up()
            self._raise_lost_error()
        except BaseException as error:
            error.add_note(self._story())
            raise
        finally:
            self._drop_dead_tasks()
            self.loop.close()
        return result

    def trace_hash(self) -> str:
        return self.loop.trace.hexdigest()

    def _story(self) -> str:
        tail = "\n".join(f"    {line}" for line in self.loop.trace.tail())
        return f"simulated world, seed {self.seed}; its last events:\n{tail}"

    def _on_problem(self, loop: object, context: dict[str, Any]) -> None:
        error = context.get("exception") or RuntimeError(context["message"])
        # The callback in which the power went is no more; nobody is there to be told. Generators
        # that are left when all others have ended were a dead process's.
        if not isinstance(error, PowerCut) and "asyncgen" not in context:
            self.loop.lost_errors.append(error)

    def _clean_up(self) -> None:
        self.loop.seconds_max = self.loop.time() + CLEANUP_SECONDS
        for host in self.hosts.values():
            self.loop.thaw(host.life)
        tasks = [task for task in self.loop.pending_tasks() if _is_alive(task)]
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks))
        self._forget_dead_generators()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())

    def _raise_lost_error(self) -> None:
        self.loop.pending_tasks()
        if self.loop.lost_errors:
            raise self.loop.lost_errors[0]

    def _forget_dead_generators(self) -> None:
        """Those in the middle of a step belong to dead processes, and could not be closed."""
        generators = self.loop._asyncgens  # type: ignore[attr-defined]  # private
        for generator in [one for one in generators if one.ag_running]:
            generators.discard(generator)

    def _drop_dead_tasks(self) -> None:
        """Free the coroutines of dead processes without a word from them, or about those that they
        had no time to begin."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for task in self.loop.pending_tasks():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # private
                _close(task.get_coro())


@contextmanager
def _uncollected() -> Iterator[None]:
    """When the collector comes depends on what ran in the process before, and what it finds may
    call back: no part of a history that a seed decides. A world is small and short, too."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _is_alive(task: SimTask[Any]) -> bool:
    life = life_of(task.context)
    return life is None or life.alive


def _close(work: Any) -> None:
    """From the inside out: a coroutine whose `finally` awaits refuses to be closed, and whoever
    awaits it would leave it behind. It is closed again at its next await."""
    for _ in range(1000):
        inner = _innermost(work)
        try:
            inner.close()
        except BaseException:  # noqa: BLE001  nobody is left to hear it
            continue
        if inner is work:
            return


def _innermost(work: Any) -> Any:
    while iscoroutine(awaited := getattr(work, "cr_await", None)) and awaited.cr_frame is not None:
        work = awaited
    return work


def _pass_on(task: asyncio.Task[T], answer: asyncio.Future[T]) -> None:
    if answer.done():
        return
    if task.cancelled():
        answer.cancel()
    elif error := task.exception():
        answer.set_exception(error)
    else:
        answer.set_result(task.result())


Scenario: TypeAlias = Callable[[SimWorld], Coroutine[Any, Any, T]]


def simulate(scenario: Scenario[T], *, seed: int, world: SimWorld | None = None) -> T:
    """Run a scenario, a module-level `async def f(world)`, under one seed."""
    world = world or SimWorld(seed)
    try:
        return world.run(scenario(world))
    except BaseException as error:
        error.add_note(replay_hint(scenario, seed))
        raise


def replay_hint(scenario: Scenario[Any], seed: int) -> str:
    module, name = scenario.__module__, scenario.__qualname__
    if not name.isidentifier():  # A function inside a function cannot be named from outside.
        return f"replay: simulate({name}, seed={seed}); one at module level replays by command"
    return f"replay: python -m tierlog.sim.replay {module}:{name} --seed {seed}"
