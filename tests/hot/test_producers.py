"""Idempotent producers: what is a duplicate, what is a gap, who is fenced."""

import pytest

from tests.hot.support import batch
from tierlog.hot.errors import ProducerFenced, SequenceOutOfOrder
from tierlog.hot.producers import BATCHES_KEPT, ProducedBatch, Producers
from tierlog.hot.snapshot import decode_snapshot, encode_snapshot
from tierlog.records.header import BatchHeader, parse_header
from tierlog.types import Offset, TimestampMs

SEQUENCE_LAST = 2**31 - 1


def header(sequence: int, *, count: int = 1, epoch: int = 0, producer: int = 7) -> BatchHeader:
    values = [b"x"] * count
    data = batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return parse_header(data)


class Writer:
    """Appends what `check` lets through."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.end = 0

    def send(self, one: BatchHeader, *, now_ms: int = 0) -> ProducedBatch | None:
        first = self.producers.check(one)
        if first is None:
            stamp = TimestampMs(5000 + self.end)
            self.producers.note(one, Offset(self.end), stamp, now_ms=now_ms)
            self.end += one.last_offset_delta + 1
        return first


def test_a_batch_that_comes_again_is_answered_with_its_first_place() -> None:
    writer = Writer()
    assert writer.send(header(0, count=3)) is None
    assert writer.send(header(3, count=2)) is None
    assert writer.send(header(0, count=3)) == (0, 2, 0, 2, 5000)
    assert writer.send(header(3, count=2)) == (3, 4, 3, 4, 5003)


def test_the_last_five_batches_are_remembered_and_no_more() -> None:
    writer = Writer()
    for sequence in range(7):
        writer.send(header(sequence))
    for sequence in range(2, 7):
        assert writer.send(header(sequence)) is not None
    assert BATCHES_KEPT == 5
    for sequence in (0, 1):
        with pytest.raises(SequenceOutOfOrder):
            writer.send(header(sequence))


@pytest.mark.parametrize("sequence", [0, 2, 4, 9])
def test_what_neither_follows_nor_repeats_is_refused(sequence: int) -> None:
    writer = Writer()
    writer.send(header(1, count=2))
    with pytest.raises(SequenceOutOfOrder, match="expected 3"):
        writer.send(header(sequence))


def test_the_same_beginning_with_another_end_is_no_duplicate() -> None:
    writer = Writer()
    writer.send(header(0, count=3))
    with pytest.raises(SequenceOutOfOrder):
        writer.send(header(0, count=2))


def test_an_older_epoch_is_fenced() -> None:
    writer = Writer()
    writer.send(header(0, epoch=4))
    with pytest.raises(ProducerFenced) as fenced:
        writer.send(header(1, epoch=3))
    assert (fenced.value.producer_id, fenced.value.got, fenced.value.known) == (7, 3, 4)


def test_a_new_epoch_begins_with_sequence_zero_and_forgets_the_old_batches() -> None:
    writer = Writer()
    writer.send(header(0))
    with pytest.raises(SequenceOutOfOrder, match="new epoch"):
        writer.send(header(1, epoch=1))
    assert writer.send(header(0, epoch=1)) is None
    assert writer.end == 2
    assert writer.send(header(1, epoch=1)) is None


def test_an_unknown_producer_may_begin_anywhere() -> None:
    writer = Writer()
    assert writer.send(header(4711, epoch=3)) is None
    assert writer.send(header(4712, epoch=3)) is None


def test_sequences_go_on_with_zero_behind_the_largest() -> None:
    writer = Writer()
    writer.send(header(SEQUENCE_LAST))
    assert writer.send(header(0)) is None
    assert writer.send(header(SEQUENCE_LAST)) is not None


def test_a_batch_may_lie_across_the_wraparound() -> None:
    writer = Writer()
    writer.send(header(SEQUENCE_LAST - 1, count=4))
    assert writer.send(header(SEQUENCE_LAST - 1, count=4)) is not None
    with pytest.raises(SequenceOutOfOrder, match="expected 2"):
        writer.send(header(3))
    assert writer.send(header(2)) is None


def test_silent_producers_are_forgotten_by_the_brokers_clock() -> None:
    writer = Writer()
    writer.send(header(0, producer=1), now_ms=100)
    writer.send(header(0, producer=2), now_ms=200)
    writer.send(header(1, producer=1), now_ms=250)
    assert writer.producers.expire(250) == 1
    assert [producer_id for producer_id, _ in writer.producers] == [1]
    assert writer.send(header(0, producer=2)) is None


def test_producers_do_not_mix() -> None:
    writer = Writer()
    writer.send(header(0, producer=1))
    assert writer.send(header(0, producer=2)) is None
    assert writer.send(header(1, producer=2)) is None
    assert len(writer.producers) == 2


def test_recovery_skips_batches_without_a_producer() -> None:
    producers = Producers()
    producers.visit(parse_header(batch(b"x")), now_ms=1)
    assert len(producers) == 0
    producers.visit(header(3), now_ms=1)
    assert len(producers) == 1


def test_beyond_the_limit_the_one_that_was_silent_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tierlog.hot.producers.PRODUCERS_MAX", 3)
    writer = Writer()
    for number, now_ms in ((1, 300), (2, 200), (3, 100)):  # The clock goes backwards.
        writer.send(header(0, producer=number), now_ms=now_ms)
    writer.send(header(1, producer=1))
    writer.send(header(0, producer=4))
    assert [producer_id for producer_id, _ in writer.producers] == [1, 3, 4]
    assert writer.send(header(0, producer=1)) is not None, "those who go on are still known"
    assert writer.send(header(0, producer=3)) is not None


def test_the_limit_holds_across_a_snapshot_and_so_does_the_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = Writer()
    for producer, now_ms in ((5, 100), (9, 200), (1, 300)):
        writer.send(header(0, producer=producer), now_ms=now_ms)
    monkeypatch.setattr("tierlog.hot.producers.PRODUCERS_MAX", 2)
    restored = decode_snapshot(encode_snapshot(writer.producers))
    assert restored is not None
    assert [producer_id for producer_id, _ in restored] == [1, 9]
    restored.note(header(0, producer=7), Offset(9), TimestampMs(0), now_ms=400)
    assert [producer_id for producer_id, _ in restored] == [1, 7]


def test_a_copy_stays_as_it_is() -> None:
    writer = Writer()
    writer.send(header(0))
    copied = writer.producers.copy()
    before = encode_snapshot(copied)
    writer.send(header(1))
    writer.send(header(0, producer=8))
    writer.producers.expire(1 << 40)
    assert encode_snapshot(copied) == before
