"""What a machine is told and what it answers: values that every machine shares.

A ticket names somebody who waits for a reply; it may be answered in the same step or in a later
one. Times: `mono_ms` runs evenly and is for deadlines; `wall_ms` is for what is written down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

R = TypeVar("R")
"""A record of the machine's own kind."""


class Now(NamedTuple):
    mono_ms: int
    wall_ms: int


class Reply(NamedTuple):
    ticket: int
    value: Any


@dataclass(slots=True)
class Step(Generic[R]):
    """What an act leads to: records to be appended, then replies to be given once these are
    durable."""

    records: list[R] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    def reply(self, ticket: int, value: object) -> None:
        self.replies.append(Reply(ticket, value))


class Machine(Protocol[R]):
    """Protocol logic without I/O, whose remembered state is what its records say."""

    @property
    def wake_ms(self) -> float:
        """When `tick` is due, by the even clock; infinity: not by time alone."""
        ...

    def apply(self, record: R) -> None: ...

    def loaded(self, now: Now) -> None: ...

    def tick(self, now: Now) -> Step[R]: ...

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """Key and value."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """None: a kind that is not known, and skipped."""
        ...
