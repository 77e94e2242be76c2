"""Zigzag varints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.records.errors import MalformedRecords
from tierlog.records.varint import decode_varint, decode_varlong, encode_varint


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_the_bytes_are_those_of_the_protocol(number: int, text: str) -> None:
    assert encode_varint(number).hex() == text


@given(number=st.integers(-(2**63), 2**63 - 1), before=st.binary(max_size=3))
def test_a_64_bit_number_comes_back(number: int, before: bytes) -> None:
    data = before + encode_varint(number)
    assert decode_varlong(data + b"after", len(before)) == (number, len(data))


@given(number=st.integers(-(2**31), 2**31 - 1))
def test_a_32_bit_number_comes_back(number: int) -> None:
    data = encode_varint(number)
    assert decode_varint(data, 0) == (number, len(data))


@given(number=st.integers(2**31, 2**63 - 1) | st.integers(-(2**63), -(2**31) - 1))
def test_a_wider_number_is_no_32_bit_number(number: int) -> None:
    with pytest.raises(MalformedRecords):
        decode_varint(encode_varint(number), 0)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "cut off"),
        (b"\x80", "cut off"),
        (b"\x80" * 4, "cut off"),
        (b"\x80" * 5, "more than 5"),
        (b"\x80" * 5 + b"\x00", "more than 5"),
        (b"\xff\xff\xff\xff\x1f", "32 bits"),
    ],
)
def test_a_varint_that_does_not_end_or_fit_is_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(MalformedRecords, match=sentence):
        decode_varint(data, 0)
