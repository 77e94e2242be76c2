"""Frames in, ordered replies out: the same over loopback, on both loops, and simulated."""

import asyncio
import itertools
import logging
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.obedient import (
    PRODUCE,
    WORLDS,
    Client,
    House,
    request,
    run_in,
    run_simulated,
    until,
)
from tierlog.broker.limits import ConnectionLimits
from tierlog.broker.request import Parts
from tierlog.env import Env
from tierlog.env.direct import DirectSender

everywhere = pytest.mark.parametrize("world", WORLDS)


@everywhere
def test_requests_of_all_sizes_are_answered_in_order(world: str) -> None:
    bodies = [bytes([number]) * (number**3 * 7 % 700_000) for number in range(120)]

    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            reading = asyncio.ensure_future(client.replies(len(bodies)))
            client.send(*bodies)
            assert await reading == bodies
            assert house.traffic.requests == len(bodies)

    run_in(world, scenario)


@everywhere
def test_a_reply_waits_for_those_before_it(world: str) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            client.send(b"now", b"later a", b"behind", b"silent", b"later b", b"blocking 5")
            assert await client.reply() == b"now"
            await until(lambda: b"b" in house.service.pending)
            await until(lambda: house.listener.pending_requests == 4)
            house.service.answer(b"b")
            house.service.answer(b"a")
            expected = [b"late a", b"behind", b"late b", b"b" * 5]
            assert await client.replies(4) == expected
            assert await client.ask(b"again") == b"again"
            assert house.listener.pending_requests == house.listener.queued_bytes == 0

    run_in(world, scenario)


@everywhere
def test_a_connection_whose_requests_take_long_gives_others_a_turn(world: str) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            busy, other = await house.visit(), await house.visit()
            for client in (busy, other):
                await client.ask(b"hello")
            seconds = itertools.count()
            house.listener.now_s = lambda: float(next(seconds))
            busy.send(*(b"long %d" % number for number in range(50)))
            other.send(b"short")
            assert await busy.replies(50) == [b"long %d" % number for number in range(50)]
            assert await other.reply() == b"short"
            assert house.service.seen.index(b"short") < house.service.seen.index(b"long 49")

    run_in(world, scenario)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(1, 30), seed=st.integers(0, 2**32))
def test_replies_keep_the_order_of_requests_whatever_finishes_first(
    data: st.DataObject, count: int, seed: int
) -> None:
    kinds = data.draw(st.lists(st.sampled_from(["late", "now", "none"]), min_size=1, max_size=25))
    late = [number for number, kind in enumerate(kinds) if kind == "late"]
    finish = data.draw(st.permutations(late))
    words = {"late": b"later ", "now": b"now ", "none": b"silent "}
    bodies = [words[kind] + str(number).encode() for number, kind in enumerate(kinds)]

    async def scenario(env: Env) -> list[bytes]:
        async with House(env) as house:
            client = await house.visit()
            client.send(*bodies)
            await until(lambda: len(house.service.seen) == len(bodies))
            for number in finish:
                house.service.answer(str(number).encode())
                await asyncio.sleep(0)
            return await client.replies(sum(kind != "none" for kind in kinds))

    answers = {"late": b"late %d", "now": b"now %d"}
    expected = [answers[kind] % i for i, kind in enumerate(kinds) if kind != "none"]
    assert run_simulated(scenario, seed=seed) == expected


@everywhere
def test_a_peer_that_leaves_cancels_what_it_waited_for(world: str) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            client.send(b"later poll")
            await until(lambda: b"poll" in house.service.pending)
            await client.close()
            await until(house.service.pending[b"poll"].cancelled)
            await until(lambda: house.listener.connections == 0)

    run_in(world, scenario)


