"""What is flat, and what is not."""

from tests.soak.sampling import SLACK, flatness, judge
from tests.soak.shelves import measured
from tests.soak.soak import unsettled

MB = 1_000_000


def test_a_quantity_that_wavers_is_flat_and_one_that_grows_is_not() -> None:
    wavers = [100 * MB + (number % 7) * MB for number in range(90)]
    grows = [100 * MB + number * 2 * MB for number in range(90)]
    assert flatness("memory_bytes", wavers).is_flat
    assert not flatness("memory_bytes", grows).is_flat


def test_an_outage_in_the_last_third_does_not_count_as_growth() -> None:
    values = [10 * MB] * 80 + [500 * MB] * 10
    assert flatness("disk_bytes", values).is_flat


def test_too_few_samples_are_no_verdict() -> None:
    assert not flatness("store_bytes", [1.0] * 14).is_flat
    assert [one.name for one in judge([], warm_up_s=0)] == list(SLACK)


def test_an_object_that_stays_behind_is_found_by_the_round_that_left_it() -> None:
    clean = [("/a/t/0/HEAD", 1), ("/a/STATE", 1), ("/a/receipts/1", 9)]
    left = [*clean, ("/a/t/0/other", 5), ("/a/receipts/2", 9)]
    assert unsettled([measured(clean), measured(clean)]) == []
    assert len(unsettled([measured(clean), measured(left)])) == 1
