"""States after a power cut are legal, and every kind of legal state turns up.

The oracle here is written from the definition, not from the code: a sector may hold its content as
of any moment since the last sync, and nothing else.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierlog.sim import DataFate
from tierlog.sim.nodes import Change, apply_change
from tierlog.sim.power import draw_content, draw_fate

SECTOR = 512

writes = st.builds(
    lambda position, size, fill: Change(position, bytes([fill]) * size),
    st.integers(0, 6000),
    st.integers(1, 3000),
    st.integers(1, 254),  # 255 is what was durable before
)
truncates = st.builds(lambda size: Change(size, None), st.integers(0, 7000))
durables = st.integers(0, 5000).map(lambda size: b"\xff" * size)


def moments(durable: bytes, changes: list[Change]) -> list[bytes]:
    """The content after none, one, two ... of the changes."""
    content = bytearray(durable)
    found = [bytes(content)]
    for change in changes:
        apply_change(content, change)
        found.append(bytes(content))
    return found


def sector(content: bytes, number: int) -> bytes:
    return content[number * SECTOR : (number + 1) * SECTOR].ljust(SECTOR, b"\0")


@settings(max_examples=300, deadline=None)
@given(durable=durables, changes=st.lists(writes, max_size=6), seed=st.integers(0, 1 << 32))
def test_each_sector_holds_its_content_of_some_moment(
    durable: bytes, changes: list[Change], seed: int
) -> None:
    rng = Random(seed)
    content = bytes(draw_content(durable, changes, rng, draw_fate(rng)))
    history = moments(durable, changes)
    for number in range(-(-len(content) // SECTOR)):
        assert sector(content, number) in {sector(moment, number) for moment in history}
    assert len(durable) <= len(content) <= len(history[-1])
    assert len(content) % SECTOR == 0 or len(content) in {len(moment) for moment in history}


@settings(max_examples=300, deadline=None)
@given(
    durable=durables,
    changes=st.lists(writes | truncates, max_size=6),
    seed=st.integers(0, 1 << 32),
)
def test_no_byte_was_never_there_and_untouched_bytes_survive(
    durable: bytes, changes: list[Change], seed: int
) -> None:
    rng = Random(seed)
    content = bytes(draw_content(durable, changes, rng, draw_fate(rng)))
    history = moments(durable, changes)
    padded = [moment.ljust(10_000, b"\0") for moment in history]
    for position, value in enumerate(content):
        assert value in {moment[position] for moment in padded} | {0}
    untouched = min([len(durable)] + [change.position for change in changes])
    assert content[:untouched] == durable[:untouched]
    assert len(content) <= max(map(len, history))


@settings(max_examples=100, deadline=None)
@given(durable=durables, changes=st.lists(writes | truncates, max_size=6))
def test_the_plain_fates_are_exact(durable: bytes, changes: list[Change]) -> None:
    history = moments(durable, changes)
    assert draw_content(durable, changes, Random(1), DataFate.LOST) == history[0]
    assert draw_content(durable, changes, Random(1), DataFate.KEPT) == history[-1]


@settings(max_examples=200, deadline=None)
@given(
    durable=durables,
    size=st.integers(0, 4000),
    after=st.lists(writes, max_size=3),
    seed=st.integers(0, 1 << 32),
)
def test_new_bytes_over_truncated_ground_need_the_truncate(
    durable: bytes, size: int, after: list[Change], seed: int
) -> None:
    rng = Random(seed)
    changes = [Change(size, None), *after]
    content = bytes(draw_content(durable, changes, rng, draw_fate(rng)))
    if 0xFF in content[size:]:
        # Old bytes beyond the cut: it did not happen, so nothing new may lie there either.
        assert set(content[size:]) <= {0xFF, 0}


def drawn(durable: bytes, changes: list[Change], count: int = 400) -> set[bytes]:
    found = set()
    for seed in range(count):
        rng = Random(seed)
        found.add(bytes(draw_content(durable, changes, rng, draw_fate(rng))))
    return found


def test_writes_are_lost_kept_torn_and_reordered() -> None:
    states = drawn(b"", [Change(0, b"a" * 1024), Change(1024, b"b" * 512)], 4000)
    assert {
        b"",
        bytes(1024),
        bytes(1536),
        b"a" * 512,
        b"a" * 512 + bytes(512),
        bytes(512) + b"a" * 512,
        b"a" * 1024,
        bytes(1024) + b"b" * 512,
        b"a" * 512 + bytes(512) + b"b" * 512,
        b"a" * 1024 + b"b" * 512,
    } <= states


@pytest.mark.parametrize("grain", [512, 4096])
def test_writes_tear_at_512_bytes_and_at_4_kib(grain: int) -> None:
    states = drawn(b"", [Change(0, b"a" * 8192)], count=300)
    torn = {state for state in states if 0 < state.count(b"a") < 8192}
    by_4k = {state for state in torn if state.count(b"a") == 4096 and b"a\0" not in state[:4096]}
    assert torn
    assert by_4k if grain == 4096 else torn - by_4k


def test_sectors_are_counted_from_the_start_of_the_file() -> None:
    states = drawn(b"", [Change(500, b"a" * 24)])
    assert {state.count(b"a") for state in states} == {0, 12, 24}


def test_a_later_write_carries_the_earlier_one_to_the_same_sector() -> None:
    states = drawn(b"", [Change(0, b"a" * 100), Change(100, b"b" * 100)])
    assert {state.rstrip(b"\0") for state in states} == {
        b"",
        b"a" * 100,
        b"a" * 100 + b"b" * 100,
    }


def test_a_truncate_may_be_lost_and_is_never_half_done() -> None:
    states = drawn(b"x" * 8192, [Change(4096, None)])
    assert states == {b"x" * 8192, b"x" * 4096}


def test_a_truncate_may_clear_the_rest_of_its_page_and_not_cut() -> None:
    states = drawn(b"x" * 8192, [Change(4000, None)])
    assert {b"x" * 8192, b"x" * 4000, b"x" * 4000 + bytes(96) + b"x" * 4096} <= states
