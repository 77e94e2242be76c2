"""Who reads cold records, and what that took: GETs, bytes, hits, what was fetched in vain.

Clients are known by the client id of their requests and the consumer group that they read for, if
any. Some hundred are counted apart; whoever was not heard of for longest makes room for a new one,
and what it had counts as "other" from then on, so that the sums stay those of the node.

A GET counts for the reader for whom it began, whoever else has its bytes as well. Where clients
have a budget of GETs a second, it is one for each client id, whatever its groups and connections.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from tierlog.objectstore.limited import Meter

if TYPE_CHECKING:
    from tierlog.env import Clock

CLIENTS_MAX = 100
"""Counted apart: each is some lines of the metrics."""
OTHER = "other"
NAME_CHARS_MAX = 100


class Who(NamedTuple):
    """Empty: without an id, or outside of any group."""

    client: str
    group: str = ""


@dataclass(slots=True, eq=False)
class Account:
    """What one client took."""

    reads: int = 0
    """Answered with records."""
    read_bytes: int = 0
    hits: int = 0
    """Reads that found their chunk here."""
    gets: int = 0
    get_bytes: int = 0
    wasted_bytes: int = 0
    """Of chunks that were fetched for it, and left again before anybody had read of them."""
    unread_bytes: int = 0
    """Of chunks that are on their way to it or here for it now."""

    def add(self, other: Account) -> None:
        """All that counts up; what is on its way is still the other's."""
        for each in fields(self)[:-1]:
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class Reader:
    """One who reads on, or came once: what chunks are fetched for."""

    __slots__ = ("_meter", "_paid", "account", "touched")

    def __init__(self, account: Account, meter: Meter | None = None) -> None:
        """`meter`: of its client; None: it has no budget."""
        self.account = account
        self._meter = meter
        self._paid = 0
        """GETs that its client owes for already, and that did not go out yet."""
        self.touched = ""
        """The chunk that it read of last."""

    def turn(self) -> float:
        """Before a read that asks the store: how many seconds it waits for its client's budget."""
        if self._meter is None or self._paid:
            return 0.0
        self._paid += 1
        return self._meter.owe(1)

    def asked(self) -> None:
        """A GET goes out for it. Those that no turn was paid for, for an index or ahead of it, are
        owed: the next turn waits for them."""
        self.account.gets += 1
        if self._paid:
            self._paid -= 1
        elif self._meter is not None:
            self._meter.owe(1)

    @property
    def is_in_debt(self) -> bool:
        return self._meter is not None and self._meter.wait() > 0


class Price(NamedTuple):
    """Of reading from the store, in dollars."""

    get: float
    """A GET."""
    gigabyte: float
    """10^9 bytes, for retrieval and the way here."""

    def of(self, *, gets: int, get_bytes: int) -> float:
        return gets * self.get + get_bytes / 1e9 * self.gigabyte


FREE = Price(get=0.0, gigabyte=0.0)


class Clients:
    def __init__(
        self,
        clients_max: int = CLIENTS_MAX,
        *,
        clock: Clock | None = None,
        gets_per_second: float | None = None,
    ) -> None:
        """`gets_per_second`: of each client id, by `clock`; None is no limit."""
        self._max = clients_max
        self._clock = clock
        self._rate = gets_per_second
        self._meters: OrderedDict[str, Meter] = OrderedDict()
        self._accounts: OrderedDict[Who, Account] = OrderedDict()
        self.other = Account()
        """Of those who had to make room."""

    def of(self, client: str, group: str = "") -> Account:
        name = Who(client[:NAME_CHARS_MAX], group[:NAME_CHARS_MAX])
        found = self._accounts.get(name)
        if found is None:
            found = self._accounts[name] = Account()
            if len(self._accounts) > self._max:
                _, oldest = self._accounts.popitem(last=False)
                self.other.add(oldest)
        else:
            self._accounts.move_to_end(name)
        return found

    def reader(self, client: str, group: str = "", *, has_budget: bool = True) -> Reader:
        meter = self._meter_of(client) if has_budget and self._rate else None
        return Reader(self.of(client, group), meter)

    def _meter_of(self, client: str) -> Meter:
        name = client[:NAME_CHARS_MAX]
        found = self._meters.pop(name, None)
        if found is None:
            assert self._clock is not None, "it comes with a rate"
            found = Meter(self._clock, self._rate)
        self._meters[name] = found
        if len(self._meters) > self._max:
            self._meters.popitem(last=False)
        return found

    def items(self) -> list[tuple[Who, Account]]:
        """By client id and group; "other" is the last, if there are any."""
        named = list(self._accounts.items())
        return [*named, (Who(OTHER), self.other)] if self.other.reads or self.other.gets else named
