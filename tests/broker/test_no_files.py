"""A node that may not open another file, and what it does about new connections."""

import asyncio
import errno
from dataclasses import replace

import pytest

from tests.broker.obedient import WORLDS, House, run_in, run_simulated
from tierlog.broker.listener import Listener
from tierlog.env import Env, Sender, Senders

everywhere = pytest.mark.parametrize("world", WORLDS)


class Scarce:
    """Senders for which there is no file, so many times."""

    def __init__(self, inner: Senders, *, failures: int) -> None:
        self._inner = inner
        self.failures = failures
        self.close = inner.close

    def attach(self, transport: asyncio.Transport, **told: object) -> Sender:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._inner.attach(transport, **told)  # type: ignore[arg-type]  # as given


def scarce(env: Env, *, failures: int) -> Env:
    return replace(env, senders=Scarce(env.senders, failures=failures))


@everywhere
def test_a_connection_without_a_file_is_turned_away_and_the_others_stay(
    world: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(env: Env) -> None:
        async with House(scarce(env, failures=1)) as house:
            unlucky = await house.visit()
            assert await unlucky.is_ended()
            assert house.listener.connections == house.traffic.open_count == 0
            house.listener.sweep()
            assert await (await house.visit()).ask(b"the next") == b"the next"
            assert house.traffic.refused_no_files == 1
            await asyncio.wait_for(house.listener.drain(60.0), 5)

    run_in(world, scenario)
    assert "Too many open files" in caplog.text


def test_idle_files_make_room_for_a_connection() -> None:
    async def scenario(env: Env) -> None:
        house = House(scarce(env, failures=1))
        asked: list[bool] = []

        def close_idle() -> bool:
            asked.append(True)
            return True

        house.listener = Listener(house.service, house.env, close_idle_files=close_idle)
        house.traffic = house.listener.traffic
        async with house:
            assert await (await house.visit()).ask(b"served") == b"served"
        assert (asked, house.traffic.refused_no_files) == ([True], 0)

    run_simulated(scenario)


def test_one_bad_look_does_not_end_the_sweep(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            looks: list[float] = []

            def look() -> None:
                looks.append(env.clock.monotonic())
                if len(looks) == 1:
                    raise ZeroDivisionError("a bug")

            monkeypatch.setattr(house.listener, "sweep", look)
            await asyncio.sleep(3.5)
            assert len(looks) == 3

    run_simulated(scenario)
    assert "a bug" in caplog.text
