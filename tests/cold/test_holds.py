"""Holds in HEAD: what may be placed, what a hold keeps, and whom nobody is told of."""

from dataclasses import replace

import pytest

from tests.cold.makers import an_entry
from tests.cold.publishing import Scene, play, segments
from tests.cold.scripted import Fate
from tierlog.cold.changes import MoveLogStart
from tierlog.cold.head import Head, Hold
from tierlog.cold.holds import (
    HOLDS_MAX,
    NO_END,
    REASON_CHARACTERS_MAX,
    PlaceHold,
    ReleaseHold,
    check_words,
    movable_to,
    offsets_of,
)
from tierlog.cold.publisher import Publisher
from tierlog.cold.refusals import FencedByNewer, HoldRefused, SwapUncertain
from tierlog.objectstore.port import Outcome
from tierlog.types import Offset

HOLD = Hold("case-7", Offset(1000), Offset(2000), "a case")


async def published(scene: Scene, *, epoch: int = 3) -> Publisher:
    """Three segments of a thousand offsets."""
    leader = scene.leader(epoch)
    await leader.commit(scene.append(*segments(3)))
    return leader


# What is placed


def test_a_hold_is_placed_once_and_raises_the_policy_version() -> None:
    async def scenario(scene: Scene) -> None:
        leader = await published(scene)
        head = await leader.commit(PlaceHold(HOLD))
        assert (head.holds, head.policy_version) == ((HOLD,), 1)
        assert await leader.commit(PlaceHold(HOLD)) == scene.published() == head

    play(scenario)


@pytest.mark.parametrize(
    ("other", "is_done"),
    [
        (HOLD._replace(start=Offset(1500)), True),
        (HOLD._replace(end=NO_END), False),
        (HOLD._replace(start=Offset(0)), False),
        (HOLD._replace(reason="another case"), False),
    ],
)
def test_the_same_id_again_is_done_where_it_covers_as_much_for_the_same_reason(
    other: Hold, is_done: bool
) -> None:
    async def scenario(scene: Scene) -> None:
        leader = await published(scene)
        await leader.commit(PlaceHold(HOLD))
        if is_done:
            assert (await leader.commit(PlaceHold(other))).holds == (HOLD,)
        else:
            with pytest.raises(HoldRefused, match="offsets 1000 to 1999 \\(a case\\)"):
                await leader.commit(PlaceHold(other))
        assert scene.published().holds == (HOLD,)

    play(scenario)


def test_what_is_deleted_is_not_held() -> None:
    async def scenario(scene: Scene) -> None:
        leader = await published(scene)
        await leader.commit(MoveLogStart(Offset(1500)))
        with pytest.raises(HoldRefused, match="offsets 1000 to 1499 are deleted already"):
            await leader.commit(PlaceHold(HOLD))
        with pytest.raises(HoldRefused, match="nothing lies"):
            await leader.commit(PlaceHold(HOLD._replace(start=Offset(2000))))
        assert scene.published().holds == ()

    play(scenario)


def test_the_holds_of_a_partition_are_bounded() -> None:
    async def scenario(scene: Scene) -> None:
        leader = await published(scene)
        for number in range(HOLDS_MAX):
            await leader.commit(PlaceHold(HOLD._replace(id=f"case-{number}")))
        with pytest.raises(HoldRefused, match=f"{HOLDS_MAX} holds"):
            await leader.commit(PlaceHold(HOLD._replace(id="one-more")))
        await leader.commit(PlaceHold(HOLD._replace(id="case-0")))
        await leader.commit(ReleaseHold("case-0"))
        await leader.commit(PlaceHold(HOLD._replace(id="one-more")))

    play(scenario)


@pytest.mark.parametrize(
    ("hold_id", "reason"),
    [
        ("", "why"),
        ("a b", "why"),
        ("x" * 65, "why"),
        ("../x", "why"),
        ("x", ""),
        ("x", "  "),
        ("x", "two\nlines"),
        ("x", "y" * (REASON_CHARACTERS_MAX + 1)),
    ],
)
def test_words_that_nobody_could_read_are_refused(hold_id: str, reason: str) -> None:
    with pytest.raises(HoldRefused):
        check_words(hold_id, reason)


