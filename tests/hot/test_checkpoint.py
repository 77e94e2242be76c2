"""The checkpoint: whole, or not believed."""

import json
from dataclasses import replace

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from tierlog.hot.checkpoint import (
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    load_checkpoint,
    store_checkpoint,
)
from tierlog.hot.epochs import EpochStart
from tierlog.hot.errors import NewerFormat
from tierlog.hot.segment import SegmentNumbers
from tierlog.sim.disk import SimDisk
from tierlog.types import LeaderEpoch, Offset, Position, TimestampMs

EXAMPLE = Checkpoint(
    boot="b",
    clean=True,
    log_start=Offset(3),
    trimmed_to=Offset(2),
    durable_end=Offset(20),
    segments=(
        SegmentNumbers(Offset(0), Offset(20), Position(900), TimestampMs(7), Offset(9), 1234),
    ),
    epochs=(EpochStart(LeaderEpoch(1), Offset(0)),),
)
wide = st.integers(-1, 2**63 - 1)


def line(fields: dict[str, object]) -> bytes:
    text = json.dumps(fields).encode()
    return b"%s\ncrc32c=%08x\n" % (text, crc32c(text))


@given(
    st.builds(
        Checkpoint,
        boot=st.text(),
        clean=st.booleans(),
        log_start=wide.map(Offset),
        trimmed_to=wide.map(Offset),
        durable_end=wide.map(Offset),
        segments=st.lists(st.builds(SegmentNumbers, *[wide] * 6), max_size=3).map(tuple),
        epochs=st.lists(st.builds(EpochStart, wide, wide), max_size=3).map(tuple),
    )
)
@settings(max_examples=50)
def test_a_checkpoint_survives_its_bytes(checkpoint: Checkpoint) -> None:
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


def test_every_flipped_bit_and_every_truncation_is_noticed() -> None:
    data = encode_checkpoint(EXAMPLE)
    for size in range(len(data)):
        assert decode_checkpoint(data[:size]) is None
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decode_checkpoint(bytes(damaged)) is None


def test_a_newer_version_is_refused_not_guessed_at() -> None:
    with pytest.raises(NewerFormat, match=r"partition\.checkpoint has format version 2"):
        decode_checkpoint(line({"version": 2, "whatever": []}))


def test_a_missing_checkpoint_is_none() -> None:
    disk = SimDisk()
    disk.mkdir("/p")
    assert load_checkpoint(disk, "/p") is None
    store_checkpoint(disk, "/p", EXAMPLE)
    assert load_checkpoint(disk, "/p") == EXAMPLE


def test_without_a_word_on_what_was_trimmed_nothing_counts_as_given_up() -> None:
    fields = json.loads(encode_checkpoint(EXAMPLE).partition(b"\n")[0])
    del fields["trimmed_to"]
    old = decode_checkpoint(line(fields))
    assert old is not None
    assert (old.log_start, old.trimmed_to) == (3, 0)


CLEANED = replace(
    EXAMPLE, cleaned_to=Offset(18), compacted=True, replaced=(Offset(0), Offset(5), Offset(9))
)
CLEANED_BYTES = (
    b'{"version": 1, "boot": "b", "clean": true, "log_start": 3, "trimmed_to": 2, '
    b'"durable_end": 20, "segments": [[0, 20, 900, 7, 9, 1234]], "epochs": [[1, 0]], '
    b'"cleaned_to": 18, "compacted": true, "replaced": [0, 5, 9]}\n'
)


def test_what_a_cleaning_writes_down_is_in_these_bytes() -> None:
    encoded = encode_checkpoint(CLEANED)
    assert encoded == CLEANED_BYTES + b"crc32c=%08x\n" % crc32c(CLEANED_BYTES[:-1])
    assert decode_checkpoint(encoded) == CLEANED


def test_a_log_that_was_never_cleaned_says_nothing_of_it() -> None:
    encoded = encode_checkpoint(EXAMPLE)
    assert b"cleaned" not in encoded
    assert b"replaced" not in encoded
    assert decode_checkpoint(encoded) == EXAMPLE
