"""Every named invariant can fail, and a sound history breaks none."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.cold.makers import START_MS, TOPIC_ID, Bucket, a_head, an_entry, entries, merged_of
from tierlog.cold import chain, tree
from tierlog.cold.entry import Entry
from tierlog.cold.errors import InvariantBroken
from tierlog.cold.head import (
    MERGE,
    RETENTION_MS,
    Expired,
    Garbage,
    Head,
    Hold,
    Incarnation,
    Policy,
    Writer,
)
from tierlog.cold.invariants import OF_ONE, OF_TWO, check
from tierlog.hot.epochs import EpochStart
from tierlog.types import LeaderEpoch, Offset

SMALL = tree.Limits(entries_inline=3, leaf_entries=6, leaves_inline=1, index_leaves=3)


def published(head: Head, previous: Head) -> Head:
    """With what the publisher sets."""
    return replace(head, version=previous.version + 1, nonce=f"nonce {previous.version + 1}")


def history() -> list[Head]:
    bucket = Bucket(limits=SMALL)
    heads = [a_head()]
    for entry in entries(range(14)):
        heads.append(published(bucket.append(heads[-1], [entry]), heads[-1]))
    return heads


HEADS = history()
PREVIOUS, HEAD = HEADS[-2:]
assert HEAD.indexes
assert HEAD.leaves
assert len(HEAD.entries) == 2


def test_a_sound_history_breaks_none() -> None:
    check(HEADS[0], previous=None)
    for before, head in pairwise(HEADS):
        check(head, previous=before)


def test_a_skip_is_a_gap_that_is_accounted_for() -> None:
    skipped = tree.skip(replace(HEAD, log_start=Offset(20_500)), Offset(20_000), now_ms=START_MS)
    grown = tree.extend(skipped, [an_entry(20)])
    check(published(grown, HEAD), previous=HEAD)
    with pytest.raises(InvariantBroken, match="tiling"):
        check(published(replace(grown, skips=()), HEAD), previous=HEAD)


def without_an_entry(head: Head) -> Head:
    return replace(head, entries=head.entries[1:])


def without_a_leaf(head: Head) -> Head:
    return replace(head, leaves=())


def with_another_entry(head: Head) -> Head:
    """Rewritten, with a chain that follows: only the HEAD before knows better."""
    before = head.leaves[-1].chain_after
    other = replace(head.entries[0], merkle_root="0" * 64)
    return replace(head, entries=chain.linked(before, [other, *head.entries[1:]]))


def with_a_moved_entry(head: Head) -> Head:
    moved = replace(head.entries[-1], merkle_root="0" * 64)
    return replace(head, entries=(*head.entries[:-1], moved))


def replaced_by_one(head: Head) -> Head:
    """Two entries turned into one of the same range."""
    before = head.leaves[-1].chain_after
    one, two = head.entries
    both = an_entry(99, base=one.base, records=two.next_offset - one.base)
    (linked,) = chain.linked(before, [both])
    return replace(head, entries=(linked,), bytes=head.bytes - one.size - two.size + linked.size)


def epochs(*starts: tuple[int, int]) -> tuple[EpochStart, ...]:
    return tuple(EpochStart(LeaderEpoch(epoch), Offset(start)) for epoch, start in starts)


HOLD = Hold("h", Offset(1000), Offset(2000), "a case")


def merged(head: Head, run: tuple[Entry, ...], *, before: str) -> Head:
    """HEAD with one entry, rightly linked, for the run that ends it."""
    entry = chain.replacing(merged_of(run), run, before=before)
    return replace(
        head,
        entries=(*head.entries[: -len(run)], entry),
        bytes=head.bytes - sum(one.size for one in run) + entry.size,
    )


def merged_with_what_was_not_there(head: Head) -> Head:
    return merged(head, head.entries, before=tree.chain_before(head))


GONE = "seg/{:020d}-{:020d}-e00000003-n00001-0000000000000001.seg"


def garbage(key: str, *, why: str = RETENTION_MS, segments_from: int = -1) -> Garbage:
    return Garbage(key, None, START_MS + 1, why=why, segments_from=segments_from)


def shed_whole(head: Head) -> Head:
    """Everything is garbage, and nobody wrote down what."""
    end = head.next_offset
    head = replace(head, indexes=(), leaves=(), entries=(), records=0, bytes=0)
    return replace(head, log_start=end, garbage_end=end, chain_anchor=tree.last_chain(HEAD))


def expired_to(*ends: int) -> tuple[Expired, ...]:
    return tuple(Expired(Offset(end), RETENTION_MS, 0, START_MS) for end in ends)


BROKEN: list[tuple[str, Callable[[Head], Head]]] = [
    ("bounds", lambda head: replace(head, holds=(HOLD,) * 2000)),
    ("tiling", without_an_entry),
    ("tiling", without_a_leaf),
    ("tiling", lambda head: replace(head, next_offset=Offset(head.next_offset + 1))),
    ("tiling", lambda head: replace(head, entries=(*head.entries, head.entries[-1]))),
    ("start", lambda head: replace(head, indexes=(), chain_anchor=head.leaves[0].chain_before)),
    ("keys", lambda head: replace(head, garbage=(Garbage(head.entries[0].key, None, 1),))),
    ("keys", lambda head: replace(head, garbage=(Garbage(head.indexes[0].key, None, 1),))),
    (
        "keys",
        lambda head: replace(
            head, entries=(replace(head.entries[0], key="seg/x"), head.entries[1])
        ),
    ),
    (
        "keys",
        lambda head: replace(head, leaves=(replace(head.leaves[0], key=head.indexes[0].key),)),
    ),
    ("chain", lambda head: replace(head, chain_anchor="")),
    ("chain", lambda head: replace(head, chain_anchor=chain.genesis(TOPIC_ID, 8))),
    ("chain", lambda head: replace(head, leaves=(replace(head.leaves[0], chain_after="0" * 64),))),
    ("chain", with_a_moved_entry),
    ("totals", lambda head: replace(head, records=head.records + 1)),
    ("totals", lambda head: replace(head, bytes=head.bytes - 1)),
    ("epochs", lambda head: replace(head, leader_epochs=epochs((3, 0), (2, 5)))),
    ("epochs", lambda head: replace(head, leader_epochs=epochs((4, 0)))),
    ("epochs", lambda head: replace(head, leader_epochs=epochs((3, head.next_offset)))),
    ("identity", lambda head: replace(head, partition=8)),
    ("identity", lambda head: replace(head, topic_id="another")),
    ("identity", lambda head: replace(head, incarnation=Incarnation(0, "x"))),
    ("identity", lambda head: replace(head, incarnation=Incarnation(1, "x"))),
    ("writer", lambda head: replace(head, writer=Writer(LeaderEpoch(3), "another"))),
    ("version", lambda head: replace(head, version=head.version + 1)),
    ("version", lambda head: replace(head, nonce=PREVIOUS.nonce)),
    ("ends", lambda _: published(HEADS[-3], PREVIOUS)),
    ("history", with_another_entry),
    ("history", replaced_by_one),
    ("links", merged_with_what_was_not_there),
    ("holds", lambda head: replace(head, holds=(HOLD,))),
    ("holds", lambda head: replace(head, policy_version=-1)),
    (
        "holds",
        lambda head: replace(head, holds=(HOLD,), policy_version=1, log_start=Offset(1500)),
    ),
    ("holds", lambda head: replace(head, policy=Policy(retention_ms=1))),
    ("expired", lambda head: replace(head, garbage_end=Offset(1))),
    ("expired", lambda head: replace(head, log_start=Offset(9000), garbage_end=Offset(8500))),
    ("expired", lambda head: replace(head, garbage=(garbage(GONE.format(0, 0)),))),
    (
        "expired",
        lambda head: replace(
            head, garbage=(garbage("page/" + GONE[4:20] + "-" + "0" * 16, segments_from=1),)
        ),
    ),
    ("expired", lambda head: replace(head, log_start=Offset(5), expired=expired_to(5, 4))),
    ("expired", lambda head: replace(head, log_start=Offset(5), expired=expired_to(6))),
    ("leaving", shed_whole),
]


@pytest.mark.parametrize(
    ("name", "breaking"),
    BROKEN,
    ids=[f"{name}-{number}" for number, (name, _) in enumerate(BROKEN)],
)
def test_a_broken_manifest_is_refused_by_name(name: str, breaking: Callable[[Head], Head]) -> None:
    with pytest.raises(InvariantBroken) as caught:
        check(breaking(HEAD), previous=PREVIOUS)
    assert caught.value.name == name


def test_every_invariant_has_a_case_that_breaks_it() -> None:
    assert {name for name, _ in BROKEN} == {*OF_ONE, *OF_TWO}


def test_an_older_writer_is_refused() -> None:
    newer = replace(HEAD, writer=Writer(LeaderEpoch(5), "newer"))
    with pytest.raises(InvariantBroken, match="writer"):
        check(published(replace(newer, writer=HEAD.writer), newer), previous=newer)
    check(published(newer, HEAD), previous=HEAD)


def test_a_log_start_that_goes_back_is_refused() -> None:
    trimmed = replace(HEAD, log_start=Offset(500))
    with pytest.raises(InvariantBroken, match="ends"):
        check(published(HEAD, trimmed), previous=trimmed)


def test_garbage_does_not_leave_before_its_time() -> None:
    gone = garbage(GONE.format(0, 4), why=MERGE)
    before = replace(PREVIOUS, garbage=(*PREVIOUS.garbage, gone))
    with pytest.raises(InvariantBroken, match="before its time"):
        check(HEAD, previous=before)
    check(replace(HEAD, published_ms=gone.not_before_ms), previous=before)


def test_the_end_of_the_garbage_does_not_go_back() -> None:
    before = replace(PREVIOUS, garbage_end=Offset(0))
    with pytest.raises(InvariantBroken, match="garbage_end goes back"):
        check(HEAD, previous=before)
