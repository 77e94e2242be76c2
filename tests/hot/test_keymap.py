"""The map of keys: right, and no larger than it says."""

import tracemalloc

from tierlog.hot.keymap import ENTRY_BYTES, NOWHERE, KeyMap
from tierlog.types import Offset


def test_the_last_place_of_a_key_is_remembered() -> None:
    keys = KeyMap(1 << 20)
    for offset, key in enumerate((b"a", b"b", b"a", b"")):
        keys.note(key, Offset(offset))
    assert [keys.last(key) for key in (b"a", b"b", b"", b"c")] == [2, 1, 3, NOWHERE]
    assert len(keys) == 3


def test_a_full_map_has_no_room_and_an_empty_one_takes_anything() -> None:
    keys = KeyMap(ENTRY_BYTES * 3)
    assert keys.has_room(1000)
    keys.note(b"a", Offset(0))
    assert keys.has_room(2)
    assert not keys.has_room(3)


def test_an_entry_takes_no_more_memory_than_it_is_said_to() -> None:
    """At its worst: just after the table has grown."""
    keys = KeyMap(1 << 40)
    tracemalloc.start()
    try:
        for number in range(43_700):
            keys.note(b"%d" % number, Offset(2**40 + number))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / len(keys) <= ENTRY_BYTES