@everywhere
@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (pack(">i", 0), "a frame of 0 bytes"),
        (pack(">i", -7), "a frame of -7 bytes"),
        (pack(">i", 2**31 - 1), "a frame of 2147483647 bytes"),
        (pack(">ih", 9 << 20, 3), "allowed are 1 to 8388608"),
        (pack(">ih", 101 << 20, PRODUCE), "allowed are 1 to 104857600"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS on a plain port: this port is plaintext"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP: this is the Kafka port"),
    ],
)
def test_a_size_that_cannot_be_ends_the_connection_with_a_clear_line(
    world: str, raw: bytes, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            neighbour = await house.visit()
            client = await house.visit()
            client.send(b"fine")
            client.send_raw(raw)
            assert await client.reply() == b"fine"
            assert await client.is_ended()
            assert house.traffic.closed_bad_frame == 1
            again = await house.visit()
            again.send_raw(raw)
            assert await again.is_ended()
            assert await neighbour.ask(b"unhurt") == b"unhurt"

    with caplog.at_level(logging.WARNING):
        run_in(world, scenario)
    lines = [line for line in caplog.messages if "closing the connection" in line]
    assert len(lines) == 1, "one line for each address and minute"
    assert what in lines[0]


def test_a_large_produce_is_taken_and_a_large_anything_else_is_not() -> None:
    body = b"x" * (9 << 20)

    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            reading = asyncio.ensure_future(client.reply())
            client.send_raw(request(body, key=PRODUCE))
            assert await reading == body

    run_in("uvloop", scenario)


@everywhere
@pytest.mark.parametrize("word", [b"refused", b"broken"])
def test_a_handler_that_raises_ends_its_own_connection_only(
    world: str, word: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            neighbour = await house.visit()
            client = await house.visit()
            client.send(b"later a", b"before", word, b"never seen")
            await until(lambda: word in house.service.seen)
            house.service.answer(b"a")
            assert await client.replies(2) == [b"late a", b"before"]
            assert await client.is_ended()
            assert await neighbour.ask(b"unhurt") == b"unhurt"
            assert b"never seen" not in house.service.seen
            counted = (house.traffic.closed_by_service, house.traffic.failed_requests)
            assert counted == ((1, 0) if word == b"refused" else (0, 1))

    run_in(world, scenario)
    assert len(caplog.records) == 1
    assert (caplog.records[0].exc_info is not None) == (word == b"broken")


@everywhere
@pytest.mark.parametrize("kind", ["error", "cancelled"])
def test_a_handler_that_fails_later_ends_the_connection_in_its_turn(world: str, kind: str) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            client.send(b"later a", b"later bad", b"later c", b"d")
            await until(lambda: b"c" in house.service.pending)
            bad, behind = house.service.pending[b"bad"], house.service.pending[b"c"]
            bad.set_exception(ValueError("bug")) if kind == "error" else bad.cancel()
            house.service.answer(b"a")
            assert await client.reply() == b"late a"
            assert await client.is_ended()
            await until(behind.cancelled)

    run_in(world, scenario)


@everywhere
def test_nothing_is_handled_behind_a_request_that_ended_the_connection(world: str) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            client.send(b"failed", b"blocking 5", b"too late")
            assert await client.is_ended()
            assert house.service.seen == [b"failed", b"blocking 5"]

    run_in(world, scenario)


def test_replies_of_one_wakeup_leave_in_one_send(monkeypatch: pytest.MonkeyPatch) -> None:
    sends: list[int] = []
    send = DirectSender.send

    def counting(self: DirectSender, parts: Parts, *, may_block: bool = False) -> None:
        sends.append(len(parts))
        send(self, parts, may_block=may_block)

    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            client.send(b"a", b"b", b"c")
            assert await client.replies(3) == [b"a", b"b", b"c"]
            client.send(b"later d", b"e", b"later f")
            await until(lambda: b"f" in house.service.pending)
            house.service.answer(b"d")
            house.service.answer(b"f")
            assert await client.replies(3) == [b"late d", b"e", b"late f"]
            assert sends == [6, 6]

    monkeypatch.setattr(DirectSender, "send", counting)
    run_in("uvloop", scenario)


@everywhere
def test_a_peer_that_does_not_read_is_not_read_either(world: str) -> None:
    limits = ConnectionLimits(reply_bytes_max=1 << 20)
    count = 60

    async def scenario(env: Env) -> None:
        async with House(env, limits) as house:
            client = await house.visit()
            client.send(*[b"large 500000"] * count)
            await until(lambda: house.traffic.pauses > 0)
            seen = len(house.service.seen)
            assert seen < count, "the rest waits in its buffer"
            assert house.listener.in_flight_bytes < 3 << 20
            neighbour = await house.visit()
            assert await neighbour.ask(b"unhurt") == b"unhurt"
            for _ in range(count):
                assert len(await client.reply()) == 500_000
            assert await client.ask(b"and on") == b"and on"

    run_in(world, scenario)


@everywhere
def test_a_connection_takes_no_more_than_its_budget_and_goes_on_after(world: str) -> None:
    limits = ConnectionLimits(in_flight_bytes_max=100_000)
    names = [b"%d" % number + b"." * 10_000 for number in range(40)]

    async def scenario(env: Env) -> None:
        async with House(env, limits) as house:
            client = await house.visit()
            client.send(*[b"later " + name for name in names])
            await until(lambda: house.traffic.pauses > 0)
            assert len(house.service.pending) < 15
            for name in names:
                await until(lambda name=name: name in house.service.pending)  # type: ignore[misc]  # mypy infers no type for a lambda with defaults
                house.service.answer(name, name[:2])
            assert await client.replies(len(names)) == [name[:2] for name in names]

    run_in(world, scenario)


@everywhere
def test_connections_share_the_budget_of_the_node_in_turn(world: str) -> None:
    limits = ConnectionLimits(node_bytes_max=4 << 20)

    async def scenario(env: Env) -> None:
        async with House(env, limits) as house:
            clients = [await house.visit() for _ in range(6)]
            for number, client in enumerate(clients):
                for turn in range(10):
                    client.send(b"later %d.%d " % (number, turn) + b"." * 200_000)
            await until(lambda: house.traffic.pauses >= 5)
            assert house.listener.in_flight_bytes < (4 << 20) + 6 * 500_000
            answered = 0
            while answered < 60:
                await until(lambda: bool(house.service.pending))
                for name in list(house.service.pending):
                    house.service.answer(name, name[:3])
                    answered += 1
            for number, client in enumerate(clients):
                expected = [b"%d.%d" % (number, turn) for turn in range(10)]
                assert await client.replies(10) == expected

    run_in(world, scenario)


async def send_slowly(client: Client, data: bytes, step: int) -> None:
    for start in range(0, len(data), step):
        client.send_raw(data[start : start + step])
        await asyncio.sleep(0)


@pytest.mark.parametrize("step", [1, 3, 1000, 70_000])
def test_frames_in_pieces_are_put_together(step: int) -> None:
    bodies = [b"a", b"b" * (30 * step), b"c" * 5, b"d" * (7 * step)]

    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            reading = asyncio.ensure_future(client.replies(len(bodies)))
            await send_slowly(client, b"".join(map(request, bodies)), step)
            assert await reading == bodies

    run_simulated(scenario)
    run_in("uvloop", scenario)


def test_half_frames_that_fill_the_budget_together_still_get_through() -> None:
    limits = ConnectionLimits(node_bytes_max=3 << 20)
    body = b"h" * (2 << 20)

    async def scenario(env: Env) -> None:
        async with House(env, limits) as house:
            clients = [await house.visit() for _ in range(5)]
            reading = [asyncio.ensure_future(client.reply()) for client in clients]
            for client in clients:
                client.send(body)
            assert await asyncio.gather(*reading) == [body] * 5

    run_simulated(scenario)
