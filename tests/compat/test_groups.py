"""Consumer groups of real clients: who reads what, from where, and what happens when somebody
comes, goes or is killed: a member, or the node itself."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError

from tests.compat.cold import create_cold, fetch_once, wait_cold
from tests.compat.conftest import available
from tests.compat.drivers.base import CLIENT_ID, Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.groupdrivers import (
    ALL_DRIVERS,
    CONSUMER_DRIVERS,
    GroupDriver,
    Member,
    Place,
)
from tests.compat.node import RunningNode, running
from tests.compat.samples import MARKS, write
from tierlog.groups.classic import ClassicGroup
from tierlog.groups.consumer import ConsumerGroup
from tierlog.groups.machine import Group, GroupMachine
from tierlog.groups.readers import SEVERAL
from tierlog.groups.values import GroupLimits
from tierlog.records.batch import iter_batches
from tierlog.records.record import decode_records

pytestmark = MARKS

NODE_SETS = [
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "offsets.topic.num.partitions=1",  # one log to look into
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.heartbeat.interval.ms=200",
]
PARTITIONS = 6
ALL = set(range(PARTITIONS))
PATIENCE_S = 45.0
CROWD = 50


@pytest.fixture(params=ALL_DRIVERS)
def client(request: pytest.FixtureRequest) -> GroupDriver:
    """In the protocol of its name: classic, or consumer (KIP-848)."""
    found = ALL_DRIVERS[request.param]
    available(found.driver)
    return found


@pytest.fixture
def topic(request: pytest.FixtureRequest, server: str) -> str:
    """One for each test, with a record in every partition."""
    name: str = request.node.name.replace("[", ".").replace("]", "")[-80:]
    make(server, name, PARTITIONS)
    return name


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_members_come_and_go_and_the_next_goes_on_where_they_committed(
    client: GroupDriver, server: str, topic: str, closing: ExitStack
) -> None:
    first = client.member(server, topic, topic)
    closing.callback(first.close)
    until([first], lambda: first.partitions == ALL and len(first.read) == PARTITIONS)
    first.commit()
    second = client.member(server, topic, topic)
    with closed(second):
        until([first, second], lambda: shared([first, second]))
    until([first], lambda: first.partitions == ALL)
    fill(server, topic, PARTITIONS)
    until([first], lambda: {place for place in first.read if place[1] == 1} == row(1))
    first.commit()
    closing.pop_all().close()
    fill(server, topic, PARTITIONS)
    third = client.member(server, topic, topic)
    with closed(third):
        until([third], lambda: len(third.read) >= PARTITIONS)
    assert Counter(third.read) == Counter(row(2))


def test_a_killed_member_is_given_up_when_its_session_ends(
    client: GroupDriver, server: str, topic: str, closing: ExitStack
) -> None:
    with doomed(client, server, topic) as victim:
        first = client.member(server, topic, topic)
        closing.callback(first.close)
        until([first], lambda: len(first.partitions) == PARTITIONS // 2)
        victim.kill()
        until([first], lambda: first.partitions == ALL and set(first.read) == row(0))


def is_even(members: list[Member]) -> bool:
    counts = [len(one.partitions) for one in members]
    return max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    ("name", "strategy"),
    [(name, strategy) for name, one in ALL_DRIVERS.items() for strategy in one.strategies],
)
def test_every_strategy_of_a_client_shares_the_partitions(
    name: str, strategy: str, server: str, topic: str, closing: ExitStack
) -> None:
    client = ALL_DRIVERS[name]
    available(client.driver)
    members: list[Member] = []
    before: dict[int, set[int]] = {}
    for _ in range(3):
        before = {id(one): set(one.partitions) for one in members}
        members.append(client.member(server, topic, topic, strategy=strategy))
        closing.callback(members[-1].close)
        # Partitions move one by one: shared is not yet as it is meant to be.
        until(members, lambda: shared(members) and is_even(members))
    assert sorted(len(one.partitions) for one in members) == [2, 2, 2]
    assert strategy_of(group_of(server, topic)) == strategy
    if "sticky" in strategy or strategy == "uniform":
        assert all(one.partitions <= before[id(one)] for one in members[:2])
    until(members, lambda: seen(members) == row(0))


def test_a_static_member_comes_back_without_a_rebalance(
    client: GroupDriver, server: str, topic: str, closing: ExitStack
) -> None:
    members = [static(client, server, topic, number) for number in range(2)]
    closing.callback(members[0].close)
    with closed(members[1]):
        until(members, lambda: shared(members))
        before, share = group_of(server, topic), set(members[1].partitions)
    again = static(client, server, topic, 1)
    with closed(again):
        until([members[0], again], lambda: again.partitions == share)
        after = group_of(server, topic)
    assert generation_of(after) == generation_of(before)
    assert instances(after) == instances(before)
    assert after.members.keys() != before.members.keys()


def test_two_groups_read_the_same_topic_each_for_itself(
    server: str, topic: str, closing: ExitStack
) -> None:
    clients = [one for one in ALL_DRIVERS.values() if one.driver.missing() is None]
    members = [one.member(server, topic, f"{topic}-{one.name}") for one in clients]
    for one in members:
        closing.callback(one.close)
    until(members, lambda: all(len(one.read) >= PARTITIONS for one in members))
    assert all(Counter(one.read) == Counter(row(0)) for one in members)


@pytest.mark.parametrize("name", ["confluent-kafka", "confluent-kafka-consumer"])
def test_fifty_consumers_share_a_group(name: str, server: str, closing: ExitStack) -> None:
    """One partition for each, and two for some."""
    topic = f"crowded-{name}"
    make(server, topic, CROWD + 10)
    client = ALL_DRIVERS[name]
    members = [client.member(server, topic, topic) for _ in range(CROWD)]
    for one in members:
        closing.callback(one.close)
    until(members, lambda: shared(members, CROWD + 10))
    assert len(group_of(server, topic).members) == CROWD
    until(members, lambda: seen(members) == row(0, CROWD + 10))


@pytest.mark.parametrize("way", ["stopped", "killed"])
def test_groups_go_on_when_the_node_comes_back(tmp_path: Path, way: str) -> None:
    clients = [one for one in ALL_DRIVERS.values() if one.driver.missing() is None]
    with running(tmp_path, sets=NODE_SETS) as node, ExitStack() as closing:
        members = {}
        for client in clients:
            make(node.address, client.name, PARTITIONS)
            members[client.name] = [
                client.member(node.address, client.name, client.name) for _ in range(2)
            ]
            for one in members[client.name]:
                closing.callback(one.close)
        everybody = [one for pair in members.values() for one in pair]
        until(everybody, lambda: all(shared(pair) for pair in members.values()))
        until(everybody, lambda: all(seen(pair) == row(0) for pair in members.values()))
        for one in everybody:
            one.commit()
        restart(node, way)
        for client in clients:
            fill(node.address, client.name, PARTITIONS)
        wanted = row(0) | row(1)
        until(everybody, lambda: all(seen(pair) == wanted for pair in members.values()))
        until(everybody, lambda: all(shared(pair) for pair in members.values()))
        until(everybody, lambda: all(map(commits, everybody)))


def test_a_group_reads_cold_history_and_catches_up_with_the_tail(
    client: GroupDriver, server_node: RunningNode, closing: ExitStack
) -> None:
    server, topic = server_node.address, f"history-{client.name}"
    create_cold(server, topic)
    for first in range(0, 120, 20):
        records = [Record(value=b"%d" % n * 50) for n in range(first, first + 20)]
        write(Confluent(), server, topic, records, Sending())
    wait_cold(server_node, topic)
    assert server_node.partitions(topic)[0]["local_start"] == 120
    member = client.member(server, topic, topic)
    with closed(member):
        until([member], lambda: bool(member.read))
        for _ in range(5):
            fill(server, topic, 1)
            member.turn()
        until([member], lambda: len(member.read) >= 125)
        member.commit()
    assert member.read == [(0, offset) for offset in range(125)]
    # All members here have one client id: while one of another group is still on record, a reader
    # may be any of them.
    counted = [
        one
        for one in server_node.state()["tier"]["clients"]
        if one["client"] == CLIENT_ID and one["group"] in (topic, SEVERAL)
    ]
    assert sum(one["reads"] for one in counted) > 0
    assert sum(one["gets"] for one in counted) > 0
    assert sum(one["usd"] for one in counted) > 0
    fill(server, topic, 1)
    after = client.member(server, topic, topic)
    with closed(after):
        until([after], lambda: bool(after.read))
    assert after.read == [(0, 125)]


# The consumer protocol alone


@pytest.fixture(params=CONSUMER_DRIVERS)
def modern(request: pytest.FixtureRequest) -> GroupDriver:
    found = CONSUMER_DRIVERS[request.param]
    available(found.driver)
    return found


def test_a_pattern_takes_in_topics_that_are_there_and_that_come(
    modern: GroupDriver, server: str, closing: ExitStack
) -> None:
    name = f"pattern.{modern.name}"
    make(server, f"{name}.0", 2)
    make(server, f"other.{name}", 2)
    member = modern.member(server, f"^{name.replace('.', '[.]')}[.].*", name)
    closing.callback(member.close)
    until([member], lambda: len(member.read) == 2)
    Confluent().admin(server).create(f"{name}.1", 3)
    until([member], lambda: member.partitions == {0, 1, 2})
    fill(server, f"{name}.1", 3)
    until([member], lambda: len(member.read) == 5)
    assert Counter(member.read) == Counter([(0, 0), (1, 0), (0, 0), (1, 0), (2, 0)])


def test_a_topic_that_grows_is_shared_anew(
    modern: GroupDriver, server: str, topic: str, closing: ExitStack
) -> None:
    members = [modern.member(server, topic, topic) for _ in range(2)]
    for one in members:
        closing.callback(one.close)
    until(members, lambda: shared(members))
    Confluent().admin(server).grow(topic, PARTITIONS + 2)
    until(members, lambda: shared(members, PARTITIONS + 2))


def test_members_of_one_protocol_are_refused_by_a_group_of_the_other(
    server: str, topic: str, closing: ExitStack
) -> None:
    """Until it is empty: then it is taken over, with its offsets."""
    classic, modern = ALL_DRIVERS["confluent-kafka"], ALL_DRIVERS["confluent-kafka-consumer"]
    first = classic.member(server, topic, topic)
    with closed(first):
        until([first], lambda: len(first.read) == PARTITIONS)
        first.commit()
        stranger = modern.member(server, topic, topic)
        closing.callback(stranger.close)
        for _ in range(20):
            stranger.turn()
        assert not stranger.partitions
    fill(server, topic, PARTITIONS)
    second = modern.member(server, topic, topic)
    with closed(second):
        until([second], lambda: len(second.read) == PARTITIONS)
        assert Counter(second.read) == Counter(row(1))
        assert isinstance(group_of(server, topic), ConsumerGroup)


def test_a_classic_member_is_refused_by_a_living_consumer_group(
    server: str, topic: str, closing: ExitStack
) -> None:
    """INCONSISTENT_GROUP_PROTOCOL, and who is in the group goes on; then the reverse takeover."""
    classic, modern = ALL_DRIVERS["confluent-kafka"], ALL_DRIVERS["confluent-kafka-consumer"]
    first = modern.member(server, topic, topic)
    with closed(first):
        until([first], lambda: len(first.read) == PARTITIONS)
        first.commit()
        stranger = Consumer(
            {"bootstrap.servers": server, "group.id": topic, "group.protocol": "classic"}
        )
        closing.callback(stranger.close)
        stranger.subscribe([topic])
        errors = []
        for _ in range(100):
            message = stranger.poll(0.1)
            if message is not None and (error := message.error()) is not None:
                errors.append(error.code())
                break
            first.turn()
        assert errors == [KafkaError.INCONSISTENT_GROUP_PROTOCOL]
        assert not stranger.assignment()
        assert isinstance(group_of(server, topic), ConsumerGroup)
        fill(server, topic, PARTITIONS)
        until([first], lambda: len(first.read) == 2 * PARTITIONS)
        first.commit()
    fill(server, topic, PARTITIONS)
    second = classic.member(server, topic, topic)
    with closed(second):
        until([second], lambda: len(second.read) == PARTITIONS)
        assert Counter(second.read) == Counter(row(2))
        assert isinstance(group_of(server, topic), ClassicGroup)


# Writing and waiting


@pytest.fixture(scope="module")
def server_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running(tmp_path_factory.mktemp("cold"), sets=NODE_SETS) as node:
        yield node


def make(server: str, topic: str, partitions: int) -> None:
    Confluent().admin(server).create(topic, partitions)
    fill(server, topic, partitions)


def fill(server: str, topic: str, partitions: int) -> None:
    """One more record in each."""
    records = [Record(value=b"v", partition=number) for number in range(partitions)]
    write(Confluent(), server, topic, records, Sending())


def row(offset: int, partitions: int = PARTITIONS) -> set[Place]:
    return {(number, offset) for number in range(partitions)}


def until(members: Sequence[Member], condition: Callable[[], bool]) -> None:
    """All take their turns meanwhile: clients work while they are polled."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        state = [(sorted(one.partitions), len(one.read)) for one in members]
        assert time.monotonic() < end, f"it did not come true; members have {state}"
        for one in members:
            one.turn()


