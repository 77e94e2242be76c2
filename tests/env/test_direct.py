"""Direct senders: what leaves on the loop, what in a thread, and what a thread must not do."""

import asyncio
import errno
import mmap
from pathlib import Path

import pytest

from tests.env.wires import LOOPS, Wires, run_on, until
from tierlog.env import DirectSenders, LocalDisk, Sender
from tierlog.env.direct import (
    INLINE_BYTES_MAX,
    LARGE_BYTES_MAX,
    PARTS_MAX,
    THREAD_COUNT,
    TURN_BYTES_MAX,
    Crew,
    DirectSender,
    drop,
)
from tierlog.types import Bytes

pytestmark = pytest.mark.parametrize("loop", LOOPS)

LARGE = b"L" * (LARGE_BYTES_MAX + 1)
MANY = 4_000_000


class Bench:
    """Direct senders without threads: jobs are done when the test says so."""

    def __init__(self) -> None:
        self.crew = Crew()
        self.jobs = self.crew.jobs

    def attach(self, transport: asyncio.Transport, **told: object) -> Sender:
        return DirectSender(self.crew, transport, **told)  # type: ignore[arg-type]  # as given

    async def do_one(self) -> None:
        job = self.jobs.get_nowait()
        assert job is not None
        await asyncio.to_thread(job.work)
        await asyncio.sleep(0)


def test_small_replies_leave_at_once_and_without_a_thread(loop: str) -> None:
    async def scenario() -> None:
        bench = Bench()
        async with Wires(bench.attach) as wires:
            end, peer = await wires.connect()
            end.sender.send([b"head", b"s" * (INLINE_BYTES_MAX - 4)])
            assert end.sender.queued_bytes == 0
            assert bench.jobs.empty()
            assert len(await peer.read(INLINE_BYTES_MAX)) == INLINE_BYTES_MAX

    run_on(loop, scenario())


@pytest.mark.parametrize(("parts", "may_block"), [([LARGE], False), ([b"small"], True)])
def test_large_replies_and_those_that_may_block_are_a_threads_work(
    loop: str, parts: list[Bytes], may_block: bool
) -> None:
    async def scenario() -> None:
        bench = Bench()
        async with Wires(bench.attach) as wires:
            end, peer = await wires.connect()
            size = sum(map(len, parts))
            end.sender.send(list(parts), may_block=may_block)
            assert end.sender.queued_bytes == size
            await bench.do_one()
            assert await peer.read(size) == b"".join(parts)
            await until(lambda: end.sender.queued_bytes == 0)

    run_on(loop, scenario())


def test_while_a_thread_is_free_the_loop_sends_a_usual_fetch_itself(loop: str) -> None:
    async def scenario() -> None:
        bench = Bench()
        async with Wires(bench.attach) as wires:
            (end, peer), *others = [await wires.connect() for _ in range(THREAD_COUNT + 2)]
            usual = b"u" * LARGE_BYTES_MAX
            end.sender.send([usual])
            assert bench.jobs.empty()
            assert end.sender.queued_bytes < len(usual)
            for cold, _ in others[1:]:
                cold.sender.send([b"cold"], may_block=True)
            others[0][0].sender.send([usual])
            assert bench.jobs.qsize() == THREAD_COUNT + 1
            received = await peer.read(INLINE_BYTES_MAX)
            assert received == usual[: len(received)]
            while not bench.jobs.empty():
                await bench.do_one()
            for one in (end, others[0][0]):  # Now: a peer that reads on makes new jobs.
                one.sender.abort()

    run_on(loop, scenario())


def test_the_loop_sends_so_much_in_one_turn_and_no_more(loop: str) -> None:
    async def scenario() -> None:
        crew, running = Crew(), asyncio.get_running_loop()
        for _ in range(2):
            answers = [crew.may_inline(1 << 20, running) for _ in range((TURN_BYTES_MAX >> 20) + 2)]
            assert answers.count(True) == TURN_BYTES_MAX >> 20
            assert answers == sorted(answers, reverse=True)
            await asyncio.sleep(0.001)  # A turn.

    run_on(loop, scenario())


def test_nothing_overtakes_a_reply_that_a_thread_has(loop: str) -> None:
    async def scenario() -> None:
        bench = Bench()
        async with Wires(bench.attach) as wires:
            end, peer = await wires.connect()
            end.sender.send([LARGE])
            end.sender.send([b"first"])
            end.sender.send([b"second"])
            assert bench.jobs.qsize() == 1
            await bench.do_one()
            assert await peer.read(len(LARGE) + 11) == LARGE + b"firstsecond"
            assert bench.jobs.empty(), "two small ones behind it need no thread"

    run_on(loop, scenario())


def test_a_small_reply_behind_one_that_may_block_does_not_need_a_thread_for_ever(loop: str) -> None:
    async def scenario() -> None:
        bench = Bench()
        async with Wires(bench.attach) as wires:
            end, peer = await wires.connect()
            end.sender.send([b"cold"], may_block=True)
            await bench.do_one()
            assert await peer.read(4) == b"cold"
            await until(lambda: end.sender.queued_bytes == 0)
            end.sender.send([b"warm"])
            assert bench.jobs.empty()
            assert await peer.read(4) == b"warm"

    run_on(loop, scenario())


