"""The codecs: what they accept, and how far they go."""

import gzip
import random
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tierlog.records import snappy
from tierlog.records.attributes import Codec
from tierlog.records.compression import compress, decompress
from tierlog.records.errors import InflatedTooLarge, MalformedRecords
from tierlog.records.limits import Limits

MIB = 1024 * 1024
TEXT = b"the quick brown fox jumps over the lazy dog; " * 40
REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]

PACKED: dict[str, tuple[Codec, bytes]] = {
    "gzip": (Codec.GZIP, compress(Codec.GZIP, TEXT)),
    "snappy xerial": (Codec.SNAPPY, compress(Codec.SNAPPY, TEXT)),
    "snappy raw": (Codec.SNAPPY, snappy.compress_raw(TEXT)),
    "lz4": (Codec.LZ4, compress(Codec.LZ4, TEXT)),
    "lz4 with checksums": (
        Codec.LZ4,
        lz4.frame.compress(TEXT, content_checksum=True, block_checksum=True),
    ),
    "zstd": (Codec.ZSTD, compress(Codec.ZSTD, TEXT)),
    "zstd with checksum": (
        Codec.ZSTD,
        zstandard.ZstdCompressor(write_checksum=True).compress(TEXT),
    ),
    "zstd as a stream of level 22": (
        Codec.ZSTD,
        (stream := zstandard.ZstdCompressor(level=22).compressobj()).compress(TEXT)
        + stream.flush(),
    ),
}


@given(data=st.binary(max_size=2000) | st.binary(max_size=50).map(lambda b: b * 2000))
def test_what_is_compressed_comes_back(data: bytes) -> None:
    for codec in Codec:
        packed = compress(codec, data)
        assert decompress(codec, packed) == data
        assert decompress(codec, memoryview(packed)) == data
    assert not data or decompress(Codec.SNAPPY, snappy.compress_raw(data)) == data


def test_none_gives_the_bytes_themselves() -> None:
    assert compress(Codec.NONE, memoryview(TEXT)) == decompress(Codec.NONE, TEXT) == TEXT


@pytest.mark.parametrize("name", PACKED)
def test_the_forms_that_clients_write_are_read(name: str) -> None:
    codec, packed = PACKED[name]
    assert decompress(codec, packed) == TEXT


@pytest.mark.parametrize("name", PACKED)
def test_no_input_that_is_cut_off_is_read(name: str) -> None:
    codec, packed = PACKED[name]
    # A xerial stream may end after any block, here after its head alone.
    legal = {len(snappy.XERIAL_HEAD)} if name == "snappy xerial" else set()
    for size in set(range(len(packed))) - legal:
        with pytest.raises(MalformedRecords):
            decompress(codec, packed[:size])


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("garbage", [b"\0", b"garbage after the end", b"\0" * 64])
def test_no_bytes_may_follow_the_end(name: str, garbage: bytes) -> None:
    codec, packed = PACKED[name]
    with pytest.raises(MalformedRecords):
        decompress(codec, packed + garbage)


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("data", [b"", b"\1", b"not compressed at all, just text", b"\xff" * 100])
def test_input_of_another_kind_is_refused(codec: Codec, data: bytes) -> None:
    with pytest.raises(MalformedRecords):
        decompress(codec, data)


