"""Keys that wait for the scrubber's look: once each, so many, and not again for a while."""

from tests.fetchproxy.support import HandClock
from tierlog.cold import suspects
from tierlog.cold.suspects import Suspects


def test_a_key_waits_once_and_comes_again_only_after_a_while() -> None:
    clock = HandClock()
    waiting = Suspects(clock)
    assert waiting.add("a")
    assert not waiting.add("a")
    assert waiting.add("b")
    assert waiting.first() == "a"
    waiting.looked("a")
    assert waiting.first() == "b"
    assert not waiting.add("a")
    clock.seconds += suspects.AGAIN_S
    assert waiting.add("a")
    assert len(waiting) == 2


def test_only_so_many_wait_and_are_remembered() -> None:
    waiting = Suspects(HandClock())
    added = [waiting.add(f"{number}") for number in range(2 * suspects.WAITING_MAX)]
    assert sum(added) == len(waiting) == suspects.WAITING_MAX
    for number in range(2 * suspects.REMEMBERED_MAX):
        waiting.looked(f"{number}")
    assert waiting.add("0"), "long forgotten"
    assert not waiting.add(f"{2 * suspects.REMEMBERED_MAX - 1}")


def test_what_the_store_does_not_answer_for_goes_behind_the_others_and_is_given_up() -> None:
    waiting = Suspects(HandClock())
    waiting.add("a")
    waiting.add("b")
    waiting.put_off("a", tries_max=2)
    assert waiting.first() == "b"
    waiting.looked("b")
    waiting.put_off("a", tries_max=2)
    assert waiting.first() is None
    assert waiting.add("a")