def test_words_of_any_language_are_taken() -> None:
    check_words("Case_7.b-2", "Prüfung 2026, § 257 HGB")
    assert offsets_of(Offset(5), Offset(10)) == "offsets 5 to 9"
    assert offsets_of(Offset(5), NO_END) == "offsets from 5 on"


# What it keeps


def test_the_log_start_moves_up_to_a_hold_and_on_when_it_is_released() -> None:
    """Deleted by a process that did not know of the hold: what the bucket has stays."""

    async def scenario(scene: Scene) -> None:
        leader = await published(scene)
        await leader.commit(PlaceHold(HOLD))
        assert (await leader.commit(MoveLogStart(Offset(3000)))).log_start == 1000
        assert (await leader.commit(MoveLogStart(Offset(3000)))) == scene.published()
        head = await leader.commit(scene.append(an_entry(3), trimmed_to=3000))
        assert (head.log_start, head.next_offset) == (1000, 4000)
        change = ReleaseHold(HOLD.id)
        head = await leader.commit(change)
        assert (change.released, head.holds, head.policy_version) == (HOLD, (), 2)
        assert (await leader.commit(MoveLogStart(Offset(3000)))).log_start == 3000

    play(scenario)


def test_the_first_of_several_holds_counts() -> None:
    async def scenario(scene: Scene) -> Head:
        return await (await published(scene)).claim()

    head = play(scenario)
    held = replace(head, holds=(HOLD._replace(start=Offset(2500), end=NO_END), HOLD))
    assert movable_to(held, Offset(500)) == 500
    assert movable_to(held, Offset(2900)) == 1000
    assert movable_to(head, Offset(2900)) == 2900


# Who is told


@pytest.mark.parametrize("fate", list(Fate))
def test_a_hold_is_in_head_once_it_is_told_whatever_was_answered(fate: Fate) -> None:
    async def scenario(scene: Scene) -> None:
        leader = await published(scene)
        scene.store.fates.append(fate)
        assert (await leader.commit(PlaceHold(HOLD))).holds == (HOLD,)
        await scene.store.land()
        assert scene.published().holds == (HOLD,)
        scene.store.fates.append(fate)
        assert (await leader.commit(ReleaseHold(HOLD.id))).holds == ()
        await scene.store.land()
        assert scene.published().holds == ()

    play(scenario)


def test_a_hold_in_doubt_is_not_told_and_is_found_by_the_next_try() -> None:
    async def scenario(scene: Scene) -> None:
        leader = await published(scene)
        scene.store.fates.extend([Fate.LATE] * 7)
        with pytest.raises(SwapUncertain):
            await leader.commit(PlaceHold(HOLD))
        assert scene.published().holds == ()
        assert Outcome.WON in await scene.store.land()
        head = await leader.commit(PlaceHold(HOLD))
        assert (head.holds, head.policy_version) == ((HOLD,), 1)

    play(scenario)


def test_a_zombie_tells_of_no_hold_and_passes_none_of_its_successors() -> None:
    async def scenario(scene: Scene) -> None:
        zombie = await published(scene)
        scene.store.fates.extend([Fate.LATE] * 7)
        with pytest.raises(SwapUncertain):
            await zombie.commit(PlaceHold(HOLD))
        successor = scene.leader(4, "successor")
        await successor.commit(PlaceHold(HOLD._replace(id="case-8")))
        assert set(await scene.store.land()) == {Outcome.LOST}
        for change in (PlaceHold(HOLD), ReleaseHold("case-8"), MoveLogStart(Offset(3000))):
            with pytest.raises(FencedByNewer):
                await zombie.commit(change)
        head = scene.published()
        assert ([one.id for one in head.holds], head.log_start) == (["case-8"], 0)

    play(scenario)
