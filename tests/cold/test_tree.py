"""How the page tree grows, and what growing costs."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cold.generated import Generated
from tests.cold.makers import Bucket, a_head, an_entry, entries
from tierlog.cold import codec, invariants, lookup, tree
from tierlog.cold.entry import Entry
from tierlog.cold.errors import ColdCorrupt, InvariantBroken
from tierlog.cold.head import Head, PageRef
from tierlog.cold.lookup import Found
from tierlog.cold.page import LeafPage, Page
from tierlog.types import Offset, TimestampMs

SMALL = tree.Limits(entries_inline=3, leaf_entries=6, leaves_inline=1, index_leaves=3)
MILLION = 1_000_000

entry_of = cache(an_entry)


def searched(
    search: Callable[[dict[str, Page]], Found], read: Callable[[PageRef], Page]
) -> Entry | None:
    """The caller's loop: read what is asked for until the answer is there."""
    opened: dict[str, Page] = {}
    while isinstance(found := search(opened), PageRef):
        opened[found.key] = read(found)
    return found


def find(head: Head, offset: int, bucket: Bucket) -> Entry | None:
    return searched(lambda opened: lookup.find(head, Offset(offset), opened), bucket.read)


def listed(head: Head, bucket: Bucket) -> list[Entry]:
    """All entries, by looking for the one behind each."""
    found, offset = [], 0
    while entry := find(head, offset, bucket):
        found.append(entry)
        offset = entry.next_offset
    return found


def grown(*, count: int, limits: tree.Limits = SMALL) -> tuple[Head, Bucket]:
    bucket = Bucket(limits=limits)
    head = a_head()
    for number in range(count):
        head = bucket.append(head, [entry_of(number)])
    return head, bucket


# Growing


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 9), max_size=14),
    st.builds(
        tree.Limits,
        entries_inline=st.integers(1, 5),
        leaf_entries=st.integers(1, 7),
        leaves_inline=st.integers(0, 3),
        index_leaves=st.integers(1, 4),
    ),
)
def test_a_tree_lists_what_was_appended_whatever_its_shape(
    sizes: list[int], limits: tree.Limits
) -> None:
    bucket = Bucket(limits=limits)
    head, number = a_head(), 0
    for size in sizes:
        before = head
        head = bucket.append(head, [entry_of(one) for one in range(number, number + size)])
        number += size
        head = replace(head, version=before.version + 1, nonce=str(number))
        invariants.check(head, previous=before)
        assert len(head.entries) < limits.entries_inline
        assert len(head.leaves) <= limits.leaves_inline + 1
    found = listed(head, bucket)
    assert [replace(entry, chain="") for entry in found] == list(map(entry_of, range(number)))
    assert (head.records, head.bytes) == (number * 1000, sum(entry.size for entry in found))


def test_pages_end_up_full_and_few() -> None:
    head, bucket = grown(count=6 * 3 * 2 + 4)
    assert [ref.segments for ref in head.indexes] == [18, 18]
    for ref in head.indexes:
        page = bucket.read(ref)
        codec.check_page(ref, page)
        assert [row.segments for row in codec.rows_of(page) if isinstance(row, PageRef)] == [6] * 3
    assert ([ref.segments for ref in head.leaves], len(head.entries)) == ([3], 1)


def test_replaced_pages_become_garbage_and_no_others() -> None:
    head, bucket = grown(count=25)
    live = {ref.key for ref in (*head.indexes, *head.leaves)}
    for ref in head.indexes:
        live |= {row.key for row in codec.rows_of(bucket.read(ref))}
    assert {one.key for one in head.garbage} == bucket.objects.keys() - live


def test_replaced_pages_do_not_fill_the_head() -> None:
    head, _ = grown(count=600)
    assert len(head.garbage) == tree.GARBAGE_PAGES_MAX
    other = replace(head, garbage=(head.garbage[0]._replace(key="seg/x"), *head.garbage))
    bucket = Bucket(limits=SMALL)
    assert bucket.append(replace(other, leaves=(), indexes=()), []).garbage == other.garbage


def test_an_entry_that_does_not_follow_is_refused() -> None:
    head, bucket = grown(count=2)
    for wrong in (entry_of(3), entry_of(1)):
        with pytest.raises(InvariantBroken, match="tiling"):
            bucket.append(head, [wrong])


def test_a_page_of_the_wrong_kind_is_refused() -> None:
    head, bucket = grown(count=15)
    index, leaf = bucket.read(head.indexes[0]), bucket.read(head.leaves[0])
    swapped = {head.leaves[0].key: index, head.indexes[0].key: leaf}
    with pytest.raises(ColdCorrupt, match="leaf page belongs"):
        lookup.find(head, head.leaves[0].base, swapped)
    with pytest.raises(ColdCorrupt, match="index page belongs"):
        lookup.find(head, Offset(0), swapped)


