"""Whose group a reader is: by its client id and host, as far as these can tell."""

from types import SimpleNamespace
from typing import Any

from tierlog.groups.readers import FRESH_S, SEVERAL, Readers


class Clock:
    now = 100.0

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.now


def machine(**groups: list[tuple[str, str]]) -> Any:
    """Groups with members of these ids and hosts."""
    return SimpleNamespace(
        groups={
            name: SimpleNamespace(
                id=name,
                members={
                    str(number): SimpleNamespace(client_id=client, host=host)
                    for number, (client, host) in enumerate(members)
                },
            )
            for name, members in groups.items()
        }
    )


def test_a_member_is_known_by_its_id_and_host() -> None:
    machines = [machine(audit=[("a", "/h1"), ("a", "/h2")]), machine(billing=[("b", "/h1")])]
    readers = Readers(Clock(), lambda: machines)
    assert readers.group_of("a", "h1") == readers.group_of("a", "h2") == "audit"
    assert readers.group_of("b", "h1") == "billing"
    assert readers.group_of("b", "h2") == readers.group_of("c", "h1") == ""


def test_members_of_two_groups_that_share_both_are_not_told_apart() -> None:
    same = [("rdkafka", "/h1"), ("rdkafka", "/h1")]
    machines = [machine(one=same, two=same, three=[("rdkafka", "/h2")])]
    readers = Readers(Clock(), lambda: machines)
    assert readers.group_of("rdkafka", "h1") == SEVERAL
    assert readers.group_of("rdkafka", "h2") == "three"


def test_members_are_looked_at_again_after_a_while_and_not_before() -> None:
    clock, machines = Clock(), [machine()]
    readers = Readers(clock, lambda: machines)
    assert readers.group_of("a", "h") == ""
    machines[:] = [machine(audit=[("a", "/h")])]
    assert readers.group_of("a", "h") == ""
    clock.now += FRESH_S
    assert readers.group_of("a", "h") == "audit"
