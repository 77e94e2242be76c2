"""Claims and commits, whatever the store answers and whoever else is there."""

from dataclasses import replace

import pytest

from tests.cold.makers import an_entry
from tests.cold.publishing import FIRST_LIFE, KEYS, SECOND_LIFE, TOPIC_ID, Scene, play, segments
from tests.cold.scripted import Fate
from tierlog.cold.changes import MoveLogStart
from tierlog.cold.codec import encode_head, open_page
from tierlog.cold.errors import InvariantBroken
from tierlog.cold.head import Head
from tierlog.cold.publisher import Draft
from tierlog.cold.refusals import (
    CopyFailed,
    FencedByNewer,
    FencedByTwin,
    ForeignIncarnation,
    ForeignObject,
    HeadForked,
    HeadLost,
    NotNext,
    SwapUncertain,
)
from tierlog.cold.tree import Limits
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import NoSuchObject, StoreUnavailable
from tierlog.objectstore.port import Doomed, Outcome
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

ALL_FATES = [fate for fate in Fate if fate is not Fate.FINE]


def overwrite(scene: Scene, head: Head) -> None:
    """What the store should never do."""
    scene.store.shelf.put(KEYS.head, encode_head(head), now_ms=0)


# Claims


def test_the_first_claim_creates_head() -> None:
    async def scenario(scene: Scene) -> None:
        head = await scene.leader(3).claim()
        assert head == scene.published()
        assert (head.version, head.writer.leader_epoch, head.next_offset) == (1, 3, 0)

    play(scenario)


def test_a_claim_is_made_once() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        await leader.claim()
        await leader.claim()
        await leader.commit(scene.append(an_entry()))
        assert list(scene.store.writes) == [KEYS.head] * 2

    play(scenario)


@pytest.mark.parametrize("fate", ALL_FATES)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_claim_holds_whatever_was_answered(fate: Fate, is_first: bool) -> None:
    async def scenario(scene: Scene) -> None:
        if not is_first:
            await scene.leader(3).commit(scene.append(an_entry()))
        before = None if is_first else scene.published().version
        scene.store.fates.append(fate)
        head = await scene.leader(4).claim()
        await scene.store.land()
        assert head == scene.published()
        assert head.writer.leader_epoch == 4
        assert head.version == (1 if before is None else before + 1)

    play(scenario)


def test_a_claim_that_landed_late_fails_the_commit_of_nobody() -> None:
    """The same bytes were sent twice: the second is the one that counted."""

    async def scenario(scene: Scene) -> None:
        scene.store.fates.append(Fate.LATE)
        leader = scene.leader(3)
        await leader.claim()
        await leader.commit(scene.append(an_entry()))
        assert await scene.store.land() == [Outcome.LOST]
        assert scene.published().next_offset == 1000

    play(scenario)


def test_a_claim_under_an_older_epoch_is_fenced() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.leader(4).claim()
        with pytest.raises(FencedByNewer, match="leader epoch 4"):
            await scene.leader(3).claim()
        assert scene.published().writer.leader_epoch == 4

    play(scenario)


def test_a_claim_by_a_process_that_claimed_before_it_died_is_fenced_by_its_successor() -> None:
    """Claim sent, answer lost, process dies: the next start has the next epoch."""

    async def scenario(scene: Scene) -> None:
        scene.store.fates.append(Fate.LATE)
        await scene.leader(3, "first").claim()
        head = await scene.leader(4, "second").claim()
        await scene.store.land()
        assert scene.published() == head

    play(scenario)


def test_an_equal_epoch_with_another_process_is_fenced_and_says_why() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.leader(3, "original").claim()
        clone = scene.leader(3, "clone")
        with pytest.raises(FencedByTwin, match="copies of one data directory"):
            await clone.claim()
        assert scene.published().writer.process == "original"

    play(scenario)


def test_two_twins_race_and_one_wins() -> None:
    async def scenario(scene: Scene) -> None:
        one, two = scene.leader(3, "one"), scene.leader(3, "two")

        async def faster() -> None:
            await two.claim()

        scene.store.before_write = faster
        with pytest.raises(FencedByTwin):
            await one.claim()

    play(scenario)


def test_another_incarnation_is_refused_however_high_its_epoch() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.leader(3, incarnation=SECOND_LIFE).claim()
        old = scene.leader(9)
        with pytest.raises(ForeignIncarnation, match="serves reads only"):
            await old.claim()
        with pytest.raises(ForeignIncarnation):
            await old.refresh()
        assert scene.published().incarnation == SECOND_LIFE

    play(scenario)


