from hypothesis import given
from hypothesis import strategies as st

from tierlog.fetchproxy.ledger import Ledger


def test_the_least_recently_used_goes_first() -> None:
    ledger = Ledger(100)
    for name in "abc":
        ledger.add(name, 10, reader=1)
    ledger.touch("a", reader=1)
    assert list(ledger.take_down_to(10)) == [("b", 10), ("c", 10)]
    assert "a" in ledger


def test_a_replay_does_not_evict_what_two_readers_use() -> None:
    ledger = Ledger(100)
    ledger.add("shared", 10, reader=1)
    ledger.touch("shared", reader=2)
    for number in range(1000):
        ledger.take_down_to(80)
        ledger.add(f"replay {number}", 10, reader=3)
        ledger.touch(f"replay {number}", reader=3)
    assert "shared" in ledger


def test_shared_names_leave_room_for_others() -> None:
    ledger = Ledger(100)
    for number in range(10):
        ledger.add(str(number), 10, reader=1)
        ledger.touch(str(number), reader=2)
    assert list(ledger)[:4] == ["0", "1", "2", "3"]


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
            ledger.add(name, size, reader=reader)
            sizes[name] = size
        elif what == "touch":
            ledger.touch(name, reader=reader)
        elif what == "remove":
            assert ledger.remove(name) == sizes.pop(name, 0)
        elif what == "take":
            for gone, _ in ledger.take_down_to(size):
                del sizes[gone]
            assert ledger.used <= size
        assert ledger.used == sum(sizes.values())
        assert set(ledger) == set(sizes)
        assert len(ledger) == len(sizes)
