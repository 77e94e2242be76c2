"""What always holds of a TABLE: each invariant refuses what breaks it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.table.makers import START_MS, a_file, a_table
from tierlog.cold.errors import InvariantBroken
from tierlog.table.invariants import check
from tierlog.table.manifest import Garbage, Skip, Table, TableFile
from tierlog.types import Offset

FILES = [a_file(0, 10), a_file(10, 20), a_file(20, 30)]
BEFORE = a_table(FILES)


def after(files: list[TableFile], **values: object) -> Table:
    """The next version, with totals that fit."""
    table = a_table(files)
    changed = replace(table, version=2, nonce="nonce-2", published_ms=START_MS + 1)
    return replace(changed, **values)  # type: ignore[arg-type]


def garbage(*files: TableFile) -> tuple[Garbage, ...]:
    return tuple(Garbage(one.key, None, START_MS + 1000, one.size) for one in files)


def merged(start: int, end: int, *, rows: int) -> TableFile:
    sources = tuple(source for one in FILES if start <= one.start < end for source in one.sources)
    return replace(a_file(start, end, seed=9), rows=rows, sources=sources)


SOUND: dict[str, Callable[[], Table]] = {
    "a file behind the last": lambda: after([*FILES, a_file(30, 40)]),
    "a skip and a file": lambda: after(
        [*FILES, a_file(35, 40)], skips=(Skip(Offset(30), Offset(35), 1),)
    ),
    "a merge": lambda: after([merged(0, 20, rows=20), FILES[2]], garbage=garbage(*FILES[:2])),
    "an expiry": lambda: after(FILES[1:], garbage=garbage(FILES[0])),
}


@pytest.mark.parametrize("what", SOUND)
def test_what_a_writer_does_passes(what: str) -> None:
    check(SOUND[what](), previous=BEFORE)


BROKEN: dict[str, tuple[str, Callable[[], Table]]] = {
    "a gap": ("tiling", lambda: after([*FILES, a_file(31, 40)])),
    "an overlap": ("tiling", lambda: after([*FILES, a_file(29, 40)])),
    "a watermark before its file": ("tiling", lambda: after(FILES, converted_end=Offset(40))),
    "wrong totals": ("totals", lambda: after(FILES, rows=1)),
    "a file twice": ("keys", lambda: after(FILES, garbage=garbage(FILES[0]))),
    "a version that stays": ("version", lambda: after(FILES, version=1)),
    "the same nonce": ("version", lambda: after(FILES, nonce="nonce-1")),
    "an end that goes back": ("ends", lambda: after(FILES[:2], garbage=garbage(FILES[2]))),
    "other borders": (
        "commit",
        lambda: after([a_file(0, 15, seed=3), a_file(15, 30, seed=3)], garbage=garbage(*FILES)),
    ),
    "a merge that loses a row": (
        "rows",
        lambda: after([merged(0, 20, rows=19), FILES[2]], garbage=garbage(*FILES[:2])),
    ),
    "a merge that leaves no garbage": (
        "rows",
        lambda: after([merged(0, 20, rows=20), FILES[2]], garbage=garbage(FILES[0])),
    ),
    "another partition": ("identity", lambda: after(FILES, partition=8)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_breaks_an_invariant_is_refused_by_its_name(what: str) -> None:
    name, build = BROKEN[what]
    with pytest.raises(InvariantBroken) as refused:
        check(build(), previous=BEFORE)
    assert refused.value.name == name


def test_garbage_stays_until_its_time() -> None:
    gone = garbage(a_file(0, 5, seed=4))
    before = replace(BEFORE, garbage=gone)
    with pytest.raises(InvariantBroken, match="before its time"):
        check(after(FILES), previous=before)
    check(after(FILES, published_ms=START_MS + 1000), previous=before)
