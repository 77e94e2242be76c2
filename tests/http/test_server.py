"""The HTTP server: over real sockets, and where time matters in the simulated world."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from tests.http.support import Caller, calling, serving, until
from tierlog.env import local_env
from tierlog.http.server import HttpLimits
from tierlog.sim import SimWorld, simulate

SEEDS = range(10)


# Real sockets


async def test_requests_follow_each_other_on_one_connection() -> None:
    async with serving(local_env()) as (server, port), calling("127.0.0.1", port) as caller:
        for _ in range(3):
            answer = await caller.ask("/hello")
            assert (answer.status, answer.body) == (200, b"hello\n")
            assert answer.headers["Connection"] == "keep-alive"
        assert server.connections == 1


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with serving(local_env()) as (_, port), calling("127.0.0.1", port) as caller:
        caller.send(b"".join(b"GET /echo?n=%d HTTP/1.1\r\nHost: h\r\n\r\n" % n for n in range(20)))
        for number in range(20):
            assert (await caller.answer()).body == repr([("n", str(number))]).encode()


async def test_a_connection_ends_where_the_client_says_so() -> None:
    async with serving(local_env()) as (_, port), calling("127.0.0.1", port) as caller:
        answer = await caller.ask("/hello", Connection="close")
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        assert await caller.is_closed()


async def test_head_is_get_without_the_body() -> None:
    async with serving(local_env()) as (_, port), calling("127.0.0.1", port) as caller:
        answer = await caller.ask("/hello", method="HEAD")
        assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, "6", b"")
        assert (await caller.ask("/hello")).body == b"hello\n"


async def test_an_unknown_path_is_told_the_routes() -> None:
    async with serving(local_env()) as (_, port), calling("127.0.0.1", port) as caller:
        for path in ("/nothing", "/hello/", "/../etc/passwd", "/%2e%2e/etc/passwd", "//hello"):
            answer = await caller.ask(path)
            assert answer.status == 404
            assert answer.headers["Content-Type"] == "application/problem+json"
            problem = json.loads(answer.body)
            assert (problem["title"], problem["status"]) == ("Not Found", 404)
            assert problem["routes"] == ["/echo", "/faulty", "/hello", "/large", "/never"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
async def test_another_method_is_told_which_are_allowed(method: str) -> None:
    async with serving(local_env()) as (_, port), calling("127.0.0.1", port) as caller:
        answer = await caller.ask("/hello", method=method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert json.loads(answer.body)["status"] == 405
        assert (await caller.ask("/hello")).status == 200


async def test_a_request_with_a_body_is_answered_and_ends_the_connection() -> None:
    async with serving(local_env()) as (_, port), calling("127.0.0.1", port) as caller:
        # More than the kernel holds for one connection: the answer must not wait for all of it.
        smuggled = b"GET /never HTTP/1.1\r\nHost: h\r\n\r\n" * 1000
        caller.send(b"POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % 10**9)
        caller.send(smuggled)
        assert (await caller.answer()).status == 405
        assert await caller.is_closed()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # TLS
        (b"\x00\x00\x00\x12\x00\x12\x00\x03", 400),  # Kafka
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\n", 505),
        (b"GET /" + b"a" * 40_000, 431),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 40_000 + b"\r\n\r\n", 431),
    ],
)
async def test_what_is_no_request_is_refused_and_ends_the_connection(
    sent: bytes, status: int
) -> None:
    async with serving(local_env()) as (_, port), calling("127.0.0.1", port) as caller:
        caller.send(sent)
        answer = await caller.answer()
        assert (answer.status, answer.headers["Connection"]) == (status, "close")
        assert json.loads(answer.body)["status"] == status
        assert await caller.is_closed()


async def test_empty_lines_before_a_request_are_passed_over() -> None:
    async with serving(local_env()) as (_, port), calling("127.0.0.1", port) as caller:
        caller.send(b"\r\n\r\n")
        assert (await caller.ask("/hello")).status == 200


async def test_a_faulty_handler_is_a_500_and_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(local_env()) as (_, port), calling("127.0.0.1", port) as caller:
        with caplog.at_level(logging.ERROR):
            answer = await caller.ask("/faulty")
        assert answer.status == 500
        assert b"ZeroDivision" not in answer.body
        assert "GET /faulty failed" in caplog.text
        assert (await caller.ask("/hello")).status == 200


async def test_beyond_the_limit_connections_are_turned_away() -> None:
    limits = HttpLimits(connections_max=2)
    async with serving(local_env(), limits=limits) as (server, port):
        first, second = [await Caller.to("127.0.0.1", port) for _ in range(2)]
        assert {(await one.ask("/hello")).status for one in (first, second)} == {200}
        async with calling("127.0.0.1", port) as third:
            answer = await third.answer()
            assert (answer.status, answer.headers["Connection"]) == (503, "close")
        first.close()
        await until(lambda: server.connections < 2)
        async with calling("127.0.0.1", port) as third:
            assert (await third.ask("/hello")).status == 200
        second.close()


async def test_closing_ends_what_is_under_way() -> None:
    async with serving(local_env()) as (server, port), calling("127.0.0.1", port) as caller:
        caller.send(b"GET /never HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(lambda: server.connections)
        await server.close()
        assert server.connections == 0


def test_a_uvloop_serves_and_parts_alike() -> None:
    async def scenario() -> None:
        async with serving(local_env()) as (server, port):
            async with calling("127.0.0.1", port) as caller:
                assert len((await caller.ask("/large")).body) == 8 << 20
                assert (await caller.ask("/hello", method="HEAD")).status == 200
                caller.send(b"GET /" + b"a" * 40_000)
                assert (await caller.answer()).status == 431
                assert await caller.is_closed()
            await until(lambda: not server.connections)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


# Virtual time

LIMITS = HttpLimits(head_s=10, idle_s=75, answer_s=30)


def in_world(scenario: Callable[[SimWorld, Caller], Awaitable[None]], *, seed: int) -> None:
    """Run against a server on another host."""

    async def whole(world: SimWorld) -> None:
        bound: asyncio.Future[int] = world.loop.create_future()

        async def serve() -> None:
            async with serving(world.env("node"), host="node", limits=LIMITS) as (_, port):
                bound.set_result(port)
                await asyncio.Event().wait()

        node = world.start("node", serve(), what="serve")
        async with calling("node", await bound) as caller:
            await scenario(world, caller)
        node.cancel()

    simulate(whole, seed=seed)


def shortly_before(seconds: float) -> float:
    """The server's clock began with what it received, not with what was received of it."""
    return seconds - 0.1