def test_what_a_thread_leaves_of_a_large_reply_is_a_threads_work_too(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_but_some(sender: DirectSender) -> int:
        sent = sender._socket.send(LARGE[:-1000])
        drop(sender._job, sent)
        return sent

    async def scenario() -> None:
        bench = Bench()
        async with Wires(bench.attach) as wires:
            end, peer = await wires.connect()
            end.sender.send([LARGE])
            with monkeypatch.context() as patched:
                patched.setattr(DirectSender, "_push", all_but_some)
                await bench.do_one()
            await until(lambda: not bench.jobs.empty() or not end.sender.queued_bytes)
            assert end.sender.queued_bytes >= 1000, "its pages may be cold: not on the loop"
            await bench.do_one()
            assert await peer.read(len(LARGE)) == LARGE

    run_on(loop, scenario())


def test_slices_of_files_are_told_apart_from_memory(loop: str, tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(b"m" * MANY)
    file = LocalDisk().open(str(tmp_path / "segment"))

    async def scenario() -> None:
        bench = Bench()
        async with Wires(bench.attach) as wires:
            end, peer = await wires.connect(receive_bytes=4096)
            sender = end.sender
            sender.send([b"h" * 10, file.view(MANY - 10, 10)])
            sender.send([b"h" * 1000, memoryview(b"copied"), file.view(50, 0)])
            assert sender.queued_bytes - sender.mapped_bytes == 10 + 1006
            await bench.do_one()
            await until(lambda: sender.queued_bytes < MANY)
            assert sender.queued_bytes - sender.mapped_bytes == 1006
            reading = asyncio.ensure_future(peer.read(MANY + 1056))
            while sender.queued_bytes:
                if bench.jobs.empty():
                    await asyncio.sleep(0)
                else:
                    await bench.do_one()
            assert (
                await reading
                == b"h" * 10 + b"m" * (MANY - 10) + b"h" * 1000 + b"copied" + b"m" * 50
            )
            assert sender.mapped_bytes == 0
            sender.send([file.view(50, 0)])
            assert sender.queued_bytes == sender.mapped_bytes == 0

    run_on(loop, scenario())
    file.close()


def test_a_descriptor_stays_open_while_a_thread_holds_it(loop: str) -> None:
    async def scenario() -> None:
        bench = Bench()
        async with Wires(bench.attach) as wires:
            end, _ = await wires.connect()
            sender = end.sender
            assert isinstance(sender, DirectSender)
            sender.send([LARGE])
            sender.abort()
            await end.lost.wait()
            assert sender._socket.fileno() >= 0
            await bench.do_one()
            await until(lambda: sender._socket.fileno() < 0)
            assert end.errors == [], "an abort of our own is no failure"

    run_on(loop, scenario())


def test_more_parts_than_one_call_takes_arrive_whole(loop: str) -> None:
    async def scenario() -> None:
        senders = DirectSenders()
        async with Wires(senders.attach) as wires:
            end, peer = await wires.connect()
            small: list[Bytes] = [bytes([number % 251]) for number in range(3 * PARTS_MAX)]
            large: list[Bytes] = [bytes([number % 251]) * 100 for number in range(3 * PARTS_MAX)]
            end.sender.send(list(small))
            end.sender.send(list(large))
            expected = b"".join([*small, *large])
            assert await peer.read(len(expected)) == expected
        senders.close()

    run_on(loop, scenario())


def test_peers_that_do_not_read_hold_no_thread(loop: str) -> None:
    async def scenario() -> None:
        senders = DirectSenders()
        async with Wires(senders.attach) as wires:
            slow = [await wires.connect(receive_bytes=4096) for _ in range(2 * THREAD_COUNT)]
            for end, _ in slow:
                end.sender.send([b"w" * MANY])
            fast, peer = await wires.connect()
            fast.sender.send([b"f" * MANY])
            assert await peer.read(MANY) == b"f" * MANY
            for end, late in slow:
                assert end.sender.queued_bytes > 0
                assert await late.read(MANY) == b"w" * MANY
        senders.close()

    run_on(loop, scenario())


@pytest.mark.parametrize("size", [32_768, 1 << 20])
def test_a_mapping_that_was_cut_off_costs_its_connection_only(
    loop: str, size: int, tmp_path: Path
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"m" * size)

    async def scenario() -> None:
        senders = DirectSenders()
        with path.open("r+b") as file:
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
            file.truncate(0)
        async with Wires(senders.attach) as wires:
            end, _ = await wires.connect()
            other, friend = await wires.connect()
            end.sender.send([b"head", memoryview(mapped)])
            await end.lost.wait()
            assert [getattr(error, "errno", None) for error in end.errors] == [errno.EFAULT]
            other.sender.send([b"unhurt"])
            assert await friend.read(6) == b"unhurt"
        senders.close()

    run_on(loop, scenario())


def test_a_peer_that_resets_is_told_as_a_failure_once(loop: str) -> None:
    async def scenario() -> None:
        bench = Bench()
        async with Wires(bench.attach) as wires:
            end, peer = await wires.connect(receive_bytes=4096)
            end.sender.send([b"q" * MANY])
            peer.close()
            await bench.do_one()
            await end.lost.wait()
            assert len(end.errors) <= 1
            assert all(isinstance(error, ConnectionError) for error in end.errors)

    run_on(loop, scenario())


def test_dropping_bytes_off_parts_leaves_the_rest(loop: str) -> None:
    whole: list[Bytes] = [b"ab", b"", b"cde", memoryview(b"f")]
    for count in range(7):
        parts = list(whole)
        drop(parts, count)
        assert b"".join(parts) == b"abcdef"[count:]