def test_a_second_cluster_on_the_same_prefix_is_refused() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.leader(1).claim()
        stranger = FIRST_LIFE._replace(id="another cluster's first life")
        with pytest.raises(ForeignIncarnation):
            await scene.leader(2, incarnation=stranger).claim()
        assert scene.published().incarnation == FIRST_LIFE

    play(scenario)


def test_a_restore_claims_from_its_ancestors_and_fences_them() -> None:
    async def scenario(scene: Scene) -> None:
        old = scene.leader(3)
        await old.commit(scene.append(an_entry(0)))
        await scene.leader(4, incarnation=SECOND_LIFE, ancestors=(FIRST_LIFE,)).claim()
        with pytest.raises(ForeignIncarnation):
            await old.commit(scene.append(an_entry(1)))
        assert scene.published().next_offset == 1000

    play(scenario)


# Commits


@pytest.mark.parametrize("fate", ALL_FATES)
def test_a_commit_happens_once_whatever_was_answered(fate: Fate) -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        await leader.claim()
        scene.store.fates.append(fate)
        first = await leader.commit(scene.append(an_entry(0)))
        second = await leader.commit(scene.append(an_entry(1)))
        await scene.store.land()
        assert [first.version, second.version] == [2, 3]
        assert second == scene.published()
        assert [entry.base for entry in second.entries] == [0, 1000]

    play(scenario)


def test_a_commit_that_stays_unclear_is_said_to_be_so_and_is_found_by_the_next() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        await leader.claim()
        scene.store.fates.extend([Fate.LATE] * 7)
        with pytest.raises(SwapUncertain, match="the next try reads it first"):
            await leader.commit(scene.append(an_entry(0)))
        assert Outcome.WON in await scene.store.land()
        head = await leader.commit(scene.append(an_entry(0)))
        assert (head.version, len(head.entries)) == (2, 1)
        assert head == scene.published()

    play(scenario)


def test_a_commit_that_lands_between_the_read_and_the_next_swap_is_rebased_upon() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        await leader.claim()
        scene.store.fates.extend([Fate.LATE] * 7)
        with pytest.raises(SwapUncertain):
            await leader.commit(scene.append(an_entry(0)))

        async def lands() -> None:
            await scene.store.land()

        scene.store.before_write = lands
        head = await leader.commit(scene.append(an_entry(0), an_entry(1)))
        assert [entry.base for entry in head.entries] == [0, 1000]
        assert head == scene.published()

    play(scenario)


def test_a_read_back_that_fails_for_long_leaves_the_commit_unclear() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        await leader.claim()
        scene.store.fates.append(Fate.ANSWER_LOST)
        scene.store.reads_failing = 7
        with pytest.raises(SwapUncertain) as caught:
            await leader.commit(scene.append(an_entry(0)))
        assert isinstance(caught.value.__cause__, StoreUnavailable)
        head = await leader.commit(scene.append(an_entry(0)))
        assert head.version == 2

    play(scenario)


def test_a_read_that_fails_now_and_then_does_not_matter() -> None:
    async def scenario(scene: Scene) -> None:
        scene.store.reads_failing = 3
        assert (await scene.leader(3).claim()).version == 1

    play(scenario)


def test_a_commit_beside_a_newer_leader_is_fenced_for_good() -> None:
    """Object complete, HEAD not sent, zombie wakes: 412, a higher epoch, it stops."""

    async def scenario(scene: Scene) -> None:
        zombie, successor = scene.leader(3), scene.leader(4, "successor")
        await zombie.commit(scene.append(an_entry(0)))
        await successor.commit(scene.append(an_entry(1)))
        with pytest.raises(FencedByNewer):
            await zombie.commit(scene.append(an_entry(1)))
        writes = len(scene.store.writes)
        scene.store.reads_failing = 100
        with pytest.raises(FencedByNewer):
            await zombie.commit(scene.append(an_entry(1)))
        with pytest.raises(FencedByNewer):
            await zombie.repair()
        assert len(scene.store.writes) == writes, "a fenced leader asks nobody"

    play(scenario)


def test_a_commit_that_landed_before_the_successors_claim_is_kept_by_it() -> None:
    """HEAD PUT in flight lands late, before the claim: it counts, the claimer reads again."""

    async def scenario(scene: Scene) -> None:
        old = scene.leader(3)
        await old.claim()
        scene.store.fates.extend([Fate.LATE] * 7)
        with pytest.raises(SwapUncertain):
            await old.commit(scene.append(an_entry(0)))

        async def lands() -> None:
            assert (await scene.store.land())[0] is Outcome.WON

        scene.store.before_write = lands
        head = await scene.leader(4, "new").claim()
        assert (head.next_offset, head.writer.leader_epoch) == (1000, 4)

    play(scenario)