def shared(members: Sequence[Member], partitions: int = PARTITIONS) -> bool:
    """Every partition has one owner, every member something to do."""
    owned = sorted(partition for one in members for partition in one.partitions)
    return owned == list(range(partitions)) and all(one.partitions for one in members)


def seen(members: Sequence[Member]) -> set[Place]:
    return {place for one in members for place in one.read}


def commits(member: Member) -> bool:
    """Not while its group rebalances, which some clients make it do when their node was gone."""
    try:
        member.commit()
    except Exception:  # noqa: BLE001  # every client has its own for it
        return False
    return True


@contextmanager
def closed(member: Member) -> Iterator[None]:
    try:
        yield
    finally:
        member.close()


@contextmanager
def doomed(client: GroupDriver, server: str, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    """A member in a process of its own, once it has all partitions."""
    words = [sys.executable, "-m", "tests.compat.groupdrivers", client.name, server, topic, topic]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert set(map(int, line.split())) == ALL, line
            yield process
        finally:
            process.kill()


def static(client: GroupDriver, server: str, topic: str, number: int) -> Member:
    """It may be gone for long: nobody may give it up meanwhile."""
    name = f"instance-{number}"
    return client.member(server, topic, topic, group_instance_id=name, session_timeout_ms=30_000)


def restart(node: RunningNode, way: str) -> None:
    if way == "stopped":
        node.stop()
    else:
        node.kill()
    node.start()


# Looking into the coordinator's log


def group_of(server: str, group: str) -> Group:
    """What the log of the coordinator says of a group."""
    machine = GroupMachine(GroupLimits(), lambda prefix: prefix)
    offset, end = 0, 1
    while offset < end:
        answer = fetch_once(server, "__consumer_offsets", offset)
        assert not answer.error, answer.error
        end = answer.high_watermark
        for position, header in iter_batches(answer.batches):
            for record in decode_records(answer.batches[position : position + header.size_bytes]):
                assert record.key is not None
                known = machine.decode(record.key, record.value)
                assert known is not None, record
                machine.apply(known)
            offset = header.next_offset
    return machine.groups[group]


def strategy_of(group: Group) -> str | None:
    return group.protocol if isinstance(group, ClassicGroup) else group.assignor


def generation_of(group: Group) -> int:
    return group.generation if isinstance(group, ClassicGroup) else group.epoch


def instances(group: Group) -> dict[str | None, object]:
    if isinstance(group, ClassicGroup):
        return {one.instance_id: one.assignment for one in group.members.values()}
    return {one.instance_id: one.assigned for one in group.members.values()}
