"""Peers that do not read, and what they may cost the others."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.obedient import PRODUCE, WORLDS, House, run_in, run_simulated, until
from tierlog.broker.limits import ConnectionLimits
from tierlog.broker.replies import DECODED_FACTOR
from tierlog.env import Env, File, LocalDisk

everywhere = pytest.mark.parametrize("world", WORLDS)
on_real_loops = pytest.mark.parametrize("world", ["asyncio", "uvloop"])

FILE_BYTES = 30_000_000


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    file = LocalDisk().open(str(tmp_path / "segment"), create=True)
    file.truncate(FILE_BYTES)
    yield file
    file.close()


@on_real_loops
def test_slices_of_files_that_nobody_reads_leave_the_budget_to_others(
    world: str, file: File
) -> None:
    limits = ConnectionLimits(node_bytes_max=1 << 20)

    async def scenario(env: Env) -> None:
        async with House(env, limits) as house:
            house.service.file = file
            deaf = [await house.visit() for _ in range(5)]
            for client in deaf:
                client.send(b"mapped %d" % FILE_BYTES, b"later a", b"mapped %d" % FILE_BYTES)
            await until(lambda: len(house.service.seen) >= 5)
            honest = await house.visit()
            assert await honest.ask(b"unhurt") == b"unhurt"
            assert house.listener.queued_bytes > 50_000_000
            assert house.listener.in_flight_bytes < 100_000
            assert len(await deaf[0].reply()) == FILE_BYTES

    run_in(world, scenario)


@on_real_loops
def test_slices_of_files_that_wait_for_their_turn_cost_the_node_nothing(
    world: str, file: File
) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            house.service.file = file
            client = await house.visit()
            client.send(b"later a", b"mapped %d" % FILE_BYTES)
            await until(lambda: house.listener.pending_requests == 2)
            assert house.listener.in_flight_bytes < 100_000
            house.service.answer(b"a")
            assert await client.reply() == b"late a"
            assert len(await client.reply()) == FILE_BYTES

    run_in(world, scenario)


@on_real_loops
def test_the_limits_of_a_connection_count_slices_of_files(world: str, file: File) -> None:
    limits = ConnectionLimits(in_flight_bytes_max=FILE_BYTES)

    async def scenario(env: Env) -> None:
        async with House(env, limits) as house:
            house.service.file = file
            client = await house.visit()
            client.send(b"later a", b"mapped %d" % FILE_BYTES, b"not yet")
            await until(lambda: house.traffic.pauses > 0)
            assert b"not yet" not in house.service.seen
            house.service.answer(b"a")
            assert [len(reply) for reply in await client.replies(3)] == [6, FILE_BYTES, 7]

    run_in(world, scenario)


@everywhere
def test_answers_that_wait_behind_another_are_charged(world: str) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            client.send(b"later a", b"later b")
            await until(lambda: len(house.service.pending) == 2)
            house.service.answer(b"b", b"." * 500_000)
            await until(lambda: house.listener.in_flight_bytes > 500_000)
            house.service.answer(b"a")
            assert [len(reply) for reply in await client.replies(2)] == [6, 500_000]
            await until(lambda: house.listener.in_flight_bytes == 0)

    run_in(world, scenario)


def test_a_waiting_request_is_charged_for_what_it_lists_and_a_produce_for_its_bytes() -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            client.send(b"later a" + b"." * 100_000)
            await until(lambda: house.listener.pending_requests == 1)
            charged = house.listener.in_flight_bytes
            assert charged > DECODED_FACTOR * 100_000
            client.send(b"later b" + b"." * 100_000, key=PRODUCE)
            await until(lambda: house.listener.pending_requests == 2)
            assert house.listener.in_flight_bytes - charged < 2 * 100_000

    run_simulated(scenario)


@pytest.mark.parametrize(("node_bytes_max", "after_s"), [(12 << 20, 30), (512 << 20, 600)])
def test_who_does_not_read_is_cut_off_and_sooner_when_memory_is_tight(
    node_bytes_max: int, after_s: int
) -> None:
    limits = ConnectionLimits(node_bytes_max=node_bytes_max, idle_s=600)

    async def scenario(env: Env) -> None:
        async with House(env, limits) as house:
            client, honest = await house.visit(), await house.visit()
            assert await honest.ask(b"hello") == b"hello"
            client.send(*[b"large 4000000"] * 9)
            await until(lambda: house.traffic.pauses > 0)
            await asyncio.sleep(after_s - 3)
            assert house.listener.connections == 2
            assert await honest.ask(b"unhurt") == b"unhurt"
            await asyncio.sleep(6)
            assert house.listener.connections == 1
            assert house.traffic.closed_stalled == 1
            assert await honest.ask(b"unhurt") == b"unhurt"

    run_simulated(scenario)


def test_a_slow_reader_is_not_cut_off_while_it_reads() -> None:
    limits = ConnectionLimits(node_bytes_max=12 << 20)

    async def scenario(env: Env) -> None:
        async with House(env, limits) as house:
            client = await house.visit()
            client.send(b"large 9000000")
            left = 9_000_004
            while left:
                await asyncio.sleep(20)
                left -= len(await client.reader.readexactly(min(left, 400_000)))
            assert await client.ask(b"on") == b"on"

    run_simulated(scenario)
