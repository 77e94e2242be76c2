"""Names of files: what is written is read back, what is not ours is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.hot import names
from tierlog.types import Offset

offsets = st.integers(0, 2**63 - 1).map(Offset)


@given(offsets)
def test_a_segments_offset_is_read_from_its_name(offset: Offset) -> None:
    name = names.segment_name(offset, names.LOG)
    assert len(name) == 24
    assert names.parse_offset(name, names.LOG) == offset
    assert names.parse_offset(name, names.INDEX) is None


@given(offsets, offsets)
def test_a_range_is_read_from_the_name_of_what_was_set_aside(start: Offset, end: Offset) -> None:
    name = names.aside_name(start, end, names.TORN)
    assert names.parse_aside(name, names.TORN) == (start, end)
    assert names.parse_aside(name, names.DAMAGED) is None


@pytest.mark.parametrize(
    "name",
    [
        "partition.checkpoint",
        "1.log",
        "00000000000000000001.log.tmp",
        "00000000000000000001.log.deleted",
        "-0000000000000000001.log",
        "0000000000000000000\N{SUPERSCRIPT TWO}.log",
        "00000000000000000001",
        ".log",
        "",
    ],
)
def test_other_names_are_no_segments(name: str) -> None:
    assert names.parse_offset(name, names.LOG) is None


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000001.damaged",
        "1-.damaged",
        "-1.damaged",
        "a-b.damaged",
        "1-\N{SUPERSCRIPT TWO}.damaged",
        "1-2.damaged.tmp",
        "1-2",
    ],
)
def test_other_names_were_not_set_aside(name: str) -> None:
    assert names.parse_aside(name, names.DAMAGED) is None
