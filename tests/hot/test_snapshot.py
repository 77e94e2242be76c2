"""Producer snapshots: Kafka's bytes, our section behind them, and what happens to damage."""

from struct import pack

from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from tierlog.hot.producers import ProducedBatch, Producer, Producers
from tierlog.hot.snapshot import decode_snapshot, encode_snapshot
from tierlog.types import Offset, ProducerEpoch, ProducerId, TimestampMs

SEQUENCE_MAX = 2**31 - 1

KAFKA_PART = """
0001                version
{crc}               CRC-32C of everything behind it
00000001            one producer
00000000000003e8    producer id 1000
0002                epoch 2
00000009            last sequence 9
000000000000006d    last offset 109
00000004            offset delta: the batch holds five records
0000018bcfe56800    timestamp 1700000000000
ffffffff            coordinator epoch: none
ffffffffffffffff    first offset of the open transaction: none
"""

OUR_PART = """
0000018bcfe56bd0    last seen 1700000000976
01                  one earlier batch
00000003            its base sequence 3
00000004            its last sequence 4
0000000000000064    its base offset 100
0000000000000065    its last offset 101
0000018bcfe567ff    its timestamp 1699999999999
"""


def from_hex(text: str) -> bytes:
    return bytes.fromhex("".join(line.split()[0] for line in text.strip().splitlines()))


def sealed(text: str) -> bytes:
    """The bytes that the text describes, with the CRC they need."""
    body = from_hex(text.replace("{crc}", "00000000"))[6:]
    return from_hex(text.replace("{crc}", f"{crc32c(body):08x}"))


def one_producer() -> Producers:
    producers = Producers()
    batches = [
        ProducedBatch(3, 4, Offset(100), Offset(101), TimestampMs(1_699_999_999_999)),
        ProducedBatch(5, 9, Offset(105), Offset(109), TimestampMs(1_700_000_000_000)),
    ]
    producer = Producer(ProducerEpoch(2), tuple(batches), last_seen_ms=1_700_000_000_976)
    producers.restore(ProducerId(1000), producer)
    return producers


def described(producers: Producers | None) -> list[tuple[object, ...]]:
    assert producers is not None
    return [
        (number, one.producer_epoch, one.last_seen_ms, list(one.batches))
        for number, one in producers
    ]


def test_the_bytes_are_kafkas_with_ours_behind_them() -> None:
    assert encode_snapshot(one_producer()).hex() == sealed(KAFKA_PART + OUR_PART.lstrip()).hex()


def test_a_snapshot_that_kafka_wrote_is_read_with_the_last_batch_of_each_producer() -> None:
    producers = decode_snapshot(sealed(KAFKA_PART))
    last = ProducedBatch(5, 9, Offset(105), Offset(109), TimestampMs(1_700_000_000_000))
    assert described(producers) == [(1000, 2, 1_700_000_000_000, [last])]


def test_a_batch_across_the_wraparound_keeps_its_first_sequence() -> None:
    producers = Producers()
    last = ProducedBatch(SEQUENCE_MAX - 1, 1, Offset(10), Offset(13), TimestampMs(0))
    producers.restore(ProducerId(1), Producer(ProducerEpoch(0), (last,), last_seen_ms=0))
    assert described(decode_snapshot(encode_snapshot(producers))) == described(producers)


def test_every_flipped_bit_and_every_truncation_is_noticed() -> None:
    data = encode_snapshot(one_producer())
    for size in range(len(data)):
        assert decode_snapshot(data[:size]) is None
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decode_snapshot(damaged) is None


def test_another_version_is_not_guessed_at() -> None:
    body = pack(">i", 0)
    assert decode_snapshot(pack(">hI", 1, crc32c(body)) + body) is not None
    assert decode_snapshot(pack(">hI", 2, crc32c(body)) + body) is None


@st.composite
def states(draw: st.DrawFn) -> Producers:
    producers = Producers()
    for number in draw(st.sets(st.integers(0, 2**63 - 1), max_size=5)):
        batches = []
        offset, sequence = draw(st.integers(0, 2**40)), draw(st.integers(0, SEQUENCE_MAX))
        for count in draw(st.lists(st.integers(1, 1000), min_size=1, max_size=5)):
            last = (sequence + count - 1) & SEQUENCE_MAX
            stamp = TimestampMs(draw(st.integers(-1, 2**50)))
            batches.append(
                ProducedBatch(sequence, last, Offset(offset), Offset(offset + count - 1), stamp)
            )
            offset, sequence = offset + count, (last + 1) & SEQUENCE_MAX
        epoch = ProducerEpoch(draw(st.integers(0, 2**15 - 1)))
        seen = draw(st.integers(0, 2**50))
        producers.restore(ProducerId(number), Producer(epoch, tuple(batches), last_seen_ms=seen))
    return producers


@given(states())
@settings(max_examples=50, deadline=None)
def test_a_state_survives_its_bytes(producers: Producers) -> None:
    data = encode_snapshot(producers)
    again = decode_snapshot(data)
    assert described(again) == described(producers)
    assert again is not None
    assert encode_snapshot(again) == data
