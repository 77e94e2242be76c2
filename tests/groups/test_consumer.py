"""A consumer group (KIP-848), transition by transition, without I/O."""

from dataclasses import replace

import pytest

from tests.groups.classics import GROUP
from tests.groups.consumers import (
    LIMITS,
    REBALANCE_MS,
    SESSION_MS,
    Consumer,
    ConsumerBench,
    spots,
    topic_id,
)
from tierlog.groups.consumer_member import MemberState
from tierlog.groups.consumer_memory import ConsumerState
from tierlog.groups.topicview import KnownTopic, TopicView
from tierlog.groups.values import Leaving
from tierlog.wire.error_codes import ErrorCode


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


def settled(bench: ConsumerBench, count: int) -> list[Consumer]:
    people = [Consumer(bench, f"m{number}") for number in range(count)]
    bench.settle(*people)
    return people


# Joining and sharing


def test_the_first_member_is_given_everything_at_once(bench: ConsumerBench) -> None:
    reply = bench.arrive("m")
    assert (reply.error, reply.epoch, reply.interval_ms) == (ErrorCode.NONE, 1, 1_000)
    assert reply.assignment == spots("t", 0, 1, 2, 3)
    assert bench.consumers.state is ConsumerState.STABLE


def test_an_older_client_is_given_an_id(bench: ConsumerBench) -> None:
    reply = bench.arrive("")
    assert reply.member_id
    assert list(bench.consumers.members) == [reply.member_id]


def test_pitfall_18_nobody_is_given_what_another_one_has_not_confirmed_to_have_let_go(
    bench: ConsumerBench,
) -> None:
    bench.arrive("a")
    assert bench.arrive("b").assignment == frozenset()
    told = bench.send("a", 1, owned=spots("t", 0, 1, 2, 3))
    assert told.epoch == 1, "until it has let go it stays where it is"
    assert told.assignment is not None
    assert len(told.assignment) == 2
    assert bench.consumers.members["a"].state is MemberState.UNREVOKED
    assert bench.send("b", 2, owned=frozenset()).assignment is None, "not yet"
    still = bench.send("a", 1, owned=spots("t", 0, 1, 2, 3))
    assert (still.epoch, still.assignment) == (1, None)
    assert bench.send("a", 1, owned=told.assignment).epoch == 2
    given = bench.send("b", 2, owned=frozenset()).assignment
    assert given is not None
    assert given | told.assignment == spots("t", 0, 1, 2, 3)
    assert bench.consumers.state is ConsumerState.STABLE


def test_who_says_nothing_of_what_it_has_has_let_nothing_go(bench: ConsumerBench) -> None:
    bench.arrive("a")
    bench.arrive("b")
    bench.send("a", 1)
    assert bench.send("a", 1).epoch == 1
    assert bench.consumers.state is ConsumerState.RECONCILING


def test_members_share_evenly_and_all_come_to_one_epoch(bench: ConsumerBench) -> None:
    people = settled(bench, 3)
    assert sorted(len(one.owned) for one in people) == [1, 1, 2]
    assert {one.epoch for one in people} == {bench.consumers.epoch}
    assert not any(one.errors for one in people)


def test_a_quiet_beat_writes_nothing_and_says_nothing(bench: ConsumerBench) -> None:
    (one,) = settled(bench, 1)
    written = len(bench.log)
    reply = bench.send(one.id, one.epoch)
    assert (reply.epoch, reply.assignment) == (1, None)
    assert len(bench.log) == written


def test_who_says_everything_hears_everything(bench: ConsumerBench) -> None:
    (one,) = settled(bench, 1)
    reply = bench.send(
        one.id, one.epoch, topics=("t",), rebalance_timeout_ms=REBALANCE_MS, owned=one.owned
    )
    assert reply.assignment == one.owned


def test_a_member_that_joins_again_keeps_what_it_should_have(bench: ConsumerBench) -> None:
    (one,) = settled(bench, 1)
    reply = bench.arrive(one.id)
    assert (reply.epoch, reply.assignment) == (1, spots("t", 0, 1, 2, 3))
    assert bench.consumers.epoch == 1


