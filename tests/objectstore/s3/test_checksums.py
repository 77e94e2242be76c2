"""CRCs of parts make the CRC of the whole."""

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tierlog.objectstore.s3.checksums import combine, from_header, to_header


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_the_whole_follows_from_its_parts(parts: list[bytes]) -> None:
    assert combine((crc32c(part), len(part)) for part in parts) == crc32c(b"".join(parts))


def test_parts_in_another_order_make_another_whole() -> None:
    parts = [(crc32c(b"a" * 70_000), 70_000), (crc32c(b"b"), 1)]
    assert combine(parts) == crc32c(b"a" * 70_000 + b"b")
    assert combine(parts[::-1]) != combine(parts)


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_a_header_reads_back(crc: int) -> None:
    assert from_header(to_header(crc)) == crc


def test_sums_of_another_kind_are_not_taken_for_ours() -> None:
    assert to_header(crc32c(b"123456789")) == "4waSgw=="
    for text in (None, "", "4waSgw==-3", "?"):
        assert from_header(text) is None
