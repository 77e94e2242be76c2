"""An object that is replaced by compare-and-swap knows its own writes again."""

from dataclasses import replace

import pytest

from tests.cold.makers import a_head
from tests.cold.publishing import Scene, play
from tests.cold.scripted import Fate
from tierlog.cold.cell import Cell, write_once
from tierlog.cold.codec import decode_head, encode_head
from tierlog.cold.head import Head
from tierlog.cold.refusals import SwapLost, SwapUncertain

ALL_FATES = [fate for fate in Fate if fate is not Fate.FINE]


def a_cell(scene: Scene) -> Cell[Head]:
    return Cell(
        scene.store,
        "the-key",
        scene.env,
        encode=encode_head,
        decode=lambda data: decode_head(data, key="the-key"),
    )


FIRST = a_head()
SECOND = replace(FIRST, version=2, nonce="second")
OTHER = replace(FIRST, version=2, nonce="other")


@pytest.mark.parametrize("fate", ALL_FATES)
def test_a_swap_is_not_lost_to_itself(fate: Fate) -> None:
    """What only the nonce tells: the writer is the same, and so may the content be."""

    async def scenario(scene: Scene) -> None:
        cell = a_cell(scene)
        scene.store.fates.append(fate)
        first = await cell.swap(None, FIRST)
        scene.store.fates.append(fate)
        second = await cell.swap(first, SECOND)
        await scene.store.land()
        assert await cell.read() == second

    play(scenario)


def test_a_swap_is_lost_to_another_of_the_same_writer() -> None:
    async def scenario(scene: Scene) -> None:
        cell = a_cell(scene)
        first = await cell.swap(None, FIRST)
        await cell.swap(first, OTHER)
        with pytest.raises(SwapLost):
            await cell.swap(first, SECOND)
        with pytest.raises(SwapLost):
            await cell.swap(None, SECOND)
        found = await cell.read()
        assert found is not None
        assert found.value == OTHER

    play(scenario)


def test_nothing_is_there_before_the_first() -> None:
    async def scenario(scene: Scene) -> None:
        assert await a_cell(scene).read() is None

    play(scenario)


@pytest.mark.parametrize("fate", ALL_FATES)
def test_an_object_of_its_own_key_is_written_whatever_was_answered(fate: Fate) -> None:
    async def scenario(scene: Scene) -> None:
        scene.store.fates.append(fate)
        await write_once(scene.store, "own", b"content", scene.env.rng)
        await scene.store.land()
        assert scene.store.shelf.items["own"].data == b"content"

    play(scenario)


def test_other_bytes_under_the_key_are_not_taken_for_ones_own() -> None:
    async def scenario(scene: Scene) -> None:
        await write_once(scene.store, "own", b"content", scene.env.rng)
        with pytest.raises(SwapLost):
            await write_once(scene.store, "own", b"other", scene.env.rng)

    play(scenario)


def test_a_store_that_never_answers_leaves_it_unclear() -> None:
    async def scenario(scene: Scene) -> None:
        scene.store.fates.extend([Fate.REQUEST_LOST] * 7)
        with pytest.raises(SwapUncertain, match="500"):
            await write_once(scene.store, "own", b"content", scene.env.rng)

    play(scenario)