def test_a_damaged_page_is_not_built_upon() -> None:
    head, bucket = grown(count=4)
    (ref,) = head.leaves
    page = bucket.read(ref)
    assert isinstance(page, LeafPage)
    damaged = replace(page, entries=(page.entries[0], *page.entries[:-1]))
    full = tree.extend(head, entries(range(4, 6)))
    with pytest.raises(ColdCorrupt):
        tree.seal(full, mint=bucket.mint, not_before_ms=1, opened={ref.key: damaged}, limits=SMALL)


# Searching


def test_offsets_in_a_skip_lead_to_what_comes_behind() -> None:
    head, bucket = grown(count=7)
    head = bucket.append(tree.skip(head, Offset(9000), now_ms=1), [entry_of(9)])
    found = find(head, 7500, bucket)
    assert found
    assert found.base == 9000
    assert find(head, 10_000, bucket) is None


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(-1, 51), st.integers(0, 39)
)
def test_a_time_is_found_as_by_reading_everything(
    times: list[int], wanted: int, start: int
) -> None:
    bucket, head = Bucket(limits=SMALL), a_head()
    for number, time in enumerate(times):
        head = bucket.append(head, [replace(entry_of(number), max_timestamp=TimestampMs(time))])
    head = replace(head, log_start=Offset(min(start, len(times) - 1) * 1000))
    kept = list(enumerate(times))[head.log_start // 1000 :]
    found = searched(
        lambda opened: lookup.find_by_time(head, TimestampMs(wanted), opened), bucket.read
    )
    expected = next((number for number, time in kept if time >= wanted), None)
    assert (found and found.base // 1000) == expected
    latest = searched(lambda opened: lookup.find_latest(head, opened), bucket.read)
    assert latest
    assert latest.base // 1000 == max(kept, key=lambda one: (one[1], -one[0]))[0]


def test_iterating_stops_at_a_page_that_is_not_open() -> None:
    head, bucket = grown(count=8)
    opened: dict[str, Page] = {}
    (ref,) = lookup.entries_from(head, Offset(0), opened)
    while isinstance(ref, PageRef):
        opened[ref.key] = bucket.read(ref)
        *_, ref = lookup.entries_from(head, Offset(0), opened)
    assert len(list(lookup.entries_from(head, Offset(0), opened))) == 8


# A million segments


@cache
def generated() -> Generated:
    return Generated(MILLION)


def test_an_offset_among_a_million_segments_is_two_pages_away() -> None:
    bucket = generated()
    rng = random.Random(7)
    for number in [0, MILLION - 1, *(rng.randrange(MILLION) for _ in range(8))]:
        bucket.reads = 0
        offset = Offset(number * 1000 + rng.randrange(1000))
        found = searched(
            lambda opened, offset=offset: lookup.find(bucket.head, offset, opened),  # type: ignore[misc]  # mypy infers no type for a lambda with defaults
            bucket.read,
        )
        assert found
        assert found.base == number * 1000
        assert bucket.reads <= 2


def test_a_time_among_a_million_segments_is_two_pages_away() -> None:
    bucket = generated()
    rng = random.Random(8)
    for number in [0, MILLION - 1, *(rng.randrange(MILLION) for _ in range(8))]:
        bucket.reads = 0
        time = entry_of(number).max_timestamp
        found = searched(
            lambda opened, time=time: lookup.find_by_time(bucket.head, time, opened),  # type: ignore[misc]  # mypy infers no type for a lambda with defaults
            bucket.read,
        )
        assert found
        assert found.base == number * 1000
        assert bucket.reads <= 2


def mean_cost(head: Head, bucket: Bucket, *, commits: int) -> tuple[float, float]:
    """Bytes and requests of a publish, averaged over so many; every seventh HEAD is weighed:
    seven and 32 have no common factor, so all numbers of entries in HEAD are seen."""
    number, bytes_before, objects_before = (
        head.next_offset // 1000,
        bucket.bytes_put,
        len(bucket.objects),
    )
    weighed = []
    for commit in range(commits):
        head = bucket.append(head, [an_entry(number + commit)])
        # Garbage aside: how much there is depends on how often one publishes, not on the size.
        if commit % 7 == 0:
            weighed.append(len(codec.encode_head(replace(head, garbage=()))))
    pages = (bucket.bytes_put - bytes_before) / commits
    requests = 1 + (len(bucket.objects) - objects_before) / commits
    return sum(weighed) / len(weighed) + pages, requests


@pytest.mark.slow
def test_a_publish_costs_nearly_the_same_at_a_million_segments() -> None:
    small, large = Bucket(), Generated(MILLION)
    few = mean_cost(a_head(), small, commits=256)
    many = mean_cost(large.head, large, commits=1024)
    print(f"bytes {few[0]:.0f} -> {many[0]:.0f}, requests {few[1]:.4f} -> {many[1]:.4f}")
    assert many[0] / few[0] < 1.2
    assert many[1] / few[1] < 1.01
    assert many[0] < 8_000