def test_a_commit_that_arrives_after_the_successors_claim_is_void() -> None:
    async def scenario(scene: Scene) -> None:
        old = scene.leader(3)
        await old.claim()
        scene.store.fates.extend([Fate.LATE] * 7)
        with pytest.raises(SwapUncertain):
            await old.commit(scene.append(an_entry(0)))
        head = await scene.leader(4, "new").claim()
        assert set(await scene.store.land()) == {Outcome.LOST}
        assert scene.published() == head
        with pytest.raises(FencedByNewer):
            await old.commit(scene.append(an_entry(0)))

    play(scenario)


def test_a_stale_head_in_memory_is_found_out_by_the_swap() -> None:
    """The same process, with a publisher that missed a commit."""

    async def scenario(scene: Scene) -> None:
        one, two = scene.leader(3), scene.leader(3)
        await one.claim()
        await two.commit(scene.append(an_entry(0)))
        head = await one.commit(scene.append(an_entry(0), an_entry(1)))
        assert [entry.base for entry in head.entries] == [0, 1000]

    play(scenario)


def test_a_segment_that_does_not_follow_is_refused() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        await leader.commit(scene.append(an_entry(0)))
        with pytest.raises(NotNext) as gap:
            await leader.commit(scene.append(an_entry(2)))
        assert gap.value.next_offset == 1000
        with pytest.raises(NotNext):
            await leader.commit(scene.append(replace(an_entry(0), key=an_entry(5).key)))
        assert scene.published().version == 2

    play(scenario)


def test_what_deleterecords_took_is_skipped_and_noted() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        await leader.commit(scene.append(an_entry(0)))
        head = await leader.commit(scene.append(an_entry(2), log_start=2500))
        assert (head.log_start, head.next_offset) == (2500, 3000)
        assert [(skip.start, skip.end) for skip in head.skips] == [(1000, 2000)]

    play(scenario)


def test_log_start_moves_and_never_back() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        await leader.commit(scene.append(an_entry(0)))
        await leader.commit(MoveLogStart(Offset(300)))
        head = await leader.commit(MoveLogStart(Offset(200)))
        assert (head.log_start, head.version) == (300, 3)

    play(scenario)


def test_a_manifest_that_breaks_an_invariant_is_not_sent() -> None:
    async def backwards(head: Head) -> Draft:
        return Draft(head=replace(head, next_offset=Offset(head.next_offset - 1)))

    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        await leader.commit(scene.append(an_entry(0)))
        with pytest.raises(InvariantBroken):
            await leader.commit(backwards)
        assert scene.published().version == 2

    play(scenario)


# Pages


@pytest.mark.parametrize("fate", [Fate.FINE, *ALL_FATES])
def test_pages_are_there_before_the_head_that_refers_to_them(fate: Fate) -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        limits = Limits(entries_inline=2, leaf_entries=4, leaves_inline=2, index_leaves=4)
        scene.store.only = ".json.gz"
        scene.store.fates.extend([fate] * 3)
        for entry in segments(20):
            head = await leader.commit(scene.append(entry, limits=limits))
            for ref in (*head.indexes, *head.leaves):
                open_page(ref, scene.store.shelf.items[KEYS.full(ref.key)].data)
        await scene.store.land()
        assert head.indexes
        assert head.next_offset == 20_000

    play(scenario)


def test_a_segment_that_moved_into_a_page_is_still_known() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        limits = Limits(entries_inline=2, leaf_entries=4, leaves_inline=2, index_leaves=4)
        for entry in segments(20):
            await leader.commit(scene.append(entry, limits=limits))
        version = scene.published().version
        await leader.commit(scene.append(an_entry(0), limits=limits))
        await leader.commit(scene.append(an_entry(17), an_entry(18), limits=limits))
        assert scene.published().version == version

    play(scenario)


# What is believed


def test_refresh_shows_what_a_successor_published() -> None:
    async def scenario(scene: Scene) -> None:
        old = scene.leader(3)
        assert await old.refresh() is None
        await old.claim()
        head = await scene.leader(4, "new").commit(scene.append(an_entry(0)))
        assert await old.refresh() == head
        with pytest.raises(FencedByNewer):
            await old.commit(scene.append(an_entry(1)))

    play(scenario)


