"""A family of metrics: what stands in the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from tierlog.http.readings import Read

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    kind: Kind
    help: str
    read: Read
    labels: tuple[str, ...] = ()
