from hypothesis import given
from hypothesis import strategies as st

from tierlog.fetchproxy.clients import Account, Reader
from tierlog.fetchproxy.ledger import STALE_BUDGETS, Ledger

READERS = [Reader(Account()) for _ in range(4)]


def test_the_least_recently_used_goes_first() -> None:
    ledger = Ledger(100)
    for name in "abc":
        ledger.add(name, 10, reader=READERS[1])
    ledger.touch("a", reader=READERS[1])
    assert [gone[:2] for gone in ledger.take_down_to(10)] == [("b", 10), ("c", 10)]
    assert "a" in ledger


def test_a_replay_does_not_evict_what_two_readers_use() -> None:
    ledger = Ledger(100)
    ledger.add("shared", 10, reader=READERS[1])
    ledger.touch("shared", reader=READERS[2])
    for number in range(1000):
        ledger.take_down_to(80)
        ledger.add(f"replay {number}", 10, reader=READERS[3])
        ledger.touch(f"replay {number}", reader=READERS[3])
    assert "shared" in ledger


def test_shared_names_leave_room_for_others() -> None:
    ledger = Ledger(100)
    for number in range(10):
        ledger.add(str(number), 10, reader=READERS[1])
        ledger.touch(str(number), reader=READERS[2])
    assert list(ledger)[:4] == ["0", "1", "2", "3"]


def test_a_replay_of_ten_caches_evicts_its_own_and_nothing_that_another_reads() -> None:
    ledger = Ledger(100)
    hot = [f"hot {number}" for number in range(4)]
    for name in hot:
        ledger.add(name, 10, reader=READERS[1])
    for number in range(100):
        ledger.take_down_to(90)
        ledger.add(f"replay {number}", 10, reader=READERS[2])
        if number % 20 == 0:  # Much longer than the replay needs to fill the cache.
            for name in hot:
                ledger.touch(name, reader=READERS[1])
    assert all(name in ledger for name in hot)


def test_what_nobody_used_for_long_goes_whoever_held_it() -> None:
    ledger = Ledger(100)
    ledger.add("old", 10, reader=READERS[1])
    for number in range(10 * STALE_BUDGETS + 1):
        ledger.add(f"replay {number}", 10, reader=READERS[2])
        assert "old" in ledger
        ledger.take_down_to(90)
    assert "old" not in ledger


def test_what_left_unread_is_told_with_who_it_was_for() -> None:
    ledger = Ledger(100)
    ledger.add("read", 10, reader=READERS[1], is_read=False)
    ledger.add("unread", 10, reader=READERS[1], is_read=False)
    ledger.touch("read", reader=READERS[2])
    gone = {one.name: one for one in ledger.take_down_to(0)}
    assert gone["read"].is_read
    assert not gone["unread"].is_read
    assert gone["unread"].reader is READERS[1]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "touch", "remove", "take"]),
            st.sampled_from("abcdefgh"),
            st.integers(1, 40),
            st.integers(1, 3),
        )
    )
)
def test_what_is_used_is_the_size_of_what_is_there(
    steps: list[tuple[str, str, int, int]],
) -> None:
    ledger = Ledger(100)
    sizes: dict[str, int] = {}
    for what, name, size, reader in steps:
        if what == "add" and name not in sizes:
            ledger.add(name, size, reader=READERS[reader])
            sizes[name] = size
        elif what == "touch":
            ledger.touch(name, reader=READERS[reader])
        elif what == "remove":
            assert ledger.remove(name) == sizes.pop(name, 0)
        elif what == "take":
            for gone in ledger.take_down_to(size):
                assert sizes.pop(gone.name) == gone.size
            assert ledger.used <= size
        assert ledger.used == sum(sizes.values())
        assert set(ledger) == set(sizes)
        assert len(ledger) == len(sizes)
