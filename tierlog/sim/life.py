"""Which simulated process is running right now.

Every callback carries a context; the context carries the `Life` of the process that it belongs
to. When a process dies, its life ends, and the loop drops whatever still carries it: a dead process
runs nothing more, not even its `finally` blocks, as after a real kill -9. A frozen one (SIGSTOP)
runs nothing until it thaws; the loop keeps its callbacks, and its timers ring late.
"""

from __future__ import annotations

import contextvars
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

DRIVER = "driver"
"""The host of code that runs outside every simulated machine: the test itself."""


@dataclass(slots=True, eq=False)
class Life:
    """One process on one host, from its start to its death."""

    host: str
    number: int
    alive: bool = True
    frozen: bool = False
    stalled: list[asyncio.Handle] = field(default_factory=list)
    """What would have run, had it not been frozen."""


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("tierlog_life", default=None)


OUTSIDE = contextvars.Context()
"""Belongs to no process: for the callbacks of wires and machines."""


def current_life() -> Life | None:
    return LIFE.get()


def current_host() -> str:
    life = LIFE.get()
    return DRIVER if life is None else life.host


def life_of(context: contextvars.Context) -> Life | None:
    return context.get(LIFE)


def context_of(life: Life | None) -> contextvars.Context:
    """A copy of the current context that belongs to `life`."""
    context = contextvars.copy_context()
    context.run(LIFE.set, life)
    return context
