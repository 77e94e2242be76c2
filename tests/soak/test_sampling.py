"""What is flat, and what is not."""

from tests.soak.sampling import SLACK, flatness, judge
from tests.soak.shelves import measured

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


def test_receipts_and_what_a_folder_needs_for_itself_are_counted_apart() -> None:
    keys = [
        "/a/t/0/HEAD",
        "/a/t/0/seg/1.seg",
        "/a/t/0/page/1",
        "/a/t/0/TABLE",
        "/a/t/0/pq/1.parquet",
        "/a/receipts/1",
        "/.tierlog/locks/1",
    ]
    found = measured((key, 10) for key in keys)
    assert (found.objects, found.bytes, found.receipts) == (5, 50, 1)
    assert (found.segments, found.pages, found.tables, found.files) == (1, 1, 1, 1)
