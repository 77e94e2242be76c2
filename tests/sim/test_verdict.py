"""Each anomaly is reported from a history made by hand, and nothing is reported of a sound one."""

import pytest

from tierlog.sim.history import History, Outcome, Place, Sent
from tierlog.sim.verdict import Anomaly, Kind, anomalies

HERE = Place("t", "0" * 32, 0)


class Story:
    """A history told step by step; everything ends before the next thing begins."""

    def __init__(self, *, lossy: bool = False) -> None:
        self.history = History(lossy={HERE} if lossy else set())

    def send(
        self,
        value: bytes,
        outcome: Outcome = Outcome.OK,
        offset: int = -1,
        *,
        producer: str = "p",
        idempotent: bool = True,
        durable: bool = True,
    ) -> Sent:
        sent = self.history.send_began(
            HERE, producer=producer, value=value, idempotent=idempotent, durable=durable
        )
        self.history.send_ended(sent, outcome, offset)
        return sent

    def poll(
        self,
        asked: int,
        *records: tuple[int, bytes],
        next: int | None = None,
        high_watermark: int = -1,
        log_start: int = -1,
    ) -> None:
        end = records[-1][0] + 1 if records else asked
        self.history.polled(
            HERE,
            began=self.history.moment(),
            asked=asked,
            next=end if next is None else next,
            records=records,
            high_watermark=high_watermark,
            log_start=log_start,
        )

    def end(self, *records: tuple[int, bytes], log_start: int = 0, end: int | None = None) -> None:
        last = records[-1][0] + 1 if records else log_start
        self.history.read_whole(
            HERE, log_start=log_start, end=last if end is None else end, records=records
        )

    def anomalies(self) -> list[Anomaly]:
        return anomalies(self.history)

    def kinds(self) -> set[Kind]:
        return {each.kind for each in self.anomalies()}


def test_a_sound_history_has_no_anomalies() -> None:
    story = Story()
    story.send(b"a", offset=0)
    story.poll(0, (0, b"a"), high_watermark=1, log_start=0)
    story.send(b"b", offset=1)
    story.send(b"c", Outcome.MAYBE, idempotent=False)
    story.send(b"d", Outcome.FAILED)
    story.send(b"e", offset=5)  # A recovery left a gap before it.
    story.poll(1, (1, b"b"), (5, b"e"), high_watermark=6, log_start=0)
    story.history.trim_began(HERE, 1)
    story.history.led(HERE, leader_epoch=3, life=0)
    story.history.led(HERE, leader_epoch=5, life=1)
    story.history.lost()
    story.end((1, b"b"), (5, b"e"), (6, b"c"), log_start=1)
    assert story.anomalies() == []
    assert story.history.acknowledged() == 3


def test_an_acknowledged_record_that_is_gone_is_a_lost_write() -> None:
    story = Story()
    story.send(b"a", offset=0)
    story.send(b"b", offset=1)
    story.end((0, b"a"))
    assert story.kinds() == {Kind.LOST_WRITE, Kind.WATERMARK_WENT_BACK}


def test_an_acknowledged_record_without_an_offset_must_be_there_too() -> None:
    story = Story()
    story.send(b"a", offset=-1)
    story.end()
    assert story.kinds() == {Kind.LOST_WRITE}


def test_a_record_below_the_log_start_is_not_lost() -> None:
    story = Story()
    story.send(b"a", offset=0)
    story.history.trim_began(HERE, 1)
    story.end(log_start=1)
    assert story.anomalies() == []


def test_a_doubtful_record_may_be_there_or_not() -> None:
    for records in ([], [(0, b"a")]):
        story = Story()
        story.send(b"a", Outcome.MAYBE)
        story.end(*records)
        assert story.anomalies() == []


def test_a_send_that_never_ended_is_a_maybe() -> None:
    story = Story()
    story.history.send_began(HERE, producer="p", value=b"a")
    story.end()
    assert story.anomalies() == []


def test_a_record_that_was_shown_and_is_gone_is_a_lost_read() -> None:
    story = Story()
    story.send(b"a", Outcome.MAYBE)
    story.poll(0, (0, b"a"))
    story.end(end=1)
    assert story.kinds() == {Kind.LOST_READ}


