"""Counters of the node."""

from tierlog.broker.errors import OutOfSpace
from tierlog.broker.stats import Histogram, NodeStats, TopicStats


def test_a_histogram_counts_by_upper_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.note(value)
    assert histogram.counts == [2, 2, 1]
    assert (histogram.count, histogram.total) == (5, 7.5)


def test_refusals_are_kept_by_what_was_wrong() -> None:
    stats = NodeStats()
    for error in (OutOfSpace("full"), ValueError(), OutOfSpace("still full")):
        stats.refuse(error)
    assert stats.produce_refusals == {OutOfSpace: 2, ValueError: 1}


def test_adding_topics_adds_every_counter() -> None:
    one, other = TopicStats(), TopicStats()
    for number, name in enumerate(TopicStats.__slots__):
        setattr(one, name, number)
        setattr(other, name, 10 * number)
    one.add(other)
    assert [getattr(one, name) for name in TopicStats.__slots__] == [
        11 * number for number in range(len(TopicStats.__slots__))
    ]