@pytest.mark.parametrize("name", PACKED)
def test_any_flipped_byte_gives_bytes_or_our_own_error(name: str) -> None:
    codec, packed = PACKED[name]
    read = 0
    for at in range(len(packed)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(packed)
            damaged[at] ^= flip
            try:
                read += isinstance(decompress(codec, damaged), bytes)
            except MalformedRecords:
                continue
    assert read < 3 * len(packed)


def test_gzip_members_end_to_end_are_one_stream() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_too_many_gzip_members_are_refused() -> None:
    with pytest.raises(MalformedRecords, match="members"):
        decompress(Codec.GZIP, gzip.compress(b"") * 101)


def test_zstd_frames_end_to_end_are_one_stream_and_skippable_ones_are_skipped() -> None:
    skippable = b"\x5a\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"any"
    one, two = (zstandard.ZstdCompressor().compress(text) for text in (b"one ", b"two"))
    assert decompress(Codec.ZSTD, one + skippable + two + skippable) == b"one two"
    assert decompress(Codec.ZSTD, skippable) == b""
    with pytest.raises(MalformedRecords, match="cut off"):
        decompress(Codec.ZSTD, one + skippable[:-1])


def test_too_many_zstd_frames_or_blocks_are_refused() -> None:
    empty = zstandard.ZstdCompressor().compress(b"")
    with pytest.raises(MalformedRecords, match="frames"):
        decompress(Codec.ZSTD, empty * 1001)
    header = b"\x28\xb5\x2f\xfd\x00\x58"
    with pytest.raises(MalformedRecords, match="blocks"):
        decompress(Codec.ZSTD, header + b"\x00\x00\x00" * 65_537)


def test_zstd_blocks_are_counted_over_all_frames() -> None:
    header = b"\x28\xb5\x2f\xfd\x00\x58"
    frame = header + b"\x00\x00\x00" * 32_767 + b"\x01\x00\x00"
    assert decompress(Codec.ZSTD, frame * 2) == b""
    with pytest.raises(MalformedRecords, match="more than 65536 blocks"):
        decompress(Codec.ZSTD, frame * 2 + header + b"\x01\x00\x00")


def test_a_zstd_block_of_the_reserved_type_is_refused() -> None:
    with pytest.raises(MalformedRecords, match="reserved"):
        decompress(Codec.ZSTD, b"\x28\xb5\x2f\xfd\x00\x58" + b"\x07\x00\x00")


def test_a_zstd_frame_that_needs_a_dictionary_is_refused() -> None:
    words = zstandard.ZstdCompressionDict(TEXT * 10, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    packed = zstandard.ZstdCompressor(dict_data=words).compress(TEXT)
    with pytest.raises(MalformedRecords):
        decompress(Codec.ZSTD, packed)


@pytest.mark.parametrize("said", [0, 999, 1001, 5000])
def test_a_zstd_frame_that_lies_about_its_size_is_refused(said: int) -> None:
    """And whoever comes next is served as ever: an unpacker that failed is not used again."""
    plain = bytes(range(250)) * 4
    packed = bytearray(zstandard.ZstdCompressor().compress(plain))
    assert zstandard.frame_content_size(packed) == 1000
    assert packed[5:7] == (1000 - 256).to_bytes(2, "little")
    packed[5:7] = ((said - 256) % 65536).to_bytes(2, "little")
    with pytest.raises(MalformedRecords, match="zstd"):
        decompress(Codec.ZSTD, packed)
    assert decompress(Codec.ZSTD, compress(Codec.ZSTD, plain)) == plain


def test_a_second_lz4_frame_is_refused_since_java_would_not_read_it() -> None:
    with pytest.raises(MalformedRecords, match="follow the frame"):
        decompress(Codec.LZ4, lz4.frame.compress(b"one") + lz4.frame.compress(b"two"))


def test_a_skippable_lz4_frame_is_refused() -> None:
    with pytest.raises(MalformedRecords, match="no frame"):
        decompress(Codec.LZ4, b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + PACKED["lz4"][1])


def test_a_xerial_head_may_stand_between_blocks() -> None:
    one, two = snappy.compress_xerial(b"one "), snappy.compress_xerial(b"two")
    assert decompress(Codec.SNAPPY, one + two) == b"one two"
    assert decompress(Codec.SNAPPY, snappy.XERIAL_HEAD) == b""


def test_a_newer_xerial_version_is_refused() -> None:
    with pytest.raises(MalformedRecords, match="version 2"):
        decompress(Codec.SNAPPY, snappy.XERIAL_HEAD[:-1] + b"\x02")


def test_too_many_xerial_blocks_are_refused() -> None:
    block = snappy.compress_raw(b"x")
    stream = snappy.XERIAL_HEAD + (len(block).to_bytes(4) + block) * 65_537
    with pytest.raises(MalformedRecords, match="blocks"):
        decompress(Codec.SNAPPY, stream)
    fewer = stream[: -len(block) - 4]
    assert decompress(Codec.SNAPPY, fewer) == b"x" * 65_536


def test_xerial_heads_count_as_blocks() -> None:
    assert decompress(Codec.SNAPPY, snappy.XERIAL_HEAD * 65_537) == b""
    with pytest.raises(MalformedRecords, match="blocks"):
        decompress(Codec.SNAPPY, snappy.XERIAL_HEAD * 65_538)


def test_a_snappy_claim_beyond_what_snappy_can_do_is_refused() -> None:
    """The densest input is a copy element: 64 plain bytes for 3."""
    packed = snappy.compress_raw(bytes(64 * 1024))
    assert 21 < 64 * 1024 / len(packed) < snappy.RATIO_MAX
    assert decompress(Codec.SNAPPY, packed) == bytes(64 * 1024)
    for claimed, refusal in ((22_000, "got 500"), (22_100, "cannot hold 22100 plain bytes")):
        length = bytes((claimed & 0x7F | 0x80, claimed >> 7 & 0x7F | 0x80, claimed >> 14))
        with pytest.raises(MalformedRecords, match=refusal):
            decompress(Codec.SNAPPY, length + bytes(1000))


@pytest.mark.parametrize("length", [0, -1, -(2**31), 2**31 - 1])
def test_a_xerial_block_of_senseless_length_is_refused(length: int) -> None:
    block = length.to_bytes(4, signed=True) + snappy.compress_raw(b"x")
    with pytest.raises(MalformedRecords, match="block of"):
        decompress(Codec.SNAPPY, snappy.XERIAL_HEAD + block)


# Bounds.


def zeros(codec: Codec, mebibytes: int) -> bytes:
    """So many MiB of zeros, made by packing the first and repeating it."""
    if codec is Codec.GZIP:
        packer = zlib.compressobj(wbits=31)
        head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
        block = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
        # The length and CRC at the end are those of one block: a bomb does not get that far.
        return head + block * mebibytes + packer.flush()
    if codec is Codec.SNAPPY:
        block = snappy.compress_raw(bytes(MIB))
        return snappy.XERIAL_HEAD + (len(block).to_bytes(4) + block) * mebibytes
    if codec is Codec.LZ4:
        frame = compress(Codec.LZ4, bytes(MIB))
        return frame[:7] + frame[7:-4] * mebibytes + frame[-4:]
    return compress(Codec.ZSTD, bytes(MIB)) * mebibytes


def test_the_limits_are_64_mib_and_200_to_1_beyond_the_first_mib() -> None:
    limits = Limits()
    assert limits.inflated_bytes_max(100) == MIB
    assert limits.inflated_bytes_max(10_000) == 2_000_000
    assert limits.inflated_bytes_max(MIB) == 64 * MIB


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_output_of_exactly_the_bound_passes_and_one_byte_more_does_not(codec: Codec) -> None:
    limits = Limits(bytes_max=1000, bytes_free=1000)
    assert decompress(codec, compress(codec, bytes(1000)), limits=limits) == bytes(1000)
    with pytest.raises(InflatedTooLarge) as caught:
        decompress(codec, compress(codec, bytes(1001)), limits=limits)
    assert caught.value.inflated_bytes_max == 1000
    assert caught.value.codec == codec.name.lower()


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_small_batch_of_zeros_is_legal_though_it_inflates_a_thousandfold(codec: Codec) -> None:
    assert decompress(codec, compress(codec, bytes(MIB))) == bytes(MIB)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_beyond_the_first_mib_the_ratio_counts(codec: Codec) -> None:
    packed = zeros(codec, 8)
    assert len(packed) * 200 < 64 * MIB
    limits = Limits(ratio_max=8 * MIB // len(packed) + 1)
    assert len(decompress(codec, packed, limits=limits)) == 8 * MIB
    with pytest.raises(InflatedTooLarge):
        decompress(codec, packed, limits=Limits(ratio_max=8 * MIB // len(packed) - 1))


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_inflating_takes_at_most_two_and_a_fifth_times_the_bound(codec: Codec) -> None:
    data = (random.Random(1).randbytes(8000) + bytes(57_000)) * 120
    packed = compress(codec, data)
    tracemalloc.start()
    decompress(codec, packed, limits=Limits(bytes_max=len(data), bytes_free=len(data)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 2.2 * len(data) + len(packed)


def bogus_length() -> bytes:
    return b"\xff\xff\xff\xff\x0f" + bytes(20)


BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    **{codec.name.lower(): (codec, partial(zeros, codec, 256)) for codec in REAL_CODECS},
    "snappy of a bogus length (CVE-2023-34455)": (Codec.SNAPPY, bogus_length),
    "snappy of a bogus length in a xerial block": (
        Codec.SNAPPY,
        lambda: snappy.XERIAL_HEAD + len(bogus_length()).to_bytes(4) + bogus_length(),
    ),
    "zstd that claims a large content": (
        Codec.ZSTD,
        # Frame header: content size in 8 bytes, 1 TiB, which is also the window; one empty block.
        lambda: b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little") + b"\x01\x00\x00",
    ),
    "zstd that claims a window of 2 GiB": (
        Codec.ZSTD,
        lambda: b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00",
    ),
    "zstd of many repeats": (
        Codec.ZSTD,
        # Blocks of type "repeat a byte", 128 KiB out of 4 bytes: 32,768 to 1.
        lambda: b"\x28\xb5\x2f\xfd\x00\x58" + b"\x02\x00\x10\x00" * 5000 + b"\x01\x00\x00",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_stopped_early(name: str) -> None:
    codec, make = BOMBS[name]
    bomb = make()
    bound = Limits().inflated_bytes_max(len(bomb))
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(MalformedRecords):
        decompress(codec, bomb)
    spent = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Pieces and the joined whole may live side by side; codecs hold their input once more.
    assert peak <= 2 * bound + 2 * len(bomb) + MIB
    assert spent < 2.0


MEASURE_RSS = """
import resource, sys
from tests.records.test_compression import BOMBS
from tierlog.records.compression import decompress
from tierlog.records.errors import MalformedRecords
codec, make = BOMBS[sys.argv[1]]
bomb = make()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(3):
    try:
        decompress(codec, bomb)
        sys.exit("the bomb passed")
    except MalformedRecords:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_does_not_fill_the_memory_of_the_process(name: str) -> None:
    """What the codecs allocate in C is unseen by tracemalloc, so ask the kernel."""
    run = subprocess.run(
        [sys.executable, "-c", MEASURE_RSS, name], capture_output=True, text=True, check=True
    )
    grown_bytes = int(run.stdout) * 1024
    # At most 64 MiB are allowed out; twice, as above, and 16 MiB for windows and tables.
    assert grown_bytes <= (2 * 64 + 16) * MIB