def test_two_values_at_one_offset_are_inconsistent() -> None:
    story = Story()
    story.send(b"a", Outcome.MAYBE)
    story.send(b"b", Outcome.MAYBE)
    story.poll(0, (0, b"a"))
    story.poll(0, (0, b"b"))
    story.end((0, b"b"))
    assert Kind.INCONSISTENT_OFFSETS in story.kinds()


def test_an_answer_that_names_another_offset_is_inconsistent() -> None:
    story = Story()
    story.send(b"a", offset=1)
    story.send(b"b", offset=1)
    story.end((0, b"a"), (1, b"b"))
    assert Kind.INCONSISTENT_OFFSETS in story.kinds()


def test_one_value_at_two_offsets_is_a_duplicate() -> None:
    story = Story()
    story.send(b"a", offset=0)
    story.end((0, b"a"), (1, b"a"))
    assert story.kinds() == {Kind.DUPLICATE}


def test_a_value_that_nobody_sent_there_is_alien() -> None:
    story = Story()
    story.end((0, b"a"))
    assert story.kinds() == {Kind.ALIEN}


def test_a_refused_record_must_not_be_found() -> None:
    story = Story()
    story.send(b"a", Outcome.FAILED)
    story.poll(0, (0, b"a"))
    story.end((0, b"a"))
    assert story.kinds() == {Kind.FAILED_WRITE_FOUND}


def test_records_of_one_producer_keep_their_order() -> None:
    story = Story()
    story.send(b"a", Outcome.MAYBE)
    story.send(b"b", offset=0)
    story.end((0, b"b"), (1, b"a"))
    assert story.kinds() == {Kind.NONMONOTONIC_SEND}


def test_records_of_two_producers_have_no_order() -> None:
    story = Story()
    story.send(b"a", Outcome.MAYBE, producer="p")
    story.send(b"b", offset=0, producer="q")
    story.end((0, b"b"), (1, b"a"))
    assert story.anomalies() == []


def test_without_idempotence_a_doubtful_record_may_come_late() -> None:
    story = Story()
    story.send(b"a", Outcome.MAYBE, idempotent=False)
    story.send(b"b", offset=0, idempotent=False)
    story.end((0, b"b"), (1, b"a"))
    assert story.anomalies() == []


def test_a_poll_must_not_leave_a_record_out() -> None:
    story = Story()
    for offset, value in enumerate((b"a", b"b", b"c")):
        story.send(value, offset=offset)
    story.poll(0, (1, b"b"), (2, b"c"))
    story.end((0, b"a"), (1, b"b"), (2, b"c"))
    assert story.kinds() == {Kind.POLL_SKIP}


@pytest.mark.parametrize(
    ("asked", "offsets", "next"), [(0, (1, 0), 2), (1, (0, 1), 2), (0, (0, 1), 1), (0, (0, 0), 1)]
)
def test_a_poll_shows_records_in_order_from_where_it_began(
    asked: int, offsets: tuple[int, int], next: int
) -> None:
    story = Story()
    values = {0: b"a", 1: b"b"}
    for offset, value in values.items():
        story.send(value, offset=offset)
    story.poll(asked, *((offset, values[offset]) for offset in offsets), next=next)
    story.end((0, b"a"), (1, b"b"))
    assert story.kinds() == {Kind.NONMONOTONIC_POLL}


def test_the_high_watermark_never_goes_back() -> None:
    story = Story()
    story.poll(0, high_watermark=2)
    story.poll(0, high_watermark=1)
    story.end(end=2)
    assert story.kinds() == {Kind.WATERMARK_WENT_BACK}


def test_the_high_watermark_covers_what_was_acknowledged() -> None:
    story = Story()
    story.send(b"a", offset=0)
    story.poll(0, high_watermark=0)
    story.end((0, b"a"))
    assert story.kinds() == {Kind.WATERMARK_WENT_BACK}


