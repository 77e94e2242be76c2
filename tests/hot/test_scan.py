"""Walking batches on a disk, and finding the way behind damage."""

from collections.abc import Callable

import pytest

from tests.hot.support import batch
from tierlog.env import File
from tierlog.hot import scan as scanning
from tierlog.hot.scan import Misplaced, resync, scan, seen_end, visit_sound, walk
from tierlog.records.batch import patch_offset
from tierlog.records.errors import ChecksumMismatch, TruncatedBatch
from tierlog.records.header import BatchHeader
from tierlog.sim.disk import SimDisk
from tierlog.types import LeaderEpoch, Offset, Position

COUNT_AT = 57
DELTA_AT = 23
LENGTH_AT = 8


def placed(base: int, *values: bytes) -> bytes:
    data = batch(*values)
    patch_offset(data, base_offset=Offset(base), leader_epoch=LeaderEpoch(1))
    return bytes(data)


def three(value: bytes = b"v" * 100) -> list[bytes]:
    return [placed(10, value, value), placed(12, value), placed(13, value, value)]


def on_disk(data: bytes) -> File:
    file = SimDisk().open("/log", create=True)
    file.pwrite(data, 0)
    return file


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


Collect = tuple[list[int], Callable[[BatchHeader, Position], None]]


def collector() -> Collect:
    found: list[int] = []
    return found, lambda header, position: found.append(header.base_offset)


@pytest.mark.parametrize("piece", [1, 61, 100, 200, 400, 10_000])
def test_batches_are_found_whatever_the_size_of_a_piece(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "PIECE_BYTES", piece)
    data = b"".join(three())
    found, visit = collector()
    state = scan(
        on_disk(data), start=Position(0), end=Position(len(data)), expected=Offset(10), visit=visit
    )
    assert state == (len(data), 15, None)
    assert found == [10, 12, 13]


@pytest.mark.parametrize("size_of_piece", [100, 10_000])
def test_a_file_shorter_than_it_was_said_to_be_ends_the_scan(
    size_of_piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "PIECE_BYTES", size_of_piece)
    batches = three()
    whole = b"".join(batches)
    border = len(batches[0])
    for size in (0, 5, border, border + 30, border + 100, len(whole) - 1):
        file = on_disk(whole[:size])
        state = scan(file, start=Position(0), end=Position(len(whole)), expected=Offset(10))
        assert state.position in (0, border, border + len(batches[1]))
        assert state.position <= size
        assert state.fault is None or isinstance(state.fault, TruncatedBatch)


def test_a_scan_stops_at_the_first_bad_batch_and_says_why() -> None:
    batches = three()
    data = batches[0] + flipped(batches[1], 80) + batches[2]
    state = scan(on_disk(data), start=Position(0), end=Position(len(data)), expected=Offset(10))
    assert (state.position, state.next_offset) == (len(batches[0]), 12)
    assert isinstance(state.fault, ChecksumMismatch)


@pytest.mark.parametrize(("contiguous", "base"), [(True, 13), (True, 11), (False, 11)])
def test_a_whole_batch_at_the_wrong_place_is_misplaced(contiguous: bool, base: int) -> None:
    data = placed(10, b"a", b"b") + placed(base, b"c")
    state = walk(data, at=0, expected=10, contiguous=contiguous)
    assert isinstance(state.fault, Misplaced)
    assert state.next_offset == 12


def test_gaps_are_fine_where_offsets_need_not_be_contiguous() -> None:
    data = placed(10, b"a", b"b") + placed(20, b"c")
    assert walk(data, at=0, expected=5, contiguous=False) == (len(data), 21, None)


def test_the_way_is_found_again_behind_a_batch_with_a_bad_length() -> None:
    batches = three()
    for position in (LENGTH_AT + 1, LENGTH_AT + 3):
        data = flipped(batches[0], position) + batches[1] + batches[2]
        found = resync(
            on_disk(data),
            start=Position(0),
            end=Position(len(data)),
            floor=Offset(10),
            ceiling=Offset(99),
        )
        assert found is not None
        assert (found[0], found[1].base_offset) == (len(batches[0]), 12)