def test_the_assignor_that_most_ask_for_is_used() -> None:
    bench = ConsumerBench(t=4, u=4)
    bench.arrive("a", topics=("t", "u"), assignor="range")
    bench.arrive("b", topics=("t", "u"), assignor="range")
    bench.arrive("c", topics=("t", "u"))
    assert bench.consumers.assignor == "range"
    assert bench.consumers.targets["a"] == spots("t", 0, 1) | spots("u", 0, 1)


def test_a_full_group_takes_nobody_else() -> None:
    bench = ConsumerBench(replace(LIMITS, consumer_size_max=1))
    bench.arrive("a")
    assert bench.arrive("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_what_members_say_of_themselves_has_a_limit() -> None:
    bench = ConsumerBench(replace(LIMITS, member_bytes_max=50, group_bytes_max=70))
    assert bench.arrive("a", topics=("t" * 50,)).error is ErrorCode.INVALID_REQUEST
    assert bench.arrive("a", topics=("t" * 40,)).error is ErrorCode.NONE
    refused = bench.arrive("b", regex="t" * 40)
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "70 bytes" in str(refused.sentence)
    assert list(bench.consumers.members) == ["a"]
    assert bench.arrive("a", topics=("u" * 45,)).error is ErrorCode.NONE
    assert bench.arrive("a").error is ErrorCode.NONE


# Epochs


def test_pitfall_18_an_epoch_that_is_ahead_or_behind_is_fenced(bench: ConsumerBench) -> None:
    (one,) = settled(bench, 1)
    assert bench.send(one.id, 2).error is ErrorCode.FENCED_MEMBER_EPOCH
    bench.set_topics(t=5)
    bench.send(one.id, 1, owned=one.owned)
    bench.set_topics(t=6)
    bench.send(one.id, 2, owned=one.owned)
    assert bench.send(one.id, 1, owned=frozenset()).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.send("nobody", 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_epoch_before_will_do_if_the_answer_was_lost(bench: ConsumerBench) -> None:
    (one,) = settled(bench, 1)
    bench.set_topics(t=5)
    bench.send(one.id, 1, owned=one.owned)
    assert bench.send(one.id, 1, owned=one.owned).epoch == 2
    assert bench.send(one.id, 1).error is ErrorCode.FENCED_MEMBER_EPOCH, "it says nothing"
    too_much = one.owned | spots("u", 0)
    assert bench.send(one.id, 1, owned=too_much).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_group_that_nobody_knows_is_joined_or_not_found(bench: ConsumerBench) -> None:
    assert bench.send("m", 3).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert GROUP not in bench.machine.groups


# Going


def test_who_leaves_is_forgotten_and_the_others_have_its_share(bench: ConsumerBench) -> None:
    first, second = settled(bench, 2)
    assert second.leave().epoch == -1
    assert bench.consumers.state is ConsumerState.ASSIGNING
    bench.settle(first)
    assert first.owned == spots("t", 0, 1, 2, 3)
    assert bench.send(second.id, -1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_not_heard_of_is_given_up(bench: ConsumerBench) -> None:
    first, second = settled(bench, 2)
    bench.wait(SESSION_MS - 1)
    first.beat()
    bench.wait(SESSION_MS - 1)
    assert list(bench.consumers.members) == [first.id]
    assert bench.send(second.id, second.epoch).error is ErrorCode.UNKNOWN_MEMBER_ID
    bench.settle(first)
    assert first.owned == spots("t", 0, 1, 2, 3)


def test_a_member_that_does_not_let_go_in_time_is_given_up(bench: ConsumerBench) -> None:
    bench.arrive("a")
    bench.arrive("b")
    for _ in range(REBALANCE_MS // 5_000):
        bench.send("a", 1, owned=spots("t", 0, 1, 2, 3))
        bench.send("b", 2, owned=frozenset())
        bench.wait(5_000)
    error = bench.send("a", 1, owned=spots("t", 0, 1, 2, 3)).error
    assert error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.send("b", 2, owned=frozenset()).assignment == spots("t", 0, 1, 2, 3)


def test_who_lets_go_in_time_stays(bench: ConsumerBench) -> None:
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    bench.settle(first, second)
    for _ in range(2 * REBALANCE_MS // 5_000):
        bench.wait(5_000)
        bench.settle(first, second, rounds=1)
    assert len(bench.consumers.members) == 2


# Static members


def test_pitfall_18_a_static_member_comes_back_without_a_rebalance(bench: ConsumerBench) -> None:
    first = Consumer(bench, "m1", instance_id="one")
    second = Consumer(bench, "m2", instance_id="two")
    bench.settle(first, second)
    share, epoch = first.owned, bench.consumers.epoch
    assert first.leave(-2).epoch == -2
    bench.settle(second)
    again = Consumer(bench, "m3", instance_id="one")
    again.beat()
    assert (again.owned, again.epoch) == (share, epoch)
    assert bench.consumers.epoch == epoch
    assert list(bench.consumers.members) == ["m2", "m3"]
    stale = bench.send("m1", epoch, instance_id="one")
    assert stale.error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_is_given_up(bench: ConsumerBench) -> None:
    first = Consumer(bench, "m1", instance_id="one")
    second = Consumer(bench, "m2")
    bench.settle(first, second)
    first.leave(-2)
    for _ in range(3):
        bench.wait(SESSION_MS // 2)
        second.beat()
    bench.settle(second)
    assert second.owned == spots("t", 0, 1, 2, 3)


def test_a_name_is_taken_until_who_has_it_leaves(bench: ConsumerBench) -> None:
    bench.arrive("m1", instance_id="one")
    assert bench.arrive("m2", instance_id="one").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert bench.arrive("m1", instance_id="one").error is ErrorCode.NONE
    assert bench.send("m2", 1, instance_id="one").error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.send("m2", 1, instance_id="two").error is ErrorCode.UNKNOWN_MEMBER_ID
    bench.send("m1", -1, instance_id="one")
    assert bench.arrive("m2", instance_id="one").error is ErrorCode.NONE


def test_a_full_group_takes_back_its_static_members() -> None:
    bench = ConsumerBench(replace(LIMITS, consumer_size_max=1))
    bench.arrive("m1", instance_id="one")
    bench.send("m1", -2, instance_id="one")
    assert bench.arrive("m2", instance_id="one").assignment == spots("t", 0, 1, 2, 3)


def test_what_a_static_member_had_to_give_back_is_free_once_it_is_gone(
    bench: ConsumerBench,
) -> None:
    first = Consumer(bench, "m1", instance_id="one")
    first.beat()
    bench.arrive("m2")
    first.beat()
    assert bench.consumers.members["m1"].state is MemberState.UNREVOKED
    first.leave(-2)
    given = bench.send("m2", 2, owned=frozenset()).assignment
    assert given is not None
    assert len(given) == 2


def test_an_administrator_takes_static_members_out_by_name(bench: ConsumerBench) -> None:
    bench.arrive("m1", instance_id="one")
    ticket = bench.ticket()
    leaving = [Leaving("", "one"), Leaving("m1", None), Leaving("", "other")]
    bench.carry_out(bench.machine.leave(GROUP, leaving, ticket, bench.now))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [one.error for one in bench.replies[ticket]] == [ErrorCode.NONE, unknown, unknown]
    assert bench.consumers.is_empty


# Topics


def test_a_topic_that_comes_later_is_shared_then(bench: ConsumerBench) -> None:
    assert bench.arrive("m", topics=("t", "later")).assignment == spots("t", 0, 1, 2, 3)
    bench.set_topics(t=4, later=1, other=3)
    reply = bench.send("m", 1, owned=spots("t", 0, 1, 2, 3))
    assert (reply.epoch, reply.assignment) == (2, spots("t", 0, 1, 2, 3) | spots("later", 0))
    bench.set_topics(t=4, later=1)
    assert bench.send("m", 2).epoch == 2, "a topic that nobody reads is no reason"


def test_a_topic_that_is_deleted_and_made_again_is_another_one(bench: ConsumerBench) -> None:
    bench.arrive("m")
    bench.view = TopicView({"t": KnownTopic(b"new".ljust(16), 2)}, generation=9)
    told = bench.send("m", 1, owned=spots("t", 0, 1, 2, 3))
    assert told.assignment == frozenset()
    given = bench.send("m", 1, owned=frozenset())
    assert given.assignment == frozenset((b"new".ljust(16), number) for number in range(2))


def test_a_subscription_that_changes_is_a_new_epoch() -> None:
    bench = ConsumerBench(t=2, u=2)
    bench.arrive("m")
    told = bench.send("m", 1, topics=("u",), owned=spots("t", 0, 1))
    assert (told.epoch, told.assignment) == (1, frozenset())
    assert bench.send("m", 1, owned=frozenset()).assignment == spots("u", 0, 1)
    assert bench.consumers.topics_read({"t", "u"}) == {"u"}


def test_a_group_reads_the_topics_that_its_patterns_match_also_right_after_a_restart() -> None:
    bench = ConsumerBench(orders_1=1, t=1)
    bench.arrive("m", topics=("t",), regex="orders_.*")
    bench.restart()
    asked = {"orders_1", "orders_9", "t", "u"}
    assert bench.consumers.topics_read(asked) == {"orders_1", "orders_9", "t"}


def test_a_group_has_no_more_different_patterns_than_it_may() -> None:
    bench = ConsumerBench(replace(LIMITS, patterns_max=2), t=1)
    assert bench.arrive("a", topics=(), regex="a.*").error is ErrorCode.NONE
    assert bench.arrive("b", topics=(), regex="b.*").error is ErrorCode.NONE
    refused = bench.arrive("c", topics=(), regex="c.*")
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "2 different patterns" in (refused.sentence or "")
    assert bench.arrive("d", topics=(), regex="a.*").error is ErrorCode.NONE
    assert bench.arrive("e").error is ErrorCode.NONE


def test_a_beat_that_saw_older_topics_does_not_take_the_group_back() -> None:
    bench = ConsumerBench(orders_1=1)
    old = bench.view
    bench.set_topics(orders_1=1, orders_2=1)
    assert bench.arrive("m", topics=(), regex="orders_.*").epoch == 1
    bench.view = old
    again = bench.send("m", 1, owned=spots("orders_1", 0) | spots("orders_2", 0))
    assert (again.epoch, bench.consumers.epoch) == (1, 1)


def test_a_pattern_matches_whole_names_now_and_later() -> None:
    bench = ConsumerBench(orders_1=1, orders_2=1, borders_1=1)
    reply = bench.arrive("m", topics=(), regex="orders_.*")
    assert reply.assignment == spots("orders_1", 0) | spots("orders_2", 0)
    bench.set_topics(orders_1=1, orders_2=1, orders_3=2, borders_1=1)
    reply = bench.send("m", 1, owned=reply.assignment)
    assert reply.assignment is not None
    assert spots("orders_3", 0, 1) <= reply.assignment
    assert bench.send("m", 2, regex="", topics=("borders_1",)).assignment == frozenset()


@pytest.mark.parametrize("pattern", ["(", "a{2000}{2000}", r"(a)\1", "(?=a)"])
def test_a_pattern_that_is_none_is_refused_and_makes_no_group(
    bench: ConsumerBench, pattern: str
) -> None:
    assert bench.arrive("m", regex=pattern).error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert GROUP not in bench.machine.groups
    assert bench.log == []


def test_a_pattern_that_would_take_pythons_re_for_ever_takes_no_time() -> None:
    bench = ConsumerBench()
    bench.set_topics(**{"a" * 200: 1})
    assert bench.arrive("m", topics=(), regex="(a+)+b|(a|a)*c").assignment == frozenset()


def test_topics_of_the_node_are_not_matched() -> None:
    bench = ConsumerBench()
    known = {"__own": KnownTopic(topic_id("__own"), 1, is_internal=True)}
    bench.view = TopicView(known, generation=9)
    assert bench.arrive("m", topics=(), regex=".*").assignment == frozenset()


# Offsets


def test_pitfall_18_a_commit_in_another_epoch_is_stale_and_of_a_stranger_unknown(
    bench: ConsumerBench,
) -> None:
    (one,) = settled(bench, 1)
    assert bench.commit(one.id, 1, 0) == [ErrorCode.NONE]
    assert bench.commit(one.id, 2, 0) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert bench.commit("nobody", 1, 0) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.commit("", -1, 0) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.commit(one.id, 1, 0, version=8) == [ErrorCode.UNSUPPORTED_VERSION]


def test_a_commit_of_an_epoch_that_is_past_counts_for_what_was_its_own_then(
    bench: ConsumerBench,
) -> None:
    (one,) = settled(bench, 1)
    bench.set_topics(t=5)
    bench.send(one.id, 1, owned=one.owned)
    assert bench.commit(one.id, 1, 0, 4) == [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH]


def test_what_has_to_be_given_back_may_still_be_committed_and_what_was_given_back_may_not(
    bench: ConsumerBench,
) -> None:
    first = Consumer(bench, "a")
    first.beat()
    bench.arrive("b")
    first.beat()
    (leaving, _) = sorted(bench.consumers.members["a"].revoking)
    assert bench.commit("a", 1, leaving[1]) == [ErrorCode.NONE]
    first.beat()
    assert bench.commit("a", 1, leaving[1]) == [ErrorCode.STALE_MEMBER_EPOCH]


def test_an_empty_group_takes_commits_of_anybody(bench: ConsumerBench) -> None:
    (one,) = settled(bench, 1)
    one.leave()
    assert bench.commit("", -1, 0) == [ErrorCode.NONE]


def test_offsets_are_read_in_a_members_own_epoch(bench: ConsumerBench) -> None:
    (one,) = settled(bench, 1)
    look = bench.machine.check_fetch
    assert look(GROUP, one.id, 1) is ErrorCode.NONE
    assert look(GROUP, one.id, 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert look(GROUP, "nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert look(GROUP, None, -1) is ErrorCode.NONE
    assert look("unknown", "nobody", 1) is ErrorCode.NONE


# Groups of two kinds


def test_a_classic_member_is_refused_by_a_consumer_group_until_it_is_empty(
    bench: ConsumerBench,
) -> None:
    (one,) = settled(bench, 1)
    bench.commit(one.id, 1, 0)
    assert bench.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.beat(one.id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    one.leave()
    bench.sync_all([bench.ask_join(bench.member())])
    assert bench.machine.committed(GROUP)["t", 0].offset == 7, "offsets stay"
    assert bench.arrive("m").error is ErrorCode.GROUP_ID_NOT_FOUND
    bench.restart()
    assert bench.group.members


def test_an_empty_classic_group_makes_room(bench: ConsumerBench) -> None:
    (old,) = bench.stable(1)
    assert bench.arrive("m").error is ErrorCode.GROUP_ID_NOT_FOUND
    bench.leave(old)
    assert bench.arrive("m").assignment == spots("t", 0, 1, 2, 3)
    bench.restart()
    assert list(bench.consumers.members) == ["m"]


def test_a_group_is_deleted_once_it_is_empty(bench: ConsumerBench) -> None:
    (one,) = settled(bench, 1)
    for wanted in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        ticket = bench.ticket()
        bench.carry_out(bench.machine.delete(GROUP, ticket, bench.now))
        assert bench.replies[ticket] is wanted
        if one.epoch:
            one.leave()
    bench.restart()
    assert not bench.machine.groups


def test_an_empty_group_without_offsets_is_forgotten(bench: ConsumerBench) -> None:
    (one,) = settled(bench, 1)
    bench.expire()
    one.leave()
    bench.expire()
    assert bench.machine.groups
    bench.wait(bench.limits.offsets_retention_ms)
    bench.expire()
    assert not bench.machine.groups


def test_offsets_outlive_the_last_member_for_their_whole_time(bench: ConsumerBench) -> None:
    """Committed long ago, by a member that stayed: they count from when it left."""
    (one,) = settled(bench, 1)
    bench.commit(one.id, 1, 0)
    bench.now_ms += bench.limits.offsets_retention_ms + 1
    one.leave()
    bench.expire()
    assert bench.machine.offsets[GROUP]
    bench.wait(bench.limits.offsets_retention_ms)
    bench.expire()
    assert not bench.machine.offsets.get(GROUP)


def test_a_member_between_two_looks_begins_the_time_of_an_empty_group_anew() -> None:
    day_ms = 86_400_000
    bench = ConsumerBench(replace(LIMITS, offsets_retention_ms=day_ms))
    bench.arrive("a")
    bench.commit("a", 1, 0)
    bench.send("a", -1)
    bench.expire()
    bench.now_ms += day_ms - 1_000
    bench.arrive("b")
    bench.now_ms += 500
    bench.send("b", -1)
    bench.now_ms += 500
    bench.expire()
    assert bench.machine.committed(GROUP), "it had a member a moment ago"
    bench.now_ms += day_ms
    bench.expire()
    assert bench.machine.group_ids() == []


def test_offsets_of_topics_that_are_read_cannot_be_deleted(bench: ConsumerBench) -> None:
    (one,) = settled(bench, 1)
    bench.commit(one.id, 1, 0)
    ticket = bench.ticket()
    bench.carry_out(bench.machine.delete_offsets(GROUP, [("t", 0)], ticket, bench.now))
    assert bench.replies[ticket] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


# A restart


def test_a_restart_remembers_members_targets_and_who_has_what(bench: ConsumerBench) -> None:
    first, second = Consumer(bench, "a", instance_id="one"), Consumer(bench, "b")
    first.beat()
    second.beat()
    first.beat()
    before = bench.consumers
    bench.restart()
    after = bench.consumers
    assert after.members == before.members
    assert after.targets == before.targets
    assert (after.epoch, after.assignment_epoch, after.topics_hash) == (
        before.epoch,
        before.assignment_epoch,
        before.topics_hash,
    )
    written = len(bench.log)
    assert second.beat().assignment is None
    assert len(bench.log) == written, "the topics are the same: no new epoch"
    bench.settle(first, second)
    assert not set(first.owned) & set(second.owned)
    assert len(first.owned) == len(second.owned) == 2
    assert not first.errors + second.errors


def test_after_a_restart_members_have_a_session_to_be_heard_of(bench: ConsumerBench) -> None:
    first, _ = settled(bench, 2)
    bench.restart()
    bench.wait(SESSION_MS - 1)
    assert len(bench.consumers.members) == 2
    first.beat()
    bench.wait(1)
    assert list(bench.consumers.members) == [first.id]


def test_after_a_restart_who_has_to_let_go_is_waited_for_no_longer_than_it_asked_for(
    bench: ConsumerBench,
) -> None:
    bench.arrive("a", rebalance_timeout_ms=3_000)
    bench.arrive("b")
    bench.send("a", 1, owned=spots("t", 0, 1, 2, 3))
    bench.restart()
    bench.wait(3_000)
    assert list(bench.consumers.members) == ["b"]


def test_a_state_of_a_newer_node_begins_anew(bench: ConsumerBench) -> None:
    bench.arrive("a")
    group = bench.consumers
    group.members["a"] = replace(group.members["a"], state=MemberState.UNKNOWN)
    refused = bench.send("a", 1, owned=spots("t", 0))
    assert refused.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.arrive("a").assignment == spots("t", 0, 1, 2, 3)
    assert bench.consumers.state is ConsumerState.STABLE