def test_answers_that_crossed_may_show_any_high_watermark() -> None:
    story = Story()
    began = story.history.moment()
    story.poll(0, high_watermark=2)
    story.history.polled(HERE, began=began, asked=0, next=0, records=[], high_watermark=1)
    story.end(end=2)
    assert story.anomalies() == []


def test_nothing_above_the_high_watermark_is_shown() -> None:
    story = Story()
    story.send(b"a", offset=0)
    story.poll(0, (0, b"a"), high_watermark=0)
    story.end((0, b"a"))
    assert Kind.ABOVE_WATERMARK in story.kinds()


def test_the_log_start_moves_only_when_asked() -> None:
    story = Story()
    story.history.trim_began(HERE, 1)
    story.poll(2, high_watermark=2, log_start=2)
    story.end(log_start=1, end=2)
    assert story.kinds() == {Kind.TRIMMED_UNASKED}


def test_retention_may_move_the_log_start() -> None:
    story = Story()
    story.history.expiring.add(HERE)
    story.send(b"a", offset=0)
    story.end(log_start=1)
    assert story.anomalies() == []


@pytest.mark.parametrize("leader_epoch", [3, 2])
def test_every_life_of_a_leader_takes_a_higher_leader_epoch(leader_epoch: int) -> None:
    story = Story()
    story.history.led(HERE, leader_epoch=3, life=0)
    story.history.led(HERE, leader_epoch=3, life=0)
    story.history.led(HERE, leader_epoch=leader_epoch, life=2)
    story.end()
    assert story.kinds() == {Kind.SHARED_LEADER_EPOCH}


def test_a_place_with_something_acknowledged_must_be_read_at_last() -> None:
    story = Story()
    story.send(b"a", offset=0)
    assert story.kinds() == {Kind.NEVER_READ}
    story.history.abandoned.add(HERE)
    assert story.anomalies() == []


# Places that promise less


def test_a_lossy_place_may_lose_what_was_told_before_a_loss() -> None:
    story = Story(lossy=True)
    story.send(b"a", offset=0)
    story.poll(0, (0, b"a"), high_watermark=1)
    story.history.lost()
    story.send(b"b", offset=0)
    story.poll(0, (0, b"b"), high_watermark=1)
    story.end((0, b"b"))
    assert story.anomalies() == []


def test_a_lossy_place_may_not_lose_what_was_told_since() -> None:
    story = Story(lossy=True)
    story.history.lost()
    story.send(b"a", offset=0)
    story.poll(0, (0, b"a"), high_watermark=1)
    story.end()
    assert story.kinds() == {Kind.LOST_WRITE, Kind.LOST_READ, Kind.WATERMARK_WENT_BACK}


def test_what_a_loss_fell_into_proves_nothing_of_a_lossy_place() -> None:
    story = Story(lossy=True)
    sent = story.history.send_began(HERE, producer="p", value=b"a")
    story.history.lost()
    story.history.send_ended(sent, Outcome.OK, 0)
    story.send(b"b", offset=0)
    story.end((0, b"b"))
    assert story.anomalies() == []


def test_a_place_that_is_not_lossy_loses_nothing_at_a_loss() -> None:
    story = Story()
    story.send(b"a", offset=0)
    story.history.lost()
    story.end(end=1)
    assert story.kinds() == {Kind.LOST_WRITE}


def test_a_record_that_was_promised_for_the_page_cache_may_be_lost_with_it() -> None:
    story = Story()
    story.send(b"a", offset=0, durable=False)
    story.history.lost()
    story.send(b"b", offset=0)
    story.end((0, b"b"))
    assert story.anomalies() == []


def test_a_record_that_was_promised_for_the_page_cache_outlives_the_process() -> None:
    story = Story()
    story.send(b"a", offset=0, durable=False)
    story.end()
    assert story.kinds() == {Kind.LOST_WRITE}


def test_an_anomaly_reads_as_a_sentence() -> None:
    story = Story()
    story.send(b"a", offset=0)
    story.end((0, b"a"), (1, b"a"))
    (anomaly,) = story.anomalies()
    assert str(anomaly) == "t-0 (00000000): one value at two offsets: b'a' at offsets 0 and 1"
