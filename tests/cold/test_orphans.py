"""Which objects a manifest accounts for, and who may still publish the others."""

from dataclasses import replace

import pytest

from tests.cold.publishing import KEYS, Scene, play, segments
from tierlog.cold.head import Garbage, Head, Writer
from tierlog.cold.layout import receipt_key
from tierlog.cold.orphans import Look, Manifest, Orphan, is_old, look_at, may_be_collected
from tierlog.cold.tree import Limits
from tierlog.objectstore.body import BytesBody
from tierlog.types import LeaderEpoch, Offset

LIMITS = Limits(entries_inline=1, leaf_entries=2, leaves_inline=1, index_leaves=8)
ME = Writer(LeaderEpoch(3), "a process")


async def published(scene: Scene, count: int = 12) -> Head:
    """Segments in HEAD, in leaf pages and below index pages; their objects are there, too."""
    leader = scene.leader(3)
    for entry in segments(count):
        await scene.store.put(KEYS.full(entry.key), BytesBody(b"segment"))
        await leader.commit(scene.append(entry, limits=LIMITS))
    return scene.published()


async def look(scene: Scene, head: Head | None) -> Look:
    async def paid() -> None:
        """As fast as can be."""

    return await look_at(scene.store, KEYS, head, paid=paid)


def a_segment(base: int, *, epoch: int = 3, attempt: int = 7) -> str:
    return KEYS.segment(
        base=Offset(base),
        last=Offset(base + 999),
        leader_epoch=LeaderEpoch(epoch),
        node=1,
        attempt=attempt,
    )


def test_what_head_pages_and_garbage_name_is_known() -> None:
    async def scenario(scene: Scene) -> None:
        head = await published(scene)
        assert head.indexes, "some entries are two pages away"
        assert head.garbage, "pages were replaced by fuller ones"
        found = await look(scene, head)
        assert found.orphans == []
        assert found.objects == len(scene.store.shelf.items)

    play(scenario)


def test_what_we_write_beside_segments_is_not_strange() -> None:
    async def scenario(scene: Scene) -> None:
        head = await published(scene)
        receipt = receipt_key(first=Offset(0), last=Offset(9), digest="0" * 64)
        for key in (receipt, "TABLE", "pq/x.parquet", "chk/x"):
            await scene.store.put(KEYS.full(key), BytesBody(b"ours"))
        assert (await look(scene, head)).strange == 0
        await scene.store.put(KEYS.full("notes.txt"), BytesBody(b"a stranger's"))
        assert (await look(scene, head)).strange == 1

    play(scenario)


@pytest.mark.parametrize("base", [0, 500, 5000, 11_000, 12_000, 99_000])
def test_another_object_for_offsets_that_are_listed_is_an_orphan(base: int) -> None:
    async def scenario(scene: Scene) -> None:
        head = await published(scene)
        await scene.store.put(a_segment(base), BytesBody(b"orphan"))
        (orphan,) = (await look(scene, head)).orphans
        assert KEYS.full(orphan.key) == a_segment(base)
        assert (orphan.leader_epoch, orphan.size) == (3, 6)

    play(scenario)


def test_segments_that_are_garbage_by_their_page_alone_are_known() -> None:
    async def scenario(scene: Scene) -> None:
        head = await published(scene)
        first = head.indexes[0]
        gone = replace(head, indexes=head.indexes[1:], log_start=first.next_offset, garbage=())
        unlisted = {one.key for one in (await look(scene, gone)).orphans}
        assert sum(key.startswith("seg/") for key in unlisted) == first.segments
        pages = [key for key in unlisted if key.startswith("page/")]
        listed = replace(gone, garbage=tuple(Garbage(key, None, 0) for key in pages))
        assert (await look(scene, listed)).orphans == []

    play(scenario)


def test_without_a_head_everything_is_unknown_and_nothing_may_be_collected() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.store.put(a_segment(0), BytesBody(b"on its way"))
        (orphan,) = (await look(scene, None)).orphans
        assert not may_be_collected(orphan, None, writer=ME, in_flight=())
        assert not await Manifest(scene.store, KEYS, None).knows(orphan.key)

    play(scenario)


def an_orphan(*, epoch: int | None = 3, modified_ms: int = 1000) -> Orphan:
    return Orphan(
        key="seg/x",
        size=1,
        modified_ms=modified_ms,
        version_id=None,
        leader_epoch=None if epoch is None else LeaderEpoch(epoch),
    )


@pytest.mark.parametrize(
    ("epoch", "writer", "in_flight", "may"),
    [
        (2, ME, (), True),  # Fenced by my claim.
        (3, ME, (), True),  # Mine, and I know that it is not in flight.
        (3, ME, ("seg/x",), False),
        (2, ME, ("seg/x",), False),
        (4, ME, (), False),  # A successor's, who has not claimed yet.
        (None, ME, (), True),  # A page: only the writer of HEAD could refer to it.
        (2, Writer(LeaderEpoch(2), "another"), (), True),  # HEAD's writer fences it all the same.
        (3, Writer(LeaderEpoch(2), "another"), (), False),
        (3, Writer(LeaderEpoch(3), "a twin"), (), False),
        (None, Writer(LeaderEpoch(2), "another"), (), False),
    ],
)
def test_only_what_nobody_can_publish_any_more_is_collected(
    epoch: int | None, writer: Writer, in_flight: tuple[str, ...], may: bool
) -> None:
    async def scenario(scene: Scene) -> None:
        head = replace(await published(scene, 1), writer=ME)
        orphan = an_orphan(epoch=epoch)
        assert may_be_collected(orphan, head, writer=writer, in_flight=in_flight) is may

    play(scenario)


def test_an_object_is_old_by_the_stores_clock_or_if_that_is_not_told() -> None:
    assert not is_old(an_orphan(), now_ms=1999, age_ms=1000)
    assert is_old(an_orphan(), now_ms=2000, age_ms=1000)
    assert is_old(an_orphan(modified_ms=-1), now_ms=0, age_ms=1000)
