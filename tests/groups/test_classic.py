"""The classic group, transition by transition."""

from typing import Any

import pytest

from tests.groups.classics import GROUP, Bench
from tierlog.groups.classic import State
from tierlog.groups.values import GroupLimits, Protocol, Sync
from tierlog.wire.error_codes import ErrorCode


@pytest.fixture
def bench() -> Bench:
    return Bench()


# 15: joining


def test_pitfall_15_a_new_member_is_given_an_id_to_come_back_with(bench: Bench) -> None:
    reply = bench.join()
    assert (reply.error, reply.generation) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    again = bench.join(reply.member_id)
    assert (again.error, again.generation, again.leader) == (0, 1, reply.member_id)


def test_pitfall_15_an_old_client_is_admitted_at_once(bench: Bench) -> None:
    reply = bench.join(needs_known_id=False)
    assert (reply.error, reply.generation) == (ErrorCode.NONE, 1)


def test_pitfall_15_a_static_member_needs_no_second_round(bench: Bench) -> None:
    assert bench.join(instance_id="s").error is ErrorCode.NONE


def test_pitfall_15_the_first_rebalance_waits_for_others() -> None:
    bench = Bench(GroupLimits(initial_delay_ms=3_000))
    first, second = bench.member(), bench.member()
    one = bench.ask_join(first)
    bench.wait(2_000)
    two = bench.ask_join(second)
    assert one not in bench.replies
    bench.wait(3_000)
    assert bench.replies[one].generation == bench.replies[two].generation == 1


def test_pitfall_15_the_first_rebalance_does_not_wait_for_ever() -> None:
    bench = Bench(GroupLimits(initial_delay_ms=3_000))
    one = bench.ask_join(bench.member(), rebalance_timeout_ms=7_000)
    for _ in range(4):
        bench.wait(2_000)
        bench.ask_join(bench.member(), rebalance_timeout_ms=7_000)
    assert bench.replies[one].generation == 1


def test_pitfall_15_a_leader_that_joins_again_rebalances_and_a_follower_does_not(
    bench: Bench,
) -> None:
    leader, follower = bench.stable(2)
    told = bench.join(follower)
    assert (told.error, told.generation, told.members) == (0, bench.group.generation, ())
    before = bench.group.state
    assert bench.join(leader) is None
    assert (before, bench.group.state) == (State.STABLE, State.PREPARING)


def test_only_the_leader_hears_of_the_members(bench: Bench) -> None:
    ids = [bench.member() for _ in range(3)]
    replies = [bench.replies[one] for one in [bench.ask_join(each) for each in ids]]
    leader = replies[0]
    assert [one.member_id for one in leader.members] == ids
    assert [len(one.members) for one in replies[1:]] == [0, 0]


def test_the_protocol_that_most_prefer_of_those_that_all_have_is_chosen(bench: Bench) -> None:
    range_, sticky, own = (Protocol(name, b"") for name in ("range", "sticky", "own"))
    wishes = [(own, sticky, range_), (sticky, range_), (range_, sticky)]
    ids = [bench.member(protocols=one) for one in wishes]
    tickets = [bench.ask_join(one, protocols=w) for one, w in zip(ids, wishes, strict=True)]
    assert {bench.replies[one].protocol for one in tickets} == {"sticky"}


