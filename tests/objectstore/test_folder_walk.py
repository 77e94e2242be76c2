"""The walk through a folder gives keys in the order of a store, whatever is asked for."""

from os.path import dirname

from hypothesis import given
from hypothesis import strategies as st

from tierlog.objectstore.folder.walk import keys_below
from tierlog.sim import SimDisk

PART = st.text("ab.-0é", min_size=1, max_size=3).filter(lambda part: part not in (".", ".."))
KEY = st.lists(PART, min_size=1, max_size=4).map("/".join)


def folder_of(keys: list[str]) -> tuple[SimDisk, list[str]]:
    """A disk with those of the keys that can be files beside each other."""
    disk = SimDisk()
    disk.mkdir("/s")
    made = []
    for key in keys:
        try:
            disk.mkdir(dirname(f"/s/{key}"))
            disk.open(f"/s/{key}", create=True).close()
        except OSError:
            continue
        made.append(key)
    return disk, made


@given(st.lists(KEY, max_size=12, unique=True), KEY | st.just(""), KEY | st.just(""), st.booleans())
def test_the_walk_finds_what_a_sorted_list_would(
    keys: list[str], prefix: str, after: str, slash: bool
) -> None:
    disk, made = folder_of(keys)
    wanted = f"{prefix}/" if prefix and slash else prefix
    expected = sorted(
        (key for key in made if key.startswith(wanted) and key.encode() > after.encode()),
        key=str.encode,
    )
    assert list(keys_below(disk, "/s", prefix=wanted, after=after)) == expected
