"""Merkle root over the batches of a segment, in the shape of RFC 6962.

A leaf is SHA-256(0x00 || batch bytes as stored), a node SHA-256(0x01 || left || right). The RFC
splits at the largest power of two; pairing each level from the left and carrying an odd last hash
upwards unchanged gives the same tree, without recursion.
"""

from hashlib import sha256
from typing import Final

from tierlog.types import Bytes

HASH_BYTES: Final = 32
LEAF: Final = b"\x00"
NODE: Final = b"\x01"
EMPTY: Final = sha256(b"").digest()

_PAIR = 2 * HASH_BYTES


_new_node = sha256(NODE).copy


def leaf_hash(batch: Bytes) -> bytes:
    return sha256(LEAF + batch).digest()


def root(hashes: Bytes) -> bytes:
    """Of the leaf hashes, which lie end to end."""
    assert len(hashes) % HASH_BYTES == 0
    level: Bytes = hashes
    while len(level) > HASH_BYTES:
        paired = len(level) - len(level) % _PAIR
        # One long run of bytes a level: as many objects would take twice the memory.
        above = bytearray()
        for place in range(0, paired, _PAIR):
            node = _new_node()
            node.update(level[place : place + _PAIR])
            above += node.digest()
        above += level[paired:]
        level = above
    return bytes(level) or EMPTY
