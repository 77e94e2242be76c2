"""What every way of sending replies promises, on both loops."""

import asyncio
from random import Random

import pytest

from tests.env.wires import LOOPS, Wires, open_files, run_on, until
from tierlog.env import DirectSenders, PlainSenders, Senders
from tierlog.types import Bytes

pytestmark = pytest.mark.parametrize(
    ("loop", "make"),
    [(loop, make) for loop in LOOPS for make in (PlainSenders, DirectSenders)],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)

MANY = 3_000_000
"""Beyond what the kernel buffers of a loopback connection take."""


def mixed_replies(seed: int) -> list[list[Bytes]]:
    """Small and large ones in any order, some in many parts, some that may block."""
    rng = Random(seed)
    sizes = [rng.choice([1, 20, 900, 30_000, 70_000, 300_000]) for _ in range(60)]
    sizes[30] = 1_500_000
    sizes.append(0)
    return [in_parts(rng, rng.randbytes(size)) for size in sizes]


def in_parts(rng: Random, data: bytes) -> list[Bytes]:
    parts: list[Bytes] = []
    while data:
        count = min(len(data), rng.choice([1, 100, 65_536, len(data)]))
        parts.append(memoryview(data)[:count] if rng.random() < 0.5 else data[:count])
        data = data[count:]
        if len(parts) > 50:
            parts.append(data)
            break
    return parts


@pytest.mark.parametrize("seed", range(2))
def test_pipelined_small_and_large_replies_arrive_in_order_and_byte_exact(
    loop: str, make: type[Senders], seed: int
) -> None:
    replies = mixed_replies(seed)
    expected = b"".join(b"".join(parts) for parts in replies)

    async def scenario() -> None:
        async with Wires(senders.attach) as wires:
            end, peer = await wires.connect(receive_bytes=[16_384, 1_000_000][seed])
            reading = asyncio.create_task(peer.read(len(expected)))
            rng = Random(seed)
            for parts in replies:
                end.sender.send(list(parts), may_block=rng.random() < 0.2)
                if rng.random() < 0.3:
                    await asyncio.sleep(0)
            assert await reading == expected
            await until(lambda: end.sender.queued_bytes == 0)

    senders = make()
    run_on(loop, scenario())
    senders.close()


def test_close_sends_what_is_queued_and_then_ends_the_connection(
    loop: str, make: type[Senders]
) -> None:
    async def scenario() -> None:
        async with Wires(senders.attach) as wires:
            end, peer = await wires.connect(receive_bytes=16_384)
            end.sender.send([b"a" * MANY, b"b" * MANY])
            assert end.sender.queued_bytes > 0
            end.sender.close()
            end.sender.send([b"too late"])
            assert await peer.read(2 * MANY + 1) == b"a" * MANY + b"b" * MANY
            peer.finish()
            await end.lost.wait()

    senders = make()
    run_on(loop, scenario())
    senders.close()


def test_queued_bytes_fall_to_nothing_and_that_is_told(loop: str, make: type[Senders]) -> None:
    async def scenario() -> None:
        async with Wires(senders.attach) as wires:
            end, peer = await wires.connect(receive_bytes=16_384)
            end.sender.send([b"x" * MANY, b"y" * MANY])
            before = end.sender.queued_bytes
            assert 0 < before <= 2 * MANY
            await peer.read(2 * MANY)
            await until(lambda: bool(end.queued_when_told) and end.queued_when_told[-1] == 0)
            assert end.sender.queued_bytes == 0

    senders = make()
    run_on(loop, scenario())
    senders.close()


def test_thirty_peers_that_leave_in_the_middle_cost_nothing(loop: str, make: type[Senders]) -> None:
    async def scenario() -> None:
        async with Wires(senders.attach) as wires:
            await (await wires.connect())[1].write(b"warm")
            before = open_files()
            for number in range(30):
                end, peer = await wires.connect(receive_bytes=16_384)
                end.sender.send([b"z" * (MANY if number % 3 else 60_000)])
                end.sender.send([b"more"])
                await peer.read(number * 100)
                peer.close()
                end.sender.send([b"z" * MANY])
                await end.lost.wait()
                end.sender.send([b"nobody hears this"])
            await until(lambda: open_files() == before)
            end, peer = await wires.connect()
            end.sender.send([b"alive"])
            assert await peer.read(5) == b"alive"

    senders = make()
    run_on(loop, scenario())
    senders.close()


def test_an_aborted_connection_forgets_what_was_queued(loop: str, make: type[Senders]) -> None:
    async def scenario() -> None:
        async with Wires(senders.attach) as wires:
            end, peer = await wires.connect(receive_bytes=16_384)
            end.sender.send([b"x" * 2 * MANY])
            end.sender.abort()
            await end.lost.wait()
            assert end.sender.queued_bytes == 0
            with pytest.raises((ConnectionResetError, AssertionError)):
                assert len(await peer.read(2 * MANY)) == 2 * MANY

    senders = make()
    run_on(loop, scenario())
    senders.close()
