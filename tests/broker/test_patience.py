"""One timer for all who wait: everybody is told in time, and an idle one goes."""

from typing import Any, cast

from tierlog.broker.patience import LOOK_S, Patience


class Timer:
    def __init__(self, at_s: float, call: Any, args: tuple[Any, ...]) -> None:
        self.at_s, self.call, self.args = at_s, call, args
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """As much of a loop as is asked for."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[Timer] = []
        self.made = 0

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Any, *args: Any) -> Timer:
        self.made += 1
        self.timers.append(Timer(self.now_s + delay_s, call, args))
        return self.timers[-1]

    def move_to(self, now_s: float) -> None:
        while due := [one for one in self.live() if one.at_s <= now_s]:
            first = min(due, key=lambda one: one.at_s)
            self.timers.remove(first)
            self.now_s = max(self.now_s, first.at_s)
            first.call(*first.args)
        self.now_s = now_s

    def live(self) -> list[Timer]:
        return [one for one in self.timers if not one.is_cancelled]


class Request:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.is_done = False
        self.timed_out_s: float | None = None

    def done(self) -> bool:
        return self.is_done

    def time_up(self) -> None:
        self.is_done, self.timed_out_s = True, self._clock.now_s


class Room:
    def __init__(self, limit_s: float) -> None:
        self.clock = Clock()
        self.patience = Patience(limit_s)

    def come(self) -> Request:
        one = Request(self.clock)
        self.patience.add(one, cast("Any", self.clock))
        return one

    def end(self, one: Request, *, for_good: bool = False) -> None:
        one.is_done = True
        self.patience.leave(for_good=for_good)


def test_each_is_told_when_its_own_time_is_up() -> None:
    room = Room(30.0)
    first = room.come()
    room.clock.move_to(7.0)
    second = room.come()
    room.clock.move_to(100.0)
    assert (first.timed_out_s, second.timed_out_s) == (30.0, 37.0)
    assert room.clock.live() == []


def test_who_is_done_is_not_told() -> None:
    room = Room(30.0)
    first, second, third = room.come(), room.come(), room.come()
    room.end(second)  # Not the first: it stays behind it.
    room.end(first)
    room.clock.move_to(100.0)
    assert first.timed_out_s is second.timed_out_s is None
    assert third.timed_out_s == 30.0


def test_a_thousand_requests_share_a_timer() -> None:
    room = Room(30.0)
    for _ in range(1000):
        room.end(room.come())
    assert room.clock.made == 1


def test_a_limit_of_nothing_is_told_in_the_next_turn() -> None:
    room = Room(0.0)
    one = room.come()
    assert one.timed_out_s is None
    room.clock.move_to(0.0)
    assert one.timed_out_s == 0.0


def test_when_the_peer_goes_the_timer_goes_with_the_last_one() -> None:
    room = Room(300.0)
    first, second = room.come(), room.come()
    room.end(first, for_good=True)
    assert len(room.clock.live()) == 1
    room.end(second, for_good=True)
    assert room.clock.live() == []


def test_an_idle_one_ends_by_itself_and_begins_again() -> None:
    room = Room(300.0)
    room.end(room.come())
    room.clock.move_to(LOOK_S)
    assert room.clock.live() == []
    one = room.come()
    room.clock.move_to(1000.0)
    assert one.timed_out_s == LOOK_S + 300.0
