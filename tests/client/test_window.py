"""Sequence numbers through every kind of trouble, without a loop."""

import pytest

from tierlog.client import BrokerError, ClientError, ConnectionLost, NotConnected
from tierlog.client.window import PRODUCER_EPOCH_MAX, Batch, Identity, Window
from tierlog.records.attributes import Codec
from tierlog.records.batch import parse_header
from tierlog.records.record import Record
from tierlog.types import Offset, ProducerEpoch, ProducerId, TimestampMs
from tierlog.wire.error_codes import ErrorCode

DEADLINE = 100.0
LOST = ConnectionLost("gone")
GAP = BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
TOO_LARGE = BrokerError(ErrorCode.MESSAGE_TOO_LARGE)
NO_REPLICAS = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)


def batch(count: int = 2, deadline: float = DEADLINE) -> Batch:
    records = [Record(Offset(place), TimestampMs(5), None, b"x") for place in range(count)]
    return Batch(begun_at=0.0, deadline=deadline, records=records)


def window(count: int, *, epoch: int = 0) -> tuple[Window, list[Batch]]:
    """A window past its first batch, with `count` more of two records each, all sent."""
    made = Window(idempotent=True, codec=Codec.NONE, acks=-1, size_max=5)
    made.adopt(Identity(ProducerId(7), ProducerEpoch(epoch)))
    first = batch()
    made.admit(first)
    made.written(first)
    batches = [batch() for _ in range(count)]
    for each in batches:
        made.admit(each)
        each.is_out = True
    return made, batches


def numbers(made: Window) -> list[tuple[int, int]]:
    """Producer epoch and base sequence, as they stand in the bytes."""
    headers = [parse_header(each.data) for each in made.batches]
    return [(header.producer_epoch, header.base_sequence) for header in headers]


def refuse(made: Window, batches: list[Batch], *errors: ClientError) -> None:
    for each, error in zip(batches, errors, strict=True):
        made.refused(each, error)


def test_batches_are_numbered_record_by_record() -> None:
    made, _ = window(3)
    assert numbers(made) == [(0, 2), (0, 4), (0, 6)]


def test_the_window_takes_five_and_no_more() -> None:
    made, _ = window(5)
    assert not made.has_room


def test_the_first_batch_under_new_numbers_goes_alone() -> None:
    made = Window(idempotent=True, codec=Codec.NONE, acks=-1, size_max=5)
    assert not made.has_room  # no producer id yet
    made.adopt(Identity(ProducerId(7), ProducerEpoch(0)))
    first = batch()
    made.admit(first)
    assert not made.has_room
    made.written(first)
    assert made.has_room


def test_what_can_be_repeated_is_repeated_as_it_is() -> None:
    made, batches = window(3)
    data = [each.data for each in batches]
    refuse(made, batches, NO_REPLICAS, GAP, LOST)
    assert not made.has_room
    assert made.settle(now=0) == []
    assert made.to_send() == batches
    assert [each.data for each in batches] == data


def test_a_refused_batch_is_given_up_and_the_rest_begins_a_new_epoch() -> None:
    made, batches = window(3)
    refuse(made, batches, TOO_LARGE, GAP, LOST)
    assert made.settle(now=0) == [(batches[0], TOO_LARGE)]
    # The lost one could not have been written behind a gap, so it may be numbered anew.
    assert numbers(made) == [(1, 0), (1, 2)]
    assert made.to_send() == batches[1:2]


def test_a_gap_before_a_sure_batch_begins_a_new_epoch() -> None:
    made, batches = window(2)
    refuse(made, batches, GAP, GAP)
    assert made.settle(now=0) == []
    assert numbers(made) == [(1, 0), (1, 2)]


def test_a_doubtful_batch_is_not_numbered_anew() -> None:
    made, batches = window(2)
    refuse(made, batches, LOST, LOST)
    made.settle(now=0)
    refuse(made, batches, GAP, GAP)
    lost = made.settle(now=0)
    assert [each for each, _ in lost] == batches
    assert made.has_room or made.to_send() == []


def test_a_doubtful_batch_out_of_time_leaves_the_question_to_those_behind_it() -> None:
    made, batches = window(2)
    batches[0].deadline = 1.0
    refuse(made, batches, LOST, LOST)
    assert [each for each, _ in made.settle(now=2)] == batches[:1]
    assert numbers(made) == [(0, 4)]
    assert not made.has_room
    made.written(batches[1])
    made.admit(batch())
    assert numbers(made) == [(0, 6)]


def test_with_nobody_left_to_answer_a_new_epoch_begins() -> None:
    made, batches = window(1)
    refuse(made, batches, LOST)
    assert [each for each, _ in made.settle(now=DEADLINE)] == batches
    made.admit(batch())
    assert numbers(made) == [(1, 0)]


def test_used_up_epochs_ask_for_a_new_id() -> None:
    made, batches = window(2, epoch=PRODUCER_EPOCH_MAX)
    refuse(made, batches, TOO_LARGE, GAP)
    made.settle(now=0)
    assert made.wants_identity
    made.adopt(Identity(ProducerId(8), ProducerEpoch(0)))
    assert numbers(made) == [(0, 0)]


@pytest.mark.parametrize(
    ("error", "repeated"),
    [(LOST, False), (NO_REPLICAS, True), (NotConnected("no"), True), (TOO_LARGE, False)],
)
def test_without_numbers_only_what_was_surely_not_written_is_repeated(
    error: ClientError, repeated: bool
) -> None:
    made = Window(idempotent=False, codec=Codec.NONE, acks=1, size_max=5)
    one = batch()
    made.admit(one)
    assert not made.has_room
    made.refused(one, error)
    assert (made.settle(now=0) == []) is repeated
