"""Replacing runs of entries, wherever they stand: everything is found as before."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cold.makers import Bucket, a_head, an_entry, merged_of
from tierlog.cold import chain, codec, invariants, lookup, replacing, tree
from tierlog.cold.entry import Entry
from tierlog.cold.errors import ColdCorrupt, InvariantBroken
from tierlog.cold.head import Head, PageRef
from tierlog.cold.layout import PAGES
from tierlog.cold.page import IndexPage, Page
from tierlog.cold.refusals import RunChanged
from tierlog.cold.tree import Limits
from tierlog.types import Offset, TimestampMs

LIMITS = Limits(entries_inline=5, leaf_entries=4, leaves_inline=2, index_leaves=3)


class Merging:
    """A manifest and what it was uploaded as."""

    def __init__(self, count: int, limits: Limits = LIMITS) -> None:
        self.bucket = Bucket(limits=limits)
        self.head: Head = a_head()
        self.sources: dict[str, tuple[Entry, ...]] = {}
        self.uploads: list[Entry] = []
        for number in range(count):
            self.upload(number)

    def upload(self, number: int) -> None:
        self.head = self.bucket.append(self.head, [an_entry(number)])
        self.uploads.append(replace(an_entry(number), chain=tree.last_chain(self.head)))

    def opened(self) -> dict[str, Page]:
        pages: dict[str, Page] = {}
        for ref in self.head.indexes:
            page = pages[ref.key] = self.bucket.read(ref)
            assert isinstance(page, IndexPage)
            pages |= {one.key: self.bucket.read(one) for one in page.leaves}
        return pages | {ref.key: self.bucket.read(ref) for ref in self.head.leaves}

    def entries(self) -> list[Entry]:
        opened = self.opened()
        found = list(lookup.entries_from(self.head, Offset(0), opened))
        assert all(isinstance(one, Entry) for one in found)
        return found  # type: ignore[return-value]  # all pages are open

    def merge(self, run: list[Entry], merged: Entry | None = None) -> bool:
        """False: the run is not in one place."""
        head, opened = self.head, self.opened()
        region = replacing.region_of(head, run[0].base, run[-1].next_offset, opened)
        assert not isinstance(region, PageRef)
        if region is None:
            return False
        merged = merged or merged_of(run, seed=head.version)
        sources = tuple(one for each in run for one in self.sources.get(each.key, (each,)))
        done = replacing.replaced(
            head,
            region,
            merged,
            [one.key for one in run],
            sources,
            mint=self.bucket.mint,
            not_before_ms=7,
            opened=opened,
            limits=self.bucket.limits,
        )
        self.sources[merged.key] = sources
        self.bucket.objects |= {page.key: page.data for page in done.pages}
        value = replace(done.head, version=head.version + 1, nonce=str(head.version))
        invariants.check(value, previous=head)
        self.head = value
        return True


def look_ups(merging: Merging) -> dict[str, object]:
    """What readers find, told by offsets alone."""
    head, opened = merging.head, merging.opened()
    found: dict[str, object] = {}
    for upload in merging.uploads:
        entry = lookup.find(head, upload.base, opened)
        assert isinstance(entry, Entry)
        found[f"offset {upload.base}"] = entry.base <= upload.base < entry.next_offset
        timed = lookup.find_by_time(head, upload.max_timestamp, opened)
        assert isinstance(timed, Entry)
        first = min(
            one.base for one in merging.uploads if one.max_timestamp >= upload.max_timestamp
        )
        found[f"time {upload.base}"] = timed.base <= first < timed.next_offset
    latest = lookup.find_latest(head, opened)
    assert isinstance(latest, Entry)
    found["latest"] = latest.max_timestamp
    return found


@settings(max_examples=10)
@given(st.integers(2, 36), st.randoms(use_true_random=False))
def test_whatever_is_merged_everything_is_found_as_before(count: int, rng: random.Random) -> None:
    merging = Merging(count)
    before = look_ups(merging)
    anchor, end = merging.head.chain_anchor, merging.entries()[-1].chain
    records = merging.head.records
    for _ in range(4):
        entries = merging.entries()
        first = rng.randrange(len(entries))
        run = entries[first : first + rng.randint(2, 12)]
        if len(run) > 1:
            merging.merge(run)
        assert look_ups(merging) == before
        entries = merging.entries()
        assert chain.check(anchor, entries, key="all") == end
        assert merging.head.records == records == sum(one.records for one in entries)
        assert merging.head.bytes == sum(one.size for one in entries)
        for entry in entries:
            if entry.replaces is not None:
                chain.replay(entry, merging.sources[entry.key], key=entry.key)
    # And it grows on, into pages that were replaced.
    for number in range(count, count + 12):
        merging.upload(number)
    invariants.check(merging.head, previous=None)
    for ref in (*merging.head.indexes, *merging.head.leaves):
        codec.check_page(ref, merging.bucket.read(ref))
    assert all(look_ups(merging).values())


@pytest.mark.parametrize("where", ["entries", "leaves", "indexes"])
def test_a_run_is_replaced_wherever_it_stands(where: str) -> None:
    merging = Merging(39)
    head = merging.head
    rows = getattr(head, where)
    entries = [one for one in merging.entries() if rows[0].base <= one.base]
    run = entries[:3]
    pages = {one.key for one in (*head.indexes, *head.leaves)}
    assert merging.merge(run)
    garbage = {one.key for one in merging.head.garbage} - {one.key for one in head.garbage}
    assert {one.key for one in run} <= garbage
    gone = pages - {one.key for one in (*merging.head.indexes, *merging.head.leaves)}
    assert gone <= garbage
    assert any(key.startswith(PAGES) for key in garbage) == (where != "entries")
    assert [one.base for one in merging.entries()].count(run[0].base) == 1
    assert len(merging.entries()) == 37


def test_leaves_that_a_run_reaches_over_become_fewer() -> None:
    merging = Merging(9, limits=Limits(entries_inline=4, leaf_entries=4, leaves_inline=9))
    before = len(merging.head.leaves)
    assert merging.merge(merging.entries()[1:7])
    assert (before, len(merging.head.leaves)) == (2, 1)
    assert [one.base // 1000 for one in merging.entries()] == [0, 1, 7, 8]


def test_a_run_over_the_border_of_two_places_is_refused() -> None:
    merging = Merging(9, limits=Limits(entries_inline=4, leaf_entries=4, leaves_inline=9))
    assert not merging.merge(merging.entries()[6:9])


def test_a_run_that_changed_meanwhile_is_refused() -> None:
    merging = Merging(4)
    run = merging.entries()
    merging.head = replace(merging.head, log_start=Offset(1))
    with pytest.raises(RunChanged):
        merging.merge(run)
    merging.head = replace(merging.head, log_start=Offset(0))
    with pytest.raises(RunChanged):
        merging.merge([run[0], replace(run[1], key="another")])


@pytest.mark.parametrize(
    "changes",
    [{"records": 1999}, {"batches": 1}, {"last": Offset(2999)}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_merged_object_with_other_content_is_refused(changes: dict[str, object]) -> None:
    merging = Merging(4)
    run = merging.entries()[:2]
    merged = replace(merged_of(run), **changes)  # type: ignore[arg-type]  # as the test gives them
    with pytest.raises((InvariantBroken, ColdCorrupt)):
        merging.merge(run, merged)


# The link


def a_link() -> tuple[Merging, Entry, tuple[Entry, ...]]:
    merging = Merging(4)
    merging.merge(merging.entries()[1:3])
    entry = merging.entries()[1]
    return merging, entry, merging.sources[entry.key]


def test_a_link_leads_from_the_value_before_to_the_value_behind() -> None:
    merging, entry, sources = a_link()
    before = merging.entries()[0].chain
    assert entry.replaces is not None
    assert entry.replaces.before == before
    assert entry.chain == sources[-1].chain
    assert chain.follows(before, entry)
    chain.replay(entry, sources, key="an object")


@pytest.mark.parametrize(
    "changes",
    [
        {"size": 17},
        {"retain_until_ms": 99},
        {"max_timestamp": TimestampMs(1)},
        {"chain": "00" * 32},
        {"replaces": None},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_linked_entry_that_was_tampered_with_does_not_follow(changes: dict[str, object]) -> None:
    merging, entry, _ = a_link()
    before = merging.entries()[0].chain
    changed = replace(entry, **changes)  # type: ignore[arg-type]  # as the test gives them
    assert not chain.follows(before, changed)
    with pytest.raises(ColdCorrupt):
        chain.check(before, [changed], key="HEAD")


def test_a_link_holds_at_its_own_place_alone() -> None:
    _, entry, _ = a_link()
    assert not chain.follows("00" * 32, entry)


def test_other_sources_do_not_replay() -> None:
    """Neither fewer, nor in another order, nor with another hash; even with a root to match."""
    _, entry, sources = a_link()
    assert entry.replaces is not None
    forged = (replace(sources[0], sha256="00" * 32), sources[1])
    for others in (sources[:1], sources[::-1], forged):
        with pytest.raises(ColdCorrupt):
            chain.replay(entry, others, key="an object")
        fitting = entry.replaces._replace(segments=len(others), merkle_root=chain.root_of(others))
        with pytest.raises(ColdCorrupt):
            chain.replay(replace(entry, replaces=fitting), others, key="an object")


def test_a_head_that_drops_what_a_merge_replaced_without_garbage_is_not_published() -> None:
    merging = Merging(4)
    head = merging.head
    merging.merge(merging.entries()[:2])
    forgetful = replace(merging.head, garbage=())
    with pytest.raises(InvariantBroken, match="not garbage"):
        invariants.check(forgetful, previous=head)


def test_a_head_whose_merge_is_not_linked_is_not_published() -> None:
    merging = Merging(4)
    head = merging.head
    merging.merge(merging.entries()[:2])
    first, *rest = merging.head.entries
    with pytest.raises(InvariantBroken):
        invariants.check(
            replace(merging.head, entries=(replace(first, replaces=None), *rest)), previous=head
        )