@pytest.mark.parametrize(
    "changes",
    [
        {"protocols": (Protocol("other", b""),)},
        {"protocols": ()},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
    ],
)
def test_a_member_without_anything_in_common_is_refused(
    bench: Bench, changes: dict[str, Any]
) -> None:
    bench.stable(1)
    assert bench.join(**changes).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.group.state is State.STABLE


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_a_session_timeout_beyond_the_limits_is_refused(bench: Bench, timeout_ms: int) -> None:
    assert bench.join(session_timeout_ms=timeout_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_full_group_takes_nobody_but_its_members() -> None:
    bench = Bench(GroupLimits(initial_delay_ms=0, size_max=2))
    leader, _ = bench.stable(2)
    assert bench.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join(leader) is None


def test_ids_that_wait_for_their_owners_have_a_limit_until_these_come_or_are_late() -> None:
    bench = Bench(GroupLimits(initial_delay_ms=0, pending_max=2))
    first, _ = bench.member(), bench.member()
    assert bench.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    bench.join(first)
    third = bench.member()
    assert bench.join(needs_known_id=False) is None, "it waits for no id"
    assert bench.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    bench.wait(10_000)
    assert bench.join(third).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.member()


def test_what_a_member_says_of_itself_has_a_limit() -> None:
    bench = Bench(GroupLimits(initial_delay_ms=0, member_bytes_max=100))
    much = (Protocol("range", b"a" * 50), Protocol("sticky", b"b" * 50))
    assert bench.join(protocols=much).error is ErrorCode.MESSAGE_TOO_LARGE
    member = bench.member(protocols=much[:1])
    assert bench.join(member, protocols=much).error is ErrorCode.MESSAGE_TOO_LARGE
    assert bench.join(member, protocols=much[:1]).error is ErrorCode.NONE


def test_what_all_members_say_of_themselves_has_a_limit() -> None:
    bench = Bench(GroupLimits(initial_delay_ms=0, group_bytes_max=150))
    some = (Protocol("range", b"a" * 50),)
    member = bench.member(protocols=some)
    bench.join(member, protocols=some)
    bench.join(protocols=some, needs_known_id=False)
    for more in ({}, {"needs_known_id": False}, {"instance_id": "i"}):
        refused = bench.join(protocols=some, **more)
        assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(bench.group.members) == 2
    again = bench.join(member, protocols=some)
    assert again.error is ErrorCode.NONE, "what it said before does not count twice"


def test_an_id_that_nobody_gave_out_is_unknown(bench: Bench) -> None:
    assert bench.join("me").error is ErrorCode.UNKNOWN_MEMBER_ID
    bench.stable(1)
    assert bench.join("me").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_is_not_used_in_time_is_forgotten(bench: Bench) -> None:
    member = bench.member()
    bench.wait(10_000)
    assert bench.join(member).error is ErrorCode.UNKNOWN_MEMBER_ID


# Syncing


def test_each_member_gets_its_own_share_once_the_leader_has_said(bench: Bench) -> None:
    ids = [bench.member() for _ in range(2)]
    tickets = [bench.ask_join(one) for one in ids]
    leader, follower = (bench.replies[one] for one in tickets)
    waiting = bench.ask_sync(follower.member_id, 1)
    assert waiting not in bench.replies
    done = bench.ask_sync(leader.member_id, 1, c_1=b"one", c_2=b"two")
    assert [bench.replies[one].assignment for one in (done, waiting)] == [b"one", b"two"]
    again = bench.ask_sync(follower.member_id, 1)
    assert bench.replies[again].assignment == b"two"


def test_pitfall_16_a_member_without_a_share_gets_empty_bytes(bench: Bench) -> None:
    (member,) = bench.stable(1)
    bench.join(member)
    ticket = bench.ask_sync(member, bench.group.generation)
    assert bench.replies[ticket].assignment == b""


def test_pitfall_16_who_syncs_into_a_rebalance_is_told_so_and_stays_a_member(bench: Bench) -> None:
    first, second = bench.stable(2)
    bench.ask_join(first)
    ticket = bench.ask_sync(second, bench.group.generation)
    assert bench.replies[ticket].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.beat(second, bench.group.generation) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_join_during_the_sync_sends_everybody_back(bench: Bench) -> None:
    ids = [bench.member() for _ in range(2)]
    for one in ids:
        bench.ask_join(one)
    waiting = bench.ask_sync(ids[1], 1)
    bench.ask_join(bench.member())
    bench.join(needs_known_id=False)
    assert bench.replies[waiting].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_does_not_sync_in_time_is_left_behind(bench: Bench) -> None:
    ids = [bench.member(rebalance_timeout_ms=8_000) for _ in range(2)]
    for one in ids:
        bench.ask_join(one, rebalance_timeout_ms=8_000)
    waiting = bench.ask_sync(ids[1], 1)
    bench.wait(8_000)
    assert bench.replies[waiting].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(bench.group.members) == [ids[1]]


@pytest.mark.parametrize("generation", [0, 2])
def test_another_generation_is_refused(bench: Bench, generation: int) -> None:
    (member,) = bench.stable(1)
    assert bench.beat(member, generation) is ErrorCode.ILLEGAL_GENERATION
    ticket = bench.ask_sync(member, generation)
    assert bench.replies[ticket].error is ErrorCode.ILLEGAL_GENERATION


# Going


def test_a_member_that_is_silent_for_its_session_is_gone_and_the_rest_goes_on(
    bench: Bench,
) -> None:
    first, second = bench.stable(2)
    for _ in range(3):
        bench.wait(4_000)
        code = bench.beat(first, 1)
    assert code is ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in bench.group.members
    assert bench.join(first).generation == 2


def test_who_waits_for_an_answer_is_not_silent(bench: Bench) -> None:
    first, second = bench.stable(2)
    waiting = bench.ask_join(first)
    bench.wait(9_000)
    bench.beat(second, 1)
    bench.wait(9_000)
    assert waiting not in bench.replies
    bench.ask_join(second)
    assert bench.replies[waiting].generation == 2


def test_who_does_not_join_in_time_is_left_behind(bench: Bench) -> None:
    ids = [bench.member(rebalance_timeout_ms=20_000) for _ in range(2)]
    tickets = [bench.ask_join(one, rebalance_timeout_ms=20_000) for one in ids]
    bench.sync_all(tickets)
    waiting = bench.ask_join(ids[0], rebalance_timeout_ms=20_000)
    for _ in range(5):
        bench.wait(4_000)
        bench.beat(ids[1], 1)
    assert bench.replies[waiting].generation == 2
    assert list(bench.group.members) == [ids[0]]


def test_the_last_one_who_leaves_empties_the_group(bench: Bench) -> None:
    (member,) = bench.stable(1)
    assert bench.leave(member) is ErrorCode.NONE
    assert bench.group.state is State.EMPTY
    assert bench.leave(member) is ErrorCode.UNKNOWN_MEMBER_ID
    bench.restart()
    assert (bench.group.state, bench.group.generation) == (State.EMPTY, 2)


def test_a_rebalance_ends_when_the_one_it_waits_for_leaves(bench: Bench) -> None:
    first, second = bench.stable(2)
    waiting = bench.ask_join(first)
    bench.leave(second)
    assert bench.replies[waiting].generation == 2


# 17: static members


def static(bench: Bench) -> tuple[str, str]:
    """A group of two static members; the first leads."""
    tickets = [bench.ask_join(instance_id="a"), bench.ask_join(instance_id="b")]
    first = bench.replies[tickets[0]].member_id
    again = bench.ask_join(first, instance_id="a")
    bench.sync_all([again, tickets[1]])
    return first, bench.replies[tickets[1]].member_id


def test_pitfall_17_a_static_member_comes_back_without_a_rebalance(bench: Bench) -> None:
    _, second = static(bench)
    generation = bench.group.generation
    reply = bench.join(instance_id="b")
    assert (reply.error, reply.generation) == (ErrorCode.NONE, generation)
    assert reply.member_id != second
    assert bench.group.state is State.STABLE
    assert bench.beat(second, generation, "b") is ErrorCode.FENCED_INSTANCE_ID
    ticket = bench.ask_sync(reply.member_id, generation)
    assert bench.replies[ticket].assignment == second.encode()


def test_pitfall_17_a_static_leader_comes_back_and_need_not_assign(bench: Bench) -> None:
    first, _ = static(bench)
    reply = bench.join(instance_id="a")
    assert (reply.skip_assignment, reply.leader) == (True, reply.member_id)
    assert len(reply.members) == 2
    older = bench.join(instance_id="a", can_skip_assignment=False)
    assert (older.leader, older.members) == (reply.member_id, ())
    assert older.leader != older.member_id
    assert first not in bench.group.members


def subscription(*topics: str, generation: int = -1) -> bytes:
    """As Java says it, version 2: topics, user data, partitions that it has, generation."""
    names = b"".join(len(one).to_bytes(2, "big") + one.encode() for one in topics)
    owned = b"" if generation < 0 else b"\0\1t\0\0\0\1\0\0\0\0"
    return (
        b"\0\2"
        + len(topics).to_bytes(4, "big")
        + names
        + b"\xff" * 4
        + bool(owned).to_bytes(4, "big")
        + owned
        + generation.to_bytes(4, "big", signed=True)
    )


def both(*topics: str, generation: int = -1) -> tuple[Protocol, ...]:
    said = subscription(*topics, generation=generation)
    return (Protocol("range", said), Protocol("sticky", said))


def test_pitfall_17_a_static_member_that_tells_no_generation_any_more_bothers_nobody(
    bench: Bench,
) -> None:
    """It was there before the others, so it joined again with what it had; now it has nothing."""
    tickets = [
        bench.ask_join(instance_id="b", protocols=both("t")),
        bench.ask_join(instance_id="a", protocols=both("t")),
    ]
    member_id = bench.replies[tickets[0]].member_id
    again = bench.ask_join(member_id, instance_id="b", protocols=both("t", generation=1))
    bench.sync_all([again, tickets[1]])
    assert bench.group.generation == 2
    assert bench.join(instance_id="b", protocols=both("t")).generation == 2
    assert bench.group.state is State.STABLE


def test_pitfall_17_a_static_member_that_subscribes_to_something_else_rebalances(
    bench: Bench,
) -> None:
    bench.sync_all([bench.ask_join(instance_id="b", protocols=both("t"))])
    assert bench.join(instance_id="b", protocols=both("t", "u")).generation == 2
    assert bench.group.state is State.COMPLETING


def test_pitfall_17_a_static_member_that_changes_the_protocol_rebalances(bench: Bench) -> None:
    bench.sync_all([bench.ask_join(instance_id="b", protocols=both("t"))])
    assert bench.group.protocol == "range"
    reply = bench.join(instance_id="b", protocols=both("t")[::-1])
    assert (reply.generation, reply.protocol) == (2, "sticky")


def test_pitfall_17_what_others_than_consumers_say_is_their_own(bench: Bench) -> None:
    """Kafka looks at the protocol alone."""
    said = {"protocol_type": "connect", "instance_id": "b"}
    ticket = bench.ask_join(protocols=(Protocol("range", subscription("t")),), **said)
    member_id = bench.replies[ticket].member_id
    sync = Sync(
        group=GROUP,
        member_id=member_id,
        instance_id="b",
        generation=1,
        protocol_type=None,
        protocol=None,
        assignments={member_id: b"mine"},
    )
    bench.carry_out(bench.machine.sync(sync, bench.ticket(), bench.now))
    reply = bench.join(protocols=(Protocol("range", subscription("u")),), **said)
    assert (reply.generation, bench.group.state) == (1, State.STABLE)


def test_pitfall_17_a_static_member_leaves_by_its_name(bench: Bench) -> None:
    _, second = static(bench)
    assert bench.leave(instance_id="b") is ErrorCode.NONE
    assert second not in bench.group.members
    assert bench.leave(instance_id="b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_pitfall_17_the_new_id_outlives_a_restart(bench: Bench) -> None:
    static(bench)
    reply = bench.join(instance_id="b")
    bench.restart()
    assert bench.beat(reply.member_id, bench.group.generation, "b") is ErrorCode.NONE


def test_a_static_member_may_miss_a_rebalance_within_its_session(bench: Bench) -> None:
    first, second = static(bench)
    timeouts = {"instance_id": "a", "rebalance_timeout_ms": 7_000}
    waiting = bench.ask_join(first, protocols=(Protocol("range", b"more"),), **timeouts)
    bench.group.members[second].rebalance_timeout_ms = 7_000
    bench.wait(60_000)
    assert bench.replies[waiting].error is ErrorCode.NONE


# 16: who was answered is known


def waiting_for_its_leader(bench: Bench) -> tuple[str, str, int]:
    """Leader and follower, and the ticket of the follower's sync."""
    leader, follower = (bench.member() for _ in range(2))
    for one in (leader, follower):
        bench.ask_join(one)
    bench.wait(5)
    return leader, follower, bench.ask_sync(follower, 1)


def assert_told_to_join_and_known(bench: Bench, follower: str, ticket: int) -> None:
    assert bench.replies[ticket].error is ErrorCode.REBALANCE_IN_PROGRESS
    bench.wait(bench.replied_ms[ticket] + 9_000 - bench.now_ms)
    assert bench.beat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.join(follower)
    assert (again.error, again.generation, again.leader) == (0, 2, follower)


def test_pitfall_16_a_follower_is_known_after_its_leader_died_before_the_sync(
    bench: Bench,
) -> None:
    _, follower, ticket = waiting_for_its_leader(bench)
    bench.wait(9_999)
    assert list(bench.group.members) == [follower], "the leader's session is over"
    assert_told_to_join_and_known(bench, follower, ticket)


def test_pitfall_16_a_follower_is_known_after_its_leader_was_too_slow_to_assign(
    bench: Bench,
) -> None:
    leader, follower, ticket = waiting_for_its_leader(bench)
    while ticket not in bench.replies:
        bench.wait(3_000)
        bench.beat(leader, 1)
    assert bench.replied_ms[ticket] == 1_000 + 60_000, "to sync there is as long as to join"
    assert_told_to_join_and_known(bench, follower, ticket)


def test_pitfall_16_a_sync_that_comes_while_others_join_is_a_sign_of_life(bench: Bench) -> None:
    leader, follower = bench.stable(2)
    bench.ask_join(leader)
    bench.wait(9_000)
    ticket = bench.ask_sync(follower, 1)
    assert bench.replies[ticket].error is ErrorCode.REBALANCE_IN_PROGRESS
    bench.wait(9_000)
    assert bench.join(follower).error is ErrorCode.NONE


# Restarts


def test_a_stable_group_goes_on_after_a_restart(bench: Bench) -> None:
    first, second = bench.stable(2)
    bench.restart()
    assert bench.beat(first, 1) is bench.beat(second, 1) is ErrorCode.NONE
    ticket = bench.ask_sync(second, 1)
    assert bench.replies[ticket].assignment == second.encode()


def test_members_have_a_whole_session_after_a_restart(bench: Bench) -> None:
    first, second = bench.stable(2)
    bench.wait(9_000)
    bench.restart()
    bench.wait(9_000)
    assert bench.beat(first, 1) is ErrorCode.NONE
    bench.wait(1_000)
    assert list(bench.group.members) == [first]
    assert second not in bench.group.members


def test_a_generation_that_nobody_synced_is_forgotten_by_a_restart(bench: Bench) -> None:
    first, second = bench.stable(2)
    tickets = [bench.ask_join(one) for one in (first, second)]
    assert {bench.replies[one].generation for one in tickets} == {2}
    bench.restart()
    assert bench.beat(first, 2) is ErrorCode.ILLEGAL_GENERATION
    assert bench.beat(first, 1) is ErrorCode.NONE


# Waiting


def test_a_member_that_joins_twice_is_answered_twice(bench: Bench) -> None:
    leader, follower = bench.stable(2)
    first = bench.ask_join(leader)
    second = bench.ask_join(leader)
    assert bench.replies[first].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in bench.replies
    bench.ask_join(follower)
    assert bench.replies[second].error is ErrorCode.NONE


def test_a_member_that_syncs_twice_is_answered_twice(bench: Bench) -> None:
    leader, follower = (bench.member() for _ in range(2))
    joined = [bench.ask_join(one) for one in (leader, follower)]
    first = bench.ask_sync(follower, bench.group.generation)
    second = bench.ask_sync(follower, bench.group.generation)
    assert bench.replies[first].error is ErrorCode.REBALANCE_IN_PROGRESS
    bench.sync_all(joined[:1])
    assert bench.replies[second].error is ErrorCode.NONE


def test_who_waits_for_the_leader_longer_than_its_session_wakes_nobody(bench: Bench) -> None:
    """It is there, so its deadline means nothing; the leader's does, and then that of the phase."""
    _, follower = ids = [bench.member() for _ in range(2)]
    for one in ids:
        bench.ask_join(one)
    ticket = bench.ask_sync(follower, bench.group.generation)
    bench.wait(9_000)
    bench.beat(ids[0], bench.group.generation)
    bench.wait(2_000)
    assert ticket not in bench.replies
    assert bench.machine.wake_ms > bench.now_ms


def test_a_member_under_the_name_of_an_instance_that_is_not_there_is_unknown(bench: Bench) -> None:
    (member,) = bench.stable(1)
    assert bench.beat(member, 1, "stranger") is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.leave(member, "stranger") is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.join(member, instance_id="stranger").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beat(member, 1) is ErrorCode.NONE
