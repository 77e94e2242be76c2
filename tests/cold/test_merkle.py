"""The tree of RFC 6962, against its own definition."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.cold import merkle


def by_definition(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1, word for word: split at the largest power of two below the size."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0]).digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return sha256(b"\1" + by_definition(leaves[:split]) + by_definition(leaves[split:])).digest()


@given(st.lists(st.binary(max_size=8), max_size=70))
def test_the_root_is_that_of_the_definition(leaves: list[bytes]) -> None:
    hashes = b"".join(merkle.leaf_hash(leaf) for leaf in leaves)
    assert merkle.root(hashes) == by_definition(leaves)


@pytest.mark.parametrize(
    ("count", "root"),
    # From the test vectors of the certificate-transparency code, which follow the RFC.
    [
        (0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
        (8, "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"),
    ],
)
def test_known_trees_have_their_known_roots(count: int, root: str) -> None:
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657"]
    inputs.append("606162636465666768696a6b6c6d6e6f")
    leaves = [bytes.fromhex(one) for one in inputs[:count]]
    assert merkle.root(b"".join(map(merkle.leaf_hash, leaves))).hex() == root
