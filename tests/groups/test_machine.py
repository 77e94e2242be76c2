"""Offsets and whole groups: the machine of one shard."""

import pytest

from tests.groups.classics import GROUP, WALL_MS, Bench
from tierlog.groups import piece
from tierlog.groups.formats import NO_ID
from tierlog.groups.values import Commit, GroupLimits, Protocol
from tierlog.wire.error_codes import ErrorCode

DAY_MS = 24 * 3600 * 1000
ID = b"i" * 16
ONE = Commit("t", 0, 5, 1, "note")


@pytest.fixture
def bench() -> Bench:
    return Bench()


def commit(
    bench: Bench, *commits: Commit, member: str = "", generation: int = -1, version: int = 9
) -> list[ErrorCode]:
    ticket = bench.ticket()
    step = bench.machine.commit(
        GROUP, member, None, generation, commits, ticket, bench.now, version=version
    )
    bench.carry_out(step)
    codes: list[ErrorCode] = bench.replies[ticket]
    return codes


def test_offsets_outlive_a_restart(bench: Bench) -> None:
    assert commit(bench, ONE) == [ErrorCode.NONE]
    bench.restart()
    assert bench.machine.committed(GROUP)["t", 0][:3] == (5, 1, "note")


def test_pitfall_8_a_group_that_nobody_knows_has_no_offsets(bench: Bench) -> None:
    assert bench.machine.committed("nobody") == {}


def test_a_member_commits_in_its_generation_only(bench: Bench) -> None:
    (member,) = bench.stable(1)
    assert commit(bench, ONE, member=member, generation=1) == [ErrorCode.NONE]
    assert commit(bench, ONE, member=member, generation=2) == [ErrorCode.ILLEGAL_GENERATION]
    assert commit(bench, ONE, member="x", generation=1) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(bench, ONE) == [ErrorCode.UNKNOWN_MEMBER_ID], "a group with members is theirs"


def test_a_member_may_commit_while_others_join_but_not_before_its_sync(bench: Bench) -> None:
    first, second = bench.stable(2)
    bench.ask_join(first)
    assert commit(bench, ONE, member=second, generation=1) == [ErrorCode.NONE]
    bench.ask_join(second)
    assert commit(bench, ONE, member=second, generation=2) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_commit_is_a_sign_of_life(bench: Bench) -> None:
    (member,) = bench.stable(1)
    for _ in range(3):
        bench.wait(9_000)
        assert commit(bench, ONE, member=member, generation=1) == [ErrorCode.NONE]


def test_an_empty_group_takes_offsets_from_tools(bench: Bench) -> None:
    (member,) = bench.stable(1)
    bench.leave(member)
    assert commit(bench, ONE) == [ErrorCode.NONE]
    assert commit(bench, ONE, generation=1) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_generation_of_a_group_that_nobody_knows_is_refused(bench: Bench) -> None:
    assert commit(bench, ONE, generation=3) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert commit(bench, ONE, generation=3, version=8) == [ErrorCode.ILLEGAL_GENERATION]


def test_metadata_has_a_limit_and_the_rest_is_kept(bench: Bench) -> None:
    long = Commit("t", 1, 5, 1, "x" * 4_097)
    codes = commit(bench, ONE, long)
    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert set(bench.machine.committed(GROUP)) == {("t", 0)}


def deleted(bench: Bench, group: str = GROUP) -> ErrorCode:
    ticket = bench.ticket()
    bench.carry_out(bench.machine.delete(group, ticket, bench.now))
    code: ErrorCode = bench.replies[ticket]
    return code


def test_a_group_with_members_is_not_deleted(bench: Bench) -> None:
    (member,) = bench.stable(1)
    assert deleted(bench) is ErrorCode.NON_EMPTY_GROUP
    bench.leave(member)
    commit(bench, ONE)
    assert deleted(bench) is ErrorCode.NONE
    assert deleted(bench) is ErrorCode.GROUP_ID_NOT_FOUND
    bench.restart()
    assert bench.machine.group_ids() == []


def test_offsets_go_with_their_topic(bench: Bench) -> None:
    commit(bench, ONE, ONE._replace(topic="u"))
    bench.forget("t", NO_ID)
    bench.restart()
    assert set(bench.machine.committed(GROUP)) == {("u", 0)}


def many(bench: Bench, count: int, group: str = GROUP) -> None:
    commits = [Commit("t", number, 7, -1, "", ID) for number in range(count)]
    bench.carry_out(bench.machine.commit(group, "", None, -1, commits, bench.ticket(), bench.now))


def test_offsets_of_a_topic_that_is_gone_are_forgotten_a_piece_at_a_time(bench: Bench) -> None:
    """Nobody is told of them meanwhile, and what is committed to a new topic of the name stays."""
    many(bench, 2 * piece.RECORDS_MAX)
    many(bench, 10, group="x" * 32_000)
    bench.machine.topic_gone("t", ID)
    assert not bench.machine.committed(GROUP)
    sizes = []
    for number, step in enumerate(bench.machine.forgetting()):
        sizes.append(len(step.records))
        keys = (bench.machine.encode(one)[0] for one in step.records)
        assert sum(map(len, keys)) < 2 * piece.BYTES_MAX < 1 << 20
        bench.carry_out(step)
        if number == 0:
            commit(bench, ONE._replace(topic_id=b"n" * 16))
            commit(bench, ONE._replace(partition=999, topic_id=b"n" * 16))
    assert max(sizes) == piece.RECORDS_MAX
    assert len(sizes) > 4, "long ids make short pieces"
    assert set(bench.machine.committed(GROUP)) == {("t", 0), ("t", 999)}
    assert list(bench.machine.offsets) == [GROUP]
    bench.restart()
    assert set(bench.machine.committed(GROUP)) == {("t", 0), ("t", 999)}