@pytest.mark.parametrize("piece", [64, 100, 10_000])
def test_a_header_across_the_border_of_two_pieces_is_not_missed(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "PIECE_BYTES", piece)
    for filler in range(0, 140, 3):
        data = bytes(filler) + placed(12, b"v")
        found = resync(
            on_disk(b"\xff" + data),
            start=Position(0),
            end=Position(1 + len(data)),
            floor=Offset(10),
            ceiling=Offset(99),
        )
        assert found is not None
        assert found[0] == 1 + filler


def test_a_batch_inside_a_records_value_is_not_taken_for_the_logs_own() -> None:
    """The outer batch is damaged, its length is not: that length leads on."""
    inner = placed(11, b"planted")
    outer = placed(10, b"x" * 50 + inner + b"x" * 50, b"y")
    data = flipped(outer, 70) + placed(12, b"next")
    found = resync(
        on_disk(data),
        start=Position(0),
        end=Position(len(data)),
        floor=Offset(10),
        ceiling=Offset(99),
    )
    assert found is not None
    assert (found[0], found[1].base_offset) == (len(outer), 12)


@pytest.mark.parametrize(("floor", "ceiling"), [(12, 99), (13, 99), (0, 12)])
def test_offsets_outside_the_bounds_do_not_count(floor: int, ceiling: int) -> None:
    data = bytes(20) + placed(12, b"v")
    assert (
        resync(
            on_disk(data),
            start=Position(0),
            end=Position(len(data)),
            floor=Offset(floor),
            ceiling=Offset(ceiling),
        )
        is None
    )


def test_every_sound_batch_is_visited_around_the_damage() -> None:
    batches = [placed(10 + number, b"v" * 50) for number in range(8)]
    batches[2] = flipped(batches[2], 65)
    batches[5] = flipped(batches[5], LENGTH_AT + 3)
    data = b"".join(batches)
    found, visit = collector()
    visit_sound(
        on_disk(data),
        base_offset=Offset(10),
        next_offset=Offset(18),
        size=Position(len(data)),
        contiguous=True,
        visit=visit,
    )
    assert found == [10, 11, 13, 14, 16, 17]


# Offsets that a cut tail speaks of


def seen(data: bytes) -> int:
    return seen_end(on_disk(data), start=Position(0), end=Position(len(data)), floor=Offset(10))


def test_the_offsets_of_a_torn_batch_are_seen_if_its_header_is_whole() -> None:
    torn = placed(10, b"a" * 100, b"b")[:80]
    assert seen(torn) == 12
    assert seen(torn[:60]) == 10
    assert seen(b"") == 10


def test_batches_behind_a_bad_one_are_seen_too() -> None:
    batches = three()
    assert seen(flipped(batches[0], 70) + batches[1] + batches[2]) == 15


@pytest.mark.parametrize("position", range(COUNT_AT, COUNT_AT + 4))
@pytest.mark.parametrize("field", [0, DELTA_AT - COUNT_AT])
def test_a_flipped_count_does_not_give_offsets_out_again(position: int, field: int) -> None:
    batches = three()
    first = flipped(batches[0], position + field)
    end = seen(first)
    assert end >= 12
    assert end <= 12 + len(first)


def test_what_does_not_continue_the_log_is_not_seen() -> None:
    assert seen(flipped(placed(11, b"v"), 16)) == 10
    assert seen(bytes(200)) == 10


@pytest.mark.parametrize("position", [7, 11, 16])
def test_one_wrong_field_of_a_header_is_forgiven(position: int) -> None:
    """Base offset, length or magic: what is left still says that the offset was given out."""
    assert seen(flipped(placed(10, b"v"), position)) == 11
