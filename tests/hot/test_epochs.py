"""Leader epochs: where each ended, as OffsetForLeaderEpoch answers it (KIP-101, KIP-279)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.hot.epochs import EpochStart, LeaderEpochs
from tierlog.types import LeaderEpoch, Offset


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochStart(LeaderEpoch(one), Offset(start)) for one, start in entries)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (2, (2, 10)),  # Ended where the next one began.
        (5, (5, 30)),
        (7, (7, 40)),  # The latest is still being written: it ends at the log end.
        (3, (2, 10)),  # Unknown here: the largest that is smaller, KIP-279.
        (9, (7, 40)),
        (0, (0, 4)),  # Trimmed away: where the first known one begins, as in Kafka.
    ],
)
def test_the_end_of_an_epoch(asked: int, answer: tuple[int, int]) -> None:
    held = epochs((2, 4), (5, 10), (7, 30))
    assert held.end_of(LeaderEpoch(asked), log_end=Offset(40)) == answer


def test_nothing_is_known_of_an_empty_log() -> None:
    assert epochs().end_of(LeaderEpoch(3), log_end=Offset(0)) is None
    assert epochs().latest == -1
    assert epochs().at(Offset(0)) is None


def test_a_consumer_at_the_log_start_is_not_told_of_a_truncation() -> None:
    """Epoch 1 ended where the log was trimmed to: its last reader has lost nothing."""
    held = epochs((1, 0), (3, 100))
    held.trim(Offset(100))
    assert held.entries == ((3, 100),)
    assert held.end_of(LeaderEpoch(1), log_end=Offset(200)) == (1, 100)


def test_an_epoch_that_wrote_nothing_leaves_no_trace() -> None:
    held = epochs((1, 0))
    held.note(LeaderEpoch(2), Offset(10))
    held.truncate(Offset(10))
    held.note(LeaderEpoch(3), Offset(10))
    held.note(LeaderEpoch(4), Offset(10))
    assert held.entries == ((1, 0), (4, 10))


def test_an_older_epoch_changes_nothing() -> None:
    held = epochs((5, 0))
    held.note(LeaderEpoch(4), Offset(10))
    held.note(LeaderEpoch(5), Offset(20))
    assert held.entries == ((5, 0),)


def test_truncating_below_everything_forgets_everything() -> None:
    held = epochs((2, 5), (4, 9))
    held.truncate(Offset(5))
    assert held.entries == ()
    assert held.latest == -1


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, ((2, 4), (5, 10))),
        (4, ((2, 4), (5, 10))),
        (7, ((2, 7), (5, 10))),
        (10, ((5, 10),)),
        (25, ((5, 25),)),
    ],
)
def test_trimming_keeps_the_epoch_that_wrote_the_new_start(
    start: int, left: tuple[tuple[int, int], ...]
) -> None:
    held = epochs((2, 4), (5, 10))
    held.trim(Offset(start))
    assert held.entries == left


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=20), st.data())
def test_epochs_agree_with_a_log_that_names_the_epoch_of_each_offset(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    held, epoch = LeaderEpochs(), 0
    writers: list[int] = []
    for rise, count in steps:
        epoch += rise
        held.note(LeaderEpoch(epoch), Offset(len(writers)))
        writers += [epoch] * count
    end = data.draw(st.integers(0, len(writers)))
    held.truncate(Offset(end))
    del writers[end:]
    start = data.draw(st.integers(0, end))
    held.trim(Offset(start))
    for offset in range(start, end):
        assert held.at(Offset(offset)) == writers[offset]
        ended = held.end_of(LeaderEpoch(writers[offset]), log_end=Offset(end))
        last = max(place for place, one in enumerate(writers) if one == writers[offset])
        assert ended == (writers[offset], last + 1)