def test_offsets_expire_a_piece_at_a_time_unless_somebody_comes_in_between() -> None:
    bench = Bench(GroupLimits(initial_delay_ms=0, offsets_retention_ms=DAY_MS))
    many(bench, 2 * piece.RECORDS_MAX + 1)
    bench.now_ms += DAY_MS
    steps = bench.machine.expiring(bench.now)
    bench.carry_out(next(steps))
    bench.stable(1)
    for step in steps:
        bench.carry_out(step)
    assert len(bench.machine.committed(GROUP)) == piece.RECORDS_MAX + 1
    assert bench.group.members


def test_a_look_at_many_offsets_that_stay_lets_others_have_a_turn(bench: Bench) -> None:
    many(bench, 2 * piece.LOOKS_MAX)
    assert [len(one.records) for one in bench.machine.expiring(bench.now)] == [0, 0, 0]


def test_offsets_of_a_topic_that_is_read_are_not_deleted(bench: Bench) -> None:
    subscription = bytes.fromhex("000100000001000174ffffffff")
    protocols = (Protocol("range", subscription),)
    member = bench.member(protocols=protocols)
    bench.sync_all([bench.ask_join(member, protocols=protocols)])
    commit(bench, ONE, ONE._replace(topic="u"), member=member, generation=1)
    ticket = bench.ticket()
    places = [("t", 0), ("u", 0)]
    bench.carry_out(bench.machine.delete_offsets(GROUP, places, ticket, bench.now))
    assert bench.replies[ticket] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert set(bench.machine.committed(GROUP)) == {("t", 0)}


def test_offsets_of_a_group_that_does_not_say_what_it_reads_are_not_deleted() -> None:
    """Connect's workers have words of their own; a consumer that says nothing may read anything."""
    for kind, error in (
        ("connect", ErrorCode.NON_EMPTY_GROUP),
        ("consumer", [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]),
    ):
        bench = Bench()
        commit(bench, ONE)
        said = {"protocols": (Protocol("range", b"?"),), "protocol_type": kind}
        member = bench.member(**said)
        assert bench.join(member, **said).generation == 1
        ticket = bench.ticket()
        bench.carry_out(bench.machine.delete_offsets(GROUP, [("t", 0)], ticket, bench.now))
        assert bench.replies[ticket] == error
        assert set(bench.machine.committed(GROUP)) == {("t", 0)}
        bench.leave(member)
        ticket = bench.ticket()
        bench.carry_out(bench.machine.delete_offsets(GROUP, [("t", 0)], ticket, bench.now))
        assert bench.replies[ticket] == [ErrorCode.NONE]


def test_offsets_of_an_empty_group_expire_and_then_the_group() -> None:
    bench = Bench(GroupLimits(initial_delay_ms=0, offsets_retention_ms=DAY_MS))
    (member,) = bench.stable(1)
    commit(bench, ONE, member=member, generation=1)
    bench.now_ms += 3 * DAY_MS
    bench.expire()
    assert bench.machine.committed(GROUP), "it has members"
    bench.leave(member)
    bench.now_ms += DAY_MS - 1
    bench.expire()
    assert bench.machine.committed(GROUP), "its time begins when it is empty"
    bench.now_ms += 1
    bench.expire()
    assert bench.machine.group_ids() == []
    bench.restart()
    assert bench.machine.group_ids() == []


def test_time_does_not_pass_for_what_is_written_down(bench: Bench) -> None:
    commit(bench, ONE)
    assert bench.machine.committed(GROUP)["t", 0].wall_ms == WALL_MS + bench.now_ms


def test_heartbeats_of_many_members_wake_the_machine_rarely(bench: Bench) -> None:
    ids = bench.stable(100)
    ticks = 0
    for _ in range(60):
        bench.now_ms += 1_000
        for one in ids:
            bench.beat(one, 1)
        while bench.machine.wake_ms <= bench.now_ms:
            bench.carry_out(bench.machine.tick(bench.now))
            ticks += 1
    assert ticks <= 8, "once a session, not once a heartbeat"
    assert len(bench.group.members) == 100


def test_a_follower_that_waits_longer_than_its_session_keeps_nobody_busy(bench: Bench) -> None:
    leader = bench.member(session_timeout_ms=45_000)
    follower = bench.member()
    bench.ask_join(leader, session_timeout_ms=45_000)
    bench.ask_join(follower)
    waiting = bench.ask_sync(follower, 1)
    for _ in range(6):
        bench.wait(4_000)
        bench.beat(leader, 1)
    assert waiting not in bench.replies
    bench.ask_sync(leader, 1, c_2=b"two")
    assert bench.replies[waiting].assignment == b"two"


def test_a_static_member_without_time_to_rebalance_keeps_nobody_busy(bench: Bench) -> None:
    first = bench.join(instance_id="a", rebalance_timeout_ms=0)
    bench.ask_sync(first.member_id, 1)
    other = bench.member(rebalance_timeout_ms=0)
    bench.ask_join(other, rebalance_timeout_ms=0)
    bench.leave(other)
    ticks = 0
    while bench.machine.wake_ms <= bench.now_ms + 100 and ticks < 1_000:
        bench.now_ms = max(bench.now_ms, int(bench.machine.wake_ms))
        bench.carry_out(bench.machine.tick(bench.now))
        ticks += 1
    assert ticks < 1_000


@pytest.mark.parametrize("key", [b"z", b"", bytes.fromhex("0001000167"), bytes.fromhex("0002")])
def test_a_record_that_says_nothing_is_passed_over(bench: Bench, key: bytes) -> None:
    assert bench.machine.decode(key, b"\0\3") is None
