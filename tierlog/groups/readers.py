"""Which group a client reads for: a Fetch does not say, so its id and host are looked up among the
members of all groups.

What the members are is looked at again after a moment; cold readers ask once a stream, not
once a fetch. Where members of several groups share an id and a host, nobody can tell them apart,
and the answer is `SEVERAL`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tierlog.env import Clock
    from tierlog.groups.machine import GroupMachine

SEVERAL: Final = "(several)"
FRESH_S: Final = 0.05
"""Short: who joined a moment ago is counted for its whole stream. Asked once for each of them."""


class Readers:
    def __init__(self, clock: Clock, machines: Callable[[], Iterable[GroupMachine]]) -> None:
        self._clock = clock
        self._machines = machines
        self._groups: dict[tuple[str, str], str] = {}
        self._until = 0.0

    def group_of(self, client_id: str, host: str) -> str:
        """Empty: of no group."""
        now = self._clock.monotonic()
        if now >= self._until:
            self._groups = _by_client(self._machines())
            self._until = now + FRESH_S
        return self._groups.get((client_id, f"/{host}"), "")


def _by_client(machines: Iterable[GroupMachine]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for machine in machines:
        for group in machine.groups.values():
            for member in group.members.values():
                known = found.setdefault((member.client_id, member.host), group.id)
                if known != group.id:
                    found[member.client_id, member.host] = SEVERAL
    return found
