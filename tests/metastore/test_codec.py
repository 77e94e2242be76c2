"""The format on disk: golden files, round trips, and bytes that are no such thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metastore.golden import build, kept
from tests.metastore.support import open_on, store_file
from tierlog.metastore import Entry, codec
from tierlog.metastore.state import Applied
from tierlog.sim.disk import SimDisk

keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
revisions = st.integers(1, 1 << 40)
entries = st.builds(Entry, keys, st.binary(max_size=50), revisions, revisions, st.integers(0, 1))


async def test_a_store_is_written_as_it_always_was() -> None:
    written, golden = await build(), kept()
    for name, data in written.items():
        assert data.hex() == golden[name].hex(), f"{name} has another format now"


async def test_a_store_of_an_earlier_day_opens() -> None:
    disk = SimDisk()
    for name, data in kept().items():
        store_file(disk, name, data)
    store = await open_on(disk)
    assert await store.list("") == (
        [Entry("/cluster", b'{"id":"x"}', 1, 1), Entry("/topics/b", b"\0\xff", 4, 4)],
        6,
    )


@given(st.dictionaries(keys, entries, max_size=8), revisions, st.binary(min_size=16, max_size=16))
def test_a_snapshot_comes_back(found: dict[str, Entry], revision: int, store_id: bytes) -> None:
    data = codec.encode_snapshot(store_id, revision, found.values())
    assert codec.decode_snapshot(data) == codec.Snapshot(store_id, revision, [*found.values()])


changes = st.dictionaries(keys, st.none() | st.binary(max_size=50), min_size=1, max_size=6)


@given(st.lists(changes, min_size=1, max_size=4), st.integers(0, 100), st.integers(0, 1 << 40))
def test_a_frame_comes_back_at_its_own_place_only(
    txns: list[dict[str, bytes | None]], position: int, revision: int
) -> None:
    expected: dict[str, Entry] = {}
    applied = []
    for number, txn in enumerate(txns, revision + 1):
        effect: dict[str, Entry | None] = {}
        for key, value in txn.items():
            if value is None:
                effect[key] = None
                expected.pop(key, None)
            else:
                created = expected[key].created if key in expected else number
                effect[key] = expected[key] = Entry(key, value, number, created)
        applied.append(Applied(number, effect))
    data = bytes(position) + codec.encode_frame(applied, position=position)
    frame = codec.read_frame(memoryview(data), position)
    assert frame is not None
    assert (frame.first, frame.count, frame.end) == (revision + 1, len(txns), len(data))
    found: dict[str, Entry] = {}
    codec.replay_frame(frame, found)
    assert found == expected
    assert codec.read_frame(memoryview(b"x" + data), position + 1) is None
    assert codec.find_frame(data, 0) == position


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_cleanly(data: bytes) -> None:
    for decode in (codec.decode_snapshot, codec.decode_journal_head):
        with pytest.raises(codec.Unreadable):
            decode(data)
    assert codec.find_frame(data, 0) is None


def test_a_sound_checksum_over_nonsense_is_refused() -> None:
    body = bytes(24) + b"\0\0\0\x09" + bytes(40)
    data = codec._with_head(codec.SNAPSHOT_MAGIC, body)
    with pytest.raises(codec.Unreadable, match="do not add up"):
        codec.decode_snapshot(data)
    frame = codec.Frame(1, 3, memoryview(b"\0\0\0\x01\x01"), 0)
    with pytest.raises(codec.Unreadable, match="do not add up"):
        codec.replay_frame(frame, {})
