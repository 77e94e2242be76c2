from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tierlog.cold.crcjoin import joined, joined_blocks


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_crc_of_two_runs_is_had_from_those_of_each(first: bytes, second: bytes) -> None:
    found = joined(crc32c(first), crc32c(second), second_bytes=len(second))
    assert found == crc32c(first + second)


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=9))
def test_blocks_are_joined_in_their_order(blocks: list[bytes]) -> None:
    crcs = [crc32c(block) for block in blocks]
    assert joined_blocks(crcs, block_bytes=16) == crc32c(b"".join(blocks))


def test_a_mebibyte_behind_another_one() -> None:
    data = bytes(range(256)) * 4096
    assert joined(crc32c(data), crc32c(data), second_bytes=1 << 20) == crc32c(data + data)