def now(world: SimWorld) -> float:
    return world.loop.time()


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_are_served_in_the_simulated_world(seed: int) -> None:
    async def scenario(world: SimWorld, caller: Caller) -> None:
        for _ in range(3):
            assert (await caller.ask("/hello")).body == b"hello\n"

    in_world(scenario, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_request_that_drips_in_is_given_up(seed: int) -> None:
    async def scenario(world: SimWorld, caller: Caller) -> None:
        began = now(world)

        async def drip() -> None:
            caller.send(b"GET /hello HTTP/1.1\r\nX: ")
            while True:
                await asyncio.sleep(1)
                caller.send(b"x")

        dripping = asyncio.ensure_future(drip())
        answer = await caller.answer()
        assert (answer.status, answer.headers["Connection"]) == (408, "close")
        assert shortly_before(10) <= now(world) - began < 12
        assert await caller.is_closed()
        dripping.cancel()

    in_world(scenario, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_says_nothing_is_cut_off_sooner_than_who_was_served(seed: int) -> None:
    async def silent(world: SimWorld, caller: Caller) -> None:
        began = now(world)
        assert await caller.is_closed()
        assert shortly_before(10) <= now(world) - began < 13

    async def served(world: SimWorld, caller: Caller) -> None:
        await asyncio.sleep(5)
        await caller.ask("/hello")
        began = now(world)
        assert await caller.is_closed()
        assert shortly_before(75) <= now(world) - began < 78

    in_world(silent, seed=seed)
    in_world(served, seed=seed)


def test_a_handler_that_never_ends_is_given_up() -> None:
    async def scenario(world: SimWorld, caller: Caller) -> None:
        began = now(world)
        assert (await caller.ask("/never")).status == 503
        assert shortly_before(30) <= now(world) - began < 32

    in_world(scenario, seed=1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_that_does_not_read_its_answer_is_cut_off(seed: int) -> None:
    async def scenario(world: SimWorld, caller: Caller) -> None:
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is both ways
        caller.send(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.sleep(40)
        caller.writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await caller.answer()

    in_world(scenario, seed=seed)