def test_a_head_that_is_gone_is_not_begun_anew() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3, copies=scene.copies)
        await scene.store.put_if_absent(KEYS.full(an_entry(0).key), BytesBody(b"0"))
        head = await leader.commit(scene.append(an_entry(0)))
        await scene.store.delete([Doomed(KEYS.head)])
        for call in (leader.refresh, scene.leader(4, copies=scene.copies).claim):
            with pytest.raises(HeadLost, match="is gone"):
                await call()
        repaired = await leader.repair()
        assert (repaired.entries, repaired.version) == (head.entries, head.version + 1)
        assert scene.published() == repaired

    play(scenario)


def test_a_commit_notices_that_head_is_gone() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        await leader.commit(scene.append(an_entry(0)))
        await scene.store.delete([Doomed(KEYS.head)])
        with pytest.raises(HeadLost):
            await leader.commit(scene.append(an_entry(1)))

    play(scenario)


def test_a_head_that_went_back_is_repaired_from_the_local_copy() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3, copies=scene.copies)
        for number in range(2):
            key = KEYS.full(an_entry(number).key)
            await scene.store.put_if_absent(key, BytesBody(b"x"))
        first = await leader.commit(scene.append(an_entry(0)))
        second = await leader.commit(scene.append(an_entry(1)))
        overwrite(scene, first)
        later = scene.leader(4, "restarted", copies=scene.copies)
        with pytest.raises(HeadLost, match="back at version 2"):
            await later.claim()
        repaired = await later.repair()
        assert repaired.entries == second.entries
        assert repaired.writer.leader_epoch == 4
        assert (await later.commit(scene.append(an_entry(2)))).next_offset == 3000

    play(scenario)


def test_a_head_is_not_put_back_where_what_it_lists_is_missing() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3, copies=scene.copies)
        await leader.commit(scene.append(an_entry(0)))
        await scene.store.delete([Doomed(KEYS.head)])
        with pytest.raises(NoSuchObject):
            await leader.repair()
        assert KEYS.head not in scene.store.shelf.items

    play(scenario)


def test_repair_of_what_is_well_is_a_claim() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3, copies=scene.copies)
        await leader.claim()
        assert (await leader.repair()).version == 1

    play(scenario)


def test_repair_never_replaces_a_successors_head() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        first = await leader.commit(scene.append(an_entry(0)))
        await leader.commit(scene.append(an_entry(1)))
        overwrite(scene, first)
        await scene.leader(4, "new").claim()
        with pytest.raises(FencedByNewer):
            await leader.repair()

    play(scenario)


@pytest.mark.parametrize("change", ["nonce", "shorter", "other writer"])
def test_a_head_that_does_not_follow_is_not_built_upon(change: str) -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3)
        first = await leader.claim()
        second = await leader.commit(scene.append(an_entry(0)))
        forged = {
            "nonce": replace(second, nonce="f" * 32),
            "shorter": replace(first, version=7),
            "other writer": replace(second, version=7, writer=scene.leader(2).writer),
        }[change]
        overwrite(scene, forged)
        with pytest.raises(HeadForked, match="does not follow"):
            await leader.commit(scene.append(an_entry(1)))

    play(scenario)


def test_the_head_of_another_partition_is_refused() -> None:
    async def scenario(scene: Scene) -> None:
        head = await scene.leader(3).claim()
        overwrite(scene, replace(head, partition=5))
        with pytest.raises(ForeignObject, match=f"{TOPIC_ID}/5"):
            await scene.leader(4).claim()

    play(scenario)


# Local copies


def test_every_commit_leaves_its_copy_on_the_disk() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3, copies=scene.copies)
        await leader.claim()
        head = await leader.commit(scene.append(an_entry(0)))
        scene.store.reads_failing = 100
        assert await scene.leader(4, copies=scene.copies).load() == head

    play(scenario)


def test_a_copy_that_cannot_be_written_fails_the_commit_and_a_retry_saves_it() -> None:
    async def scenario(scene: Scene) -> None:
        leader = scene.leader(3, copies=scene.copies)
        await leader.claim()
        disk = scene.env.disk
        assert isinstance(disk, SimDisk)
        disk.capacity = 0
        with pytest.raises(CopyFailed):
            await leader.commit(scene.append(an_entry(0)))
        assert (await scene.copies.load(TOPIC_ID, 0)) != scene.published()
        disk.capacity = 1 << 40
        await leader.commit(scene.append(an_entry(0)))
        assert (await scene.copies.load(TOPIC_ID, 0)) == scene.published()

    play(scenario)
