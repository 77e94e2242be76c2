"""What expires: held against a plain loop over all entries, and what a turn may open."""

from dataclasses import replace
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cold.generated import Generated
from tests.cold.makers import START_MS, Bucket, a_head, an_entry
from tierlog.cold import codec, expiry, merger, shedding, tree
from tierlog.cold.entry import Entry
from tierlog.cold.expiry import Choice, Outlook, choose, outlooks, when_collected
from tierlog.cold.factfinding import of_entry
from tierlog.cold.head import (
    DELETE_RECORDS,
    MERGE,
    RETENTION_BYTES,
    RETENTION_MS,
    Garbage,
    Head,
    Hold,
    PageRef,
    Policy,
)
from tierlog.cold.invariants import check
from tierlog.cold.lookup import entries_from
from tierlog.cold.page import IndexPage, LeafPage, Page
from tierlog.cold.shedding import Shed
from tierlog.types import Offset, TimestampMs

SMALL = tree.Limits(entries_inline=3, leaf_entries=4, leaves_inline=1, index_leaves=3)
DAY = 24 * 3600 * 1000


class Opening:
    """Answers for pages, and counts them."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.opened: dict[str, Page] = {}

    def choose(self, head: Head, policy: Policy, *, now_ms: int, unpublished: int = 0) -> Choice:
        while isinstance(
            found := choose(
                head, self.opened, policy=policy, now_ms=now_ms, unpublished_bytes=unpublished
            ),
            PageRef,
        ):
            self.opened[found.key] = self.bucket.read(found)
        return found

    def shed(self, head: Head, *, not_before_ms: int = 0) -> Shed:
        while isinstance(
            found := shedding.shed(head, self.opened, not_before_ms=not_before_ms), PageRef
        ):
            self.opened[found.key] = self.bucket.read(found)
        return found

    def entries(self, head: Head) -> list[Entry]:
        while True:
            found = list(entries_from(head, Offset(0), self.opened))
            if not found or isinstance(found[-1], Entry):
                return [one for one in found if isinstance(one, Entry)]
            self.opened[found[-1].key] = self.bucket.read(found[-1])


def a_manifest(entries: list[Entry], *, limits: tree.Limits = SMALL) -> tuple[Head, Opening]:
    bucket, head = Bucket(limits=limits), a_head()
    for entry in entries:
        head = bucket.append(head, [entry])
    return head, Opening(bucket)


def timed(number: int, *, timestamp: int, append_ms: int, size: int) -> Entry:
    return replace(
        an_entry(number),
        min_timestamp=TimestampMs(min(timestamp, timestamp // 2 if timestamp > 0 else -1)),
        max_timestamp=TimestampMs(timestamp),
        max_append_ms=append_ms,
        size=an_entry(number).data_bytes + 80_000 + size,
    )


def plain_choice(
    entries: list[Entry], head: Head, policy: Policy, *, now_ms: int, unpublished: int
) -> int:
    """The rule in words: from the front, as long as either lets it go."""
    ends = [head.log_start]
    held = min((hold.start for hold in head.holds if hold.end > head.log_start), default=inf)
    for rule in ("ms", "bytes"):
        excess, end = head.bytes + unpublished - policy.retention_bytes, head.log_start
        for entry in entries:
            if entry.next_offset <= shedding.shed_from(head):
                continue
            life = entry.max_timestamp if entry.max_timestamp >= 0 else entry.max_append_ms
            is_old = policy.retention_ms >= 0 and now_ms - life > policy.retention_ms
            is_much = policy.retention_bytes >= 0 and excess > 0 and excess >= entry.size
            is_gone = entry.next_offset <= head.log_start
            if not is_gone and (
                entry.next_offset > held or not (is_old if rule == "ms" else is_much)
            ):
                break
            excess -= entry.size
            end = max(end, entry.next_offset)
        ends.append(end)
    return max(ends)


times = st.one_of(st.just(-1), st.integers(0, 100))
segments = st.lists(
    st.tuples(times, st.integers(0, 100), st.integers(0, 1000)), min_size=0, max_size=30
)
policies = st.builds(
    Policy, st.integers(-1, 100), st.integers(-1, 30).map(lambda n: n * (130 << 20))
)


@settings(max_examples=60)
@given(segments, policies, st.integers(0, 200), st.integers(0, 30_000), st.data())
def test_what_expires_is_what_a_plain_loop_says(
    rows: list[tuple[int, int, int]],
    policy: Policy,
    now_ms: int,
    log_start: int,
    data: st.DataObject,
) -> None:
    entries = [
        timed(number, timestamp=timestamp, append_ms=append_ms, size=size)
        for number, (timestamp, append_ms, size) in enumerate(rows)
    ]
    head, opening = a_manifest(entries)
    start = Offset(min(log_start, head.next_offset))
    head = shedding.moved(head, start, why=DELETE_RECORDS, now_ms=1)
    if data.draw(st.booleans()):
        head = opening.shed(head).head
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, 30_000))
        head = replace(head, holds=(Hold("h", Offset(at), Offset(at + 1500), "a case"),))
    unpublished = data.draw(st.integers(0, 1 << 30))
    found = opening.choose(head, policy, now_ms=now_ms, unpublished=unpublished)
    listed = opening.entries(head)
    expected = plain_choice(listed, head, policy, now_ms=now_ms, unpublished=unpublished)
    assert found.log_start == expected
    assert found.due_ms > now_ms or found.due_ms == inf or policy.retention_ms < 0


@settings(max_examples=40)
@given(segments, st.lists(st.integers(0, 30_000), max_size=4), st.integers(1, 5))
def test_shedding_keeps_every_invariant_and_every_object(
    rows: list[tuple[int, int, int]], starts: list[int], rounds: int
) -> None:
    """However the start moves, what leaves is garbage once, totals and chain stay true."""
    entries = [
        timed(number, timestamp=5, append_ms=5, size=size)
        for number, (_, _, size) in enumerate(rows)
    ]
    head, opening = a_manifest(entries)
    before = opening.entries(head)
    for number, start in enumerate(sorted(starts)):
        why = (DELETE_RECORDS, RETENTION_MS, RETENTION_BYTES)[number % 3]
        head = shedding.moved(head, Offset(min(start, head.next_offset)), why=why, now_ms=number)
        for _ in range(rounds):
            shed = opening.shed(head, not_before_ms=10).head
            if shed == head:
                break
            shed = replace(shed, version=head.version + 1, nonce=f"{head.version}")
            check(shed, previous=head)
            head = shed
    gone = [one for one in before if one.next_offset <= head.garbage_end]
    left = [one for one in before if one.next_offset > head.garbage_end]
    assert (head.records, head.bytes) == (sum(e.records for e in left), sum(e.size for e in left))
    assert not [one for one in left if one.next_offset <= head.log_start], "all that may go went"
    keys = [one.key for one in head.garbage if one.key.startswith("seg/")]
    for one in head.garbage:
        if one.segments_from >= 0:
            page = opening.bucket.objects[one.key]
            leaf = codec.decode_page(page, key=one.key)
            assert isinstance(leaf, LeafPage)
            keys += [e.key for e in leaf.entries if e.base >= one.segments_from]
    assert sorted(keys) == sorted(one.key for one in gone)


def test_garbage_has_a_bound_and_goes_on_when_there_is_room() -> None:
    head, opening = a_manifest(
        [an_entry(n) for n in range(300)], limits=tree.Limits(entries_inline=400, leaf_entries=400)
    )
    head = shedding.moved(head, head.next_offset, why=RETENTION_MS, now_ms=7)
    first = opening.shed(head)
    assert first.segments == shedding.GARBAGE_SEGMENTS_MAX
    assert opening.shed(first.head).segments == 0
    assert not shedding.has_leftovers(first.head)
    emptied = replace(first.head, garbage=())
    assert opening.shed(emptied).segments == shedding.GARBAGE_SEGMENTS_MAX
    assert {one.why for one in first.head.garbage} == {RETENTION_MS}
    assert {one.expired_ms for one in first.head.garbage} == {7}


def test_what_was_merged_away_takes_no_room_from_what_expires() -> None:
    head, opening = a_manifest([an_entry(n) for n in range(9)])
    merged = tuple(
        Garbage(an_entry(1000 + n).key, None, 0, why=MERGE)
        for n in range(merger.GARBAGE_SEGMENTS_MAX)
    )
    head = replace(head, garbage=(*head.garbage, *merged))
    head = shedding.moved(head, head.next_offset, why=RETENTION_MS, now_ms=7)
    assert shedding.has_leftovers(head)
    shed = opening.shed(head)
    assert shed.segments == 9
    assert not shedding.has_leftovers(shed.head)


def test_a_leaf_page_goes_as_one_with_its_segments() -> None:
    head, opening = a_manifest([an_entry(n) for n in range(9)])
    index = opening.bucket.read(head.indexes[0])
    assert isinstance(index, IndexPage)
    leaf = index.leaves[0]
    head = shedding.moved(head, leaf.next_offset, why=RETENTION_BYTES, now_ms=1)
    shed = opening.shed(head)
    new = shed.head.garbage[len(head.garbage) :]
    assert [(one.key, one.segments_from, one.why) for one in new] == [
        (leaf.key, 0, RETENTION_BYTES)
    ]
    assert shed.segments == 4


def test_a_locked_object_is_not_deleted_before_its_lock_ends() -> None:
    head, opening = a_manifest([replace(an_entry(0), retain_until_ms=99_000)])
    head = shedding.moved(head, head.next_offset, why=RETENTION_MS, now_ms=1)
    (garbage,) = opening.shed(head, not_before_ms=5).head.garbage
    assert garbage.not_before_ms == 99_000


def test_a_timestamp_in_the_future_keeps_its_segment_and_all_behind_it() -> None:
    now = 50
    entries = [
        timed(0, timestamp=1, append_ms=1, size=0),
        timed(1, timestamp=1000, append_ms=1, size=0),
        timed(2, timestamp=1, append_ms=1, size=0),
    ]
    head, opening = a_manifest(entries, limits=tree.LIMITS)
    found = opening.choose(head, Policy(retention_ms=10), now_ms=now)
    assert (found.log_start, found.due_ms) == (entries[0].next_offset, 1011)


def test_a_million_segments_are_expired_with_few_pages_opened() -> None:
    generated = Generated(1_000_000)
    opening, now_ms = Opening(generated), START_MS + 500_000 * 60_000
    found = opening.choose(generated.head, Policy(retention_ms=DAY), now_ms=now_ms)
    assert found.log_start > 400_000_000
    assert generated.reads <= 4
    head = shedding.moved(generated.head, found.log_start, why=RETENTION_MS, now_ms=now_ms)
    shed = opening.shed(head)
    assert shed.segments >= (shedding.SHED_MAX - 2) * 256
    assert generated.reads <= 4, "leaves that go whole are not opened"
    assert len(shed.head.garbage) <= shedding.SHED_MAX + 2


def told(head: Head, opening: Opening, policy: Policy, *, unpublished: int = 0) -> list[Outlook]:
    rows = [of_entry(one) for one in opening.entries(head)]
    place = expiry.standing(head)
    found = outlooks(rows, place, policy=policy, unpublished_bytes=unpublished)
    return [outlook for _, outlook in found]


def test_people_are_told_when_and_why() -> None:
    entries = [timed(n, timestamp=t, append_ms=1, size=0) for n, t in enumerate((10, 30, 20))]
    head, opening = a_manifest(entries, limits=tree.LIMITS)
    policy = Policy(retention_ms=100, retention_bytes=head.bytes - entries[0].size)
    assert [one.expires_ms for one in told(head, opening, policy)] == [111, 131, 131]
    sizes = [one.missing_bytes for one in told(head, opening, policy)]
    assert sizes == [0, entries[1].size, entries[1].size + entries[2].size]
    held = replace(head, holds=(Hold("case-9", entries[1].base, entries[1].next_offset, ""),))
    assert [one.hold for one in told(held, opening, policy)] == [None, *held.holds * 2]


@given(st.data())
def test_people_are_told_what_the_expirer_does(data: st.DataObject) -> None:
    stamps = data.draw(st.lists(st.integers(-1, 50), min_size=1, max_size=9))
    entries = [
        timed(n, timestamp=t, append_ms=data.draw(st.integers(0, 50)), size=n)
        for n, t in enumerate(stamps)
    ]
    head, opening = a_manifest(entries, limits=tree.LIMITS)
    policy = Policy(
        retention_ms=data.draw(st.sampled_from((-1, 0, 5, 30))),
        retention_bytes=data.draw(st.integers(-1, head.bytes)),
    )
    hold = data.draw(st.sampled_from((None, *entries)))
    if hold is not None:
        head = replace(head, holds=(Hold("h", hold.base, hold.next_offset, ""),))
    now_ms, unpublished = data.draw(st.integers(0, 90)), data.draw(st.integers(0, 300))
    end = head.log_start
    found = told(head, opening, policy, unpublished=unpublished)
    for entry, one in zip(entries, found, strict=True):
        if one.hold is not None or (one.expires_ms > now_ms and one.missing_bytes != 0):
            break
        end = entry.next_offset
    chosen = opening.choose(head, policy, now_ms=now_ms, unpublished=unpublished)
    assert end == chosen.log_start


def test_garbage_on_hold_is_not_collected() -> None:
    head, _ = a_manifest([an_entry(0)])
    garbage = Garbage(an_entry(0).key, None, 5, why=RETENTION_MS)
    assert when_collected(garbage, head) == 5
    held = replace(head, holds=(Hold("h", Offset(999), Offset(2000), ""),))
    assert when_collected(garbage, held) == inf
    assert expiry.held_by(garbage, held) is not None
