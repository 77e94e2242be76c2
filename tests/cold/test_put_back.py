"""What a successor, or this node itself, let go is not put back: a receipt may tell of it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.cold.tiering import KEYS, TierNode, bucket_of, head_in, play_node
from tierlog.cold.changes import MoveLogStart
from tierlog.cold.codec import encode_head
from tierlog.cold.head import Head
from tierlog.cold.scrubrepair import ScrubRepair
from tierlog.cold.uploader import PartitionUploader
from tierlog.objectstore.shelf import Shelf
from tierlog.types import LeaderEpoch, Offset


async def filled(node: TierNode, count: int) -> Head:
    """So many segments in the bucket, and on the disk."""
    await node.open()
    for _ in range(count):
        await node.produce_sealed(b"x" * 200)
    while node.prefix.uploaded_end < node.log.log_end:  # noqa: ASYNC110  no event to wait for
        await asyncio.sleep(0.1)
    return head_in(bucket_of(node))


def succeed(node: TierNode) -> None:
    """Another process publishes; this one has not heard of it."""
    head = head_in(bucket_of(node))
    writer = head.writer._replace(leader_epoch=LeaderEpoch(9), process="another")
    value = replace(head, version=head.version + 1, nonce="x", writer=writer)
    shelf = Shelf()
    shelf.put(KEYS.head, encode_head(value), now_ms=1)
    bucket_of(node).shelf.items[KEYS.head] = shelf.items[KEYS.head]


async def delete_records(node: TierNode) -> None:
    change = MoveLogStart(Offset(3), now_ms=node.env.clock.now_ms())
    await node.partition.uploader.publisher.commit(change)


def test_an_object_that_head_lists_is_put_back() -> None:
    async def scenario(node: TierNode) -> None:
        head = await filled(node, 6)
        key = KEYS.full(head.entries[2].key)
        lost = bucket_of(node).shelf.items.pop(key)
        assert await node.partition.uploader.put_back(head.entries[2], head) is None
        assert bucket_of(node).shelf.items[key].data == lost.data

    play_node(scenario)


def test_an_object_that_a_successor_let_go_is_not_put_back() -> None:
    async def scenario(node: TierNode) -> None:
        head = await filled(node, 6)
        key = KEYS.full(head.entries[2].key)
        succeed(node)
        del bucket_of(node).shelf.items[key]
        reason = await node.partition.uploader.put_back(head.entries[2], head)
        assert reason is not None
        assert "another leader's" in reason
        assert key not in bucket_of(node).shelf.items

    play_node(scenario)


def test_without_a_last_look_at_head_it_would_be() -> None:
    """The bug of a zombie whose scrubber sent again what a receipt had told of."""

    async def listed(*_: object) -> bool:
        return True

    async def scenario(node: TierNode) -> None:
        head = await filled(node, 6)
        key = KEYS.full(head.entries[2].key)
        succeed(node)
        del bucket_of(node).shelf.items[key]
        with patch.object(PartitionUploader, "_still_lists", listed):
            await node.partition.uploader.put_back(head.entries[2], head)
        assert key in bucket_of(node).shelf.items

    play_node(scenario)


def test_an_object_that_was_deleted_meanwhile_is_not_put_back() -> None:
    async def scenario(node: TierNode) -> None:
        head = await filled(node, 6)
        key = KEYS.full(head.entries[2].key)
        await delete_records(node)
        del bucket_of(node).shelf.items[key]
        assert await node.partition.uploader.put_back(head.entries[2], head) is not None
        assert key not in bucket_of(node).shelf.items

    play_node(scenario)


@pytest.mark.parametrize("meanwhile", [succeed, lambda _: None])
def test_a_page_is_put_back_unless_there_is_a_successor(
    meanwhile: Callable[[TierNode], None],
) -> None:
    async def scenario(node: TierNode) -> None:
        head = await filled(node, 40)
        (ref,) = head.leaves
        await node.prefix.entry_for(ref.base)
        repair = ScrubRepair(node.env, node.store, node.tier.maker.pages, node.tier.stats)
        meanwhile(node)
        del bucket_of(node).shelf.items[KEYS.full(ref.key)]
        is_back = await repair.page(node.partition.uploader, ref)
        assert is_back == (meanwhile is not succeed)
        assert (KEYS.full(ref.key) in bucket_of(node).shelf.items) == is_back

    play_node(scenario)
