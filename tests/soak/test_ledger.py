"""The ledger of a soak catches what it is there for."""

from tests.soak.ledger import NO_LIMIT, STEP_MS, Ledger, value_of

SIZE = 64
RETENTION_MS = 1_000


class Clock:
    now_ms = 10_000

    def __call__(self) -> int:
        return self.now_ms


def a_ledger(records: int = 0) -> tuple[Ledger, Clock]:
    """Of records that were sent `STEP_MS` apart, and acked."""
    clock = Clock()
    ledger = Ledger("t-0", value_bytes=SIZE, retention_ms=RETENTION_MS, now_ms=clock)
    for number in range(records):
        ledger.next_value()
        ledger.acked(number)
        clock.now_ms += STEP_MS
    return ledger, clock


def test_what_is_right_is_no_problem() -> None:
    ledger, _ = a_ledger(30)
    ledger.saw_start(20)
    for offset in range(20, 30):
        ledger.check(offset, value_of("t-0", offset, SIZE))
    assert (ledger.problems, ledger.checked) == ([], 10)


def test_an_offset_that_is_given_out_twice_or_left_out_is_one() -> None:
    for offset in (0, 2):
        ledger, _ = a_ledger(1)
        ledger.next_value()
        ledger.acked(offset)
        assert ledger.problems == [f"t-0: record 1 was acked at offset {offset}"]


def test_other_bytes_are_one() -> None:
    ledger, _ = a_ledger(3)
    ledger.check(1, value_of("t-0", 2, SIZE))
    ledger.check(2, None)
    assert len(ledger.problems) == 2


def test_a_beginning_that_passes_what_retention_keeps_is_one() -> None:
    ledger, _ = a_ledger(30)
    ledger.saw_start(21)  # Sent 900 ms ago, of 1,000.
    (problem,) = ledger.problems
    assert problem.endswith("records from 20 on are kept, but the beginning is 21")


def test_a_beginning_that_goes_back_is_one() -> None:
    ledger, _ = a_ledger(30)
    ledger.saw_start(10)
    ledger.saw_start(9)
    assert len(ledger.problems) == 1


def test_deleted_records_may_be_gone() -> None:
    ledger, _ = a_ledger(30)
    ledger.deletes(27)
    ledger.saw_start(27)
    assert not ledger.problems


def test_a_shorter_retention_counts_from_when_it_is_asked_for_to_when_it_is_gone() -> None:
    ledger, clock = a_ledger(30)
    ledger.retention_begins(300, NO_LIMIT)
    ledger.saw_start(27)
    ledger.retention_is(NO_LIMIT, NO_LIMIT)
    clock.now_ms += 10 * RETENTION_MS
    assert not ledger.problems
    ledger.saw_start(28)
    assert len(ledger.problems) == 1
