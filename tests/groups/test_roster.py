"""The roster of a classic group: its counts are those of its members, and joins stay cheap."""

import sys
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from tests.groups.classics import Bench, join
from tierlog.groups.member import Member, member_of
from tierlog.groups.roster import Roster
from tierlog.groups.values import GroupLimits, Protocol

NAMES = st.lists(st.sampled_from(["range", "sticky", "own"]), min_size=1, max_size=3)
ACTS = st.lists(st.tuples(st.sampled_from("armsj"), st.integers(0, 5), NAMES), max_size=30)


def said(number: int, names: list[str]) -> Any:
    protocols = tuple(Protocol(one, one.encode() * number) for one in names)
    return join(f"m{number}", protocols=protocols, instance_id=f"s{number}" if number < 2 else None)


def check(roster: Roster) -> None:
    members = list(roster.members.values())
    assert roster.said_bytes == sum(one.said_bytes for one in members)
    assert roster.joining == {one.id for one in members if one.joining is not None}
    assert roster.statics == {one.instance_id: one.id for one in members if one.instance_id}
    common = set.intersection(*({p.name for p in one.protocols} for one in members), set(ALL))
    for name in ALL:
        asked = join("new", protocols=(Protocol(name, b""),))
        assert roster.agrees(asked) == (name in common)
    if members and common:
        votes = [next(p.name for p in one.protocols if p.name in common) for one in members]
        chosen = roster.selected_protocol()
        assert votes.count(chosen) == max(votes.count(one) for one in votes)


ALL = ("range", "sticky", "own")


@given(ACTS)
def test_the_counts_are_those_of_the_members(acts: list[tuple[str, int, list[str]]]) -> None:
    roster = Roster()
    for act, number, names in acts:
        known: Member | None = roster.members.get(f"m{number}")
        asked = said(number, names)
        if act == "a" and known is None:
            roster.add(member_of(asked, asked.member_id))
        elif act == "r" and known is not None:
            roster.remove(known)
        elif act == "m" and known is not None:
            roster.update(known, asked)
        elif act == "s":
            roster.set([one for one in roster.members.values() if one is not known])
        elif act == "j" and known is not None:
            known.joining = number
            roster.joining.add(known.id)
        check(roster)


def calls_of_the_last_join(count: int) -> int:
    """Calls, steps of generators among them, that one more member costs."""
    bench = Bench(GroupLimits(initial_delay_ms=3_000))
    for _ in range(count):
        bench.ask_join(needs_known_id=False)
    calls = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        bench.ask_join(needs_known_id=False)
    finally:
        sys.setprofile(None)
    return calls


def test_a_join_costs_the_same_however_many_members_there_are() -> None:
    assert calls_of_the_last_join(1_000) <= calls_of_the_last_join(10)
