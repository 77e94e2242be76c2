"""The scrubber: what it finds in the bucket of a node, what it puts back, and when it works."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from tests.cold.tiering import KEYS, NODE, TierNode, bucket_of, head_in, no_probe, play, play_node
from tierlog.cold.audit import Finding, Kind
from tierlog.cold.audit_object import Fault
from tierlog.cold.codec import encode_head
from tierlog.cold.head import Head
from tierlog.cold.scrubber import Scrubber
from tierlog.cold.scrubsettings import ScrubSettings
from tierlog.objectstore.errors import StoreLies
from tierlog.objectstore.shelf import Item, Shelf
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.sim.storefaults import StoreFaults
from tierlog.types import LeaderEpoch

QUICK = ScrubSettings(
    manifest_period_ms=5_000,
    object_period_ms=5_000,
    byte_period_ms=10_000,
    probe_period_ms=10**9,
    save_period_ms=2_000,
)
SLOW = replace(QUICK, object_period_ms=10**12, byte_period_ms=10**12, manifest_period_ms=10**12)


def scrubber_of(node: TierNode, settings: ScrubSettings = QUICK, **more: Any) -> Scrubber:
    scrubber = Scrubber(
        node.env,
        node.store,
        node.tier.partitions,
        node.tier.maker.pages,
        path="/data/cold",
        stats=node.tier.stats,
        settings=settings,
        **{"probe": no_probe, **more},
    )
    node.tier.chores.append(scrubber)
    return scrubber


async def uploaded(node: TierNode, count: int = 6) -> None:
    """So many segments, cold and still on the disk."""
    for number in range(count):
        await node.produce_sealed(b"%d" % number * 200)
    while node.prefix.uploaded_end < node.log.log_end:  # noqa: ASYNC110  no event to wait for
        await asyncio.sleep(0.1)


def items_of(node: TierNode) -> dict[str, Item]:
    return bucket_of(node).shelf.items


def segment_keys(node: TierNode) -> list[str]:
    return sorted(key for key in items_of(node) if "/seg/" in key)


def rewrite(node: TierNode, key: str, data: bytes) -> None:
    shelf = Shelf()
    shelf.put(key, data, now_ms=1)
    items_of(node)[key] = shelf.items[key]


def flipped(data: bytes, place: int = 70) -> bytes:
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


Scenario = Callable[[TierNode, Scrubber], Coroutine[Any, Any, None]]


def scrub(scenario: Scenario, *, settings: ScrubSettings = QUICK, **more: Any) -> None:
    """With six segments in the bucket, and on the disk."""

    async def run(node: TierNode) -> None:
        await node.open()
        await uploaded(node)
        await scenario(node, scrubber_of(node, settings, **more))

    play_node(run)


def test_a_sound_bucket_is_looked_at_again_and_again_without_a_finding() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        before = {key: item.data for key, item in items_of(node).items()}
        await asyncio.sleep(60)
        assert not scrubber.findings
        assert node.tier.stats.scrub_repairs == 0
        assert all(one.finished >= 3 for one in scrubber.rounds.values())
        size = sum(len(before[key]) for key in segment_keys(node))
        assert node.tier.stats.scrubbed_bytes >= 3 * size
        assert {key: item.data for key, item in items_of(node).items()} == before

    scrub(scenario)


def test_an_object_that_the_store_lost_is_put_back_byte_for_byte() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        key = segment_keys(node)[2]
        lost = items_of(node).pop(key)
        await asyncio.sleep(15)
        assert items_of(node)[key].data == lost.data
        assert node.tier.stats.scrub_repairs == 1
        assert not scrubber.findings

    scrub(scenario)


@pytest.mark.parametrize("cut", [None, 50])
def test_an_object_that_is_wrong_is_replaced_by_the_right_one(cut: int | None) -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        key = segment_keys(node)[2]
        right = items_of(node)[key].data
        rewrite(node, key, flipped(right)[:cut])
        await asyncio.sleep(30)
        assert items_of(node)[key].data == right
        assert node.tier.stats.scrub_repairs == 1
        assert not scrubber.findings

    scrub(scenario)


def test_what_the_disk_does_not_have_any_more_is_a_finding_until_it_is_back() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        keys = segment_keys(node)
        lost = items_of(node).pop(keys[0])
        rewrite(node, keys[1], flipped(right := items_of(node)[keys[1]].data))
        node.log.drop(node.log.sealed()[2].next_offset)
        await node.log.settle()
        await asyncio.sleep(30)
        found = {one.key: one for one in scrubber.findings.values()}
        assert {key: one.kind for key, one in found.items()} == {
            keys[0]: Kind.OBJECT_MISSING,
            keys[1]: Kind.OBJECT_WRONG,
        }
        assert found[keys[0]].place == "orders-0"
        assert "no single local segment holds its records" in found[keys[0]].found
        assert node.tier.stats.scrub_findings == 2, "told once"
        items_of(node)[keys[0]] = lost
        rewrite(node, keys[1], right)
        await asyncio.sleep(30)
        assert not scrubber.findings

    scrub(scenario)


def test_a_head_that_was_rolled_back_is_put_back_from_the_local_copy() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        older = bucket_of(node).versions(KEYS.head)[0]
        end = head_in(bucket_of(node)).next_offset
        rewrite(node, KEYS.head, older)
        await asyncio.sleep(10)
        assert head_in(bucket_of(node)).next_offset == end
        assert node.tier.stats.scrub_repairs == 1
        assert not scrubber.findings

    scrub(scenario)


def test_a_head_that_cannot_be_read_is_put_back() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        right = head_in(bucket_of(node))
        rewrite(node, KEYS.head, flipped(items_of(node)[KEYS.head].data, 20))
        await asyncio.sleep(10)
        assert not scrubber.findings
        assert node.tier.stats.scrub_repairs == 1
        assert head_in(bucket_of(node)).entries == right.entries

    scrub(scenario)


def test_a_head_that_breaks_its_rules_is_told_and_not_written_over() -> None:
    """It may be a successor's: only who moves it aside says that it is not."""

    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        rewrite(node, KEYS.head, wrong := broken(head_in(bucket_of(node))))
        await asyncio.sleep(10)
        ((kind, key),) = scrubber.findings
        assert (kind, key) == (Kind.HEAD_WRONG, KEYS.head)
        assert items_of(node)[KEYS.head].data == wrong
        del items_of(node)[KEYS.head]
        await asyncio.sleep(10)
        assert not scrubber.findings
        assert head_in(bucket_of(node)).next_offset == node.log.log_end

    scrub(scenario)


def broken(head: Head) -> bytes:
    """A later one, with a hole in it."""
    value = replace(head, version=head.version + 1, nonce="x", entries=head.entries[1:])
    return encode_head(value)


def test_a_page_that_is_in_memory_is_put_back() -> None:
    async def run(node: TierNode) -> None:
        await node.open()
        await uploaded(node, 40)
        scrubber = scrubber_of(node)
        (ref,) = head_in(bucket_of(node)).leaves
        await node.prefix.entry_for(ref.base)
        page = items_of(node).pop(KEYS.full(ref.key))
        await asyncio.sleep(10)
        assert items_of(node)[KEYS.full(ref.key)].data == page.data
        assert not scrubber.findings

    play_node(run)


def test_a_page_that_nobody_knows_is_a_finding() -> None:
    async def run(node: TierNode) -> None:
        await node.open()
        await uploaded(node, 40)
        (ref,) = head_in(bucket_of(node)).leaves
        del items_of(node)[KEYS.full(ref.key)]
        scrubber = scrubber_of(node)
        await asyncio.sleep(10)
        ((kind, key),) = scrubber.findings
        assert (kind, key) == (Kind.PAGE_MISSING, KEYS.full(ref.key))

    play_node(run)


def test_a_store_that_stutters_makes_no_finding() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        before = {key: item.data for key, item in items_of(node).items()}
        bucket_of(node).faults = StoreFaults(flipped_share=0.3, short_share=0.2, lost_share=0.2)
        await asyncio.sleep(300)
        bucket_of(node).faults = StoreFaults()
        assert not scrubber.findings
        assert node.tier.stats.scrub_repairs == 0
        assert {key: items_of(node)[key].data for key in segment_keys(node)} == {
            key: data for key, data in before.items() if "/seg/" in key
        }

    scrub(scenario)


def test_a_store_that_is_away_is_waited_for() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        node.store.is_closed = True
        await asyncio.sleep(120)
        asked = node.store.asked
        assert asked < 60, "with growing pauses"
        assert not scrubber.findings
        node.store.is_closed = False
        await asyncio.sleep(700)
        assert node.tier.stats.scrubbed_objects > 6

    scrub(scenario)


def test_a_clock_that_was_set_back_does_not_stop_it() -> None:
    probed = 0

    async def probe() -> None:
        nonlocal probed
        probed += 1

    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def live() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            await uploaded(node)
            scrubber_of(node, replace(QUICK, probe_period_ms=10_000), probe=probe)
            await asyncio.sleep(5)
            world.host(NODE).clock.step(-7 * 86_400_000)
            before = node.tier.stats.scrubbed_objects
            await asyncio.sleep(15)
            assert node.tier.stats.scrubbed_objects > before + 6
            assert probed == 1

        await world.start(NODE, live(), what="live")

    play(scenario)


def test_a_restart_goes_on_where_the_last_life_was() -> None:
    settings = replace(SLOW, byte_period_ms=600_000, save_period_ms=1_000)

    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> tuple[int, float]:
            node = await TierNode(world.env(NODE), bucket).open()
            await uploaded(node)
            scrubber = scrubber_of(node, settings)
            await asyncio.sleep(300)
            await node.tier.stop()
            at = scrubber.rounds["bytes"]
            return at.offset, at.done

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            scrubber = scrubber_of(node, settings)
            await asyncio.sleep(1)
            now = scrubber.rounds["bytes"]
            assert (now.offset, now.done) == before
            await asyncio.sleep(400)
            assert now.finished == 1
            assert node.tier.stats.scrubbed_bytes < sum(
                len(item.data) for key, item in bucket.shelf.items.items() if "/seg/" in key
            ), "the first half was not read again"

        before = await world.start(NODE, first(), what="first")
        assert before[0] > 0
        world.kill(NODE)
        await world.start(NODE, second(), what="second")

    play(scenario)


def test_a_damaged_file_means_that_it_begins_anew() -> None:
    async def run(node: TierNode) -> None:
        await node.open()
        await uploaded(node)
        file = node.env.disk.open("/data/cold/scrub.json", create=True)
        file.pwrite(b'{"bytes": [1, 2', 0)
        file.close()
        scrubber = scrubber_of(node)
        await asyncio.sleep(30)
        assert all(one.finished for one in scrubber.rounds.values())

    play_node(run)


def test_a_store_that_begins_to_lie_is_refused_by_the_next_probe() -> None:
    async def lie() -> None:
        raise StoreLies("two writers won")

    async def run(node: TierNode) -> None:
        await node.open()
        await uploaded(node)
        node.tier.membership.probe = lie
        scrubber_of(node, replace(SLOW, probe_period_ms=60_000), probe=lie)
        await asyncio.sleep(30)
        assert node.tier.refusal is None
        await asyncio.sleep(60)
        assert isinstance(node.tier.refusal, StoreLies)

    play_node(run)


def test_a_fenced_partition_is_its_leaders_to_scrub() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        head = head_in(bucket_of(node))
        writer = head.writer._replace(leader_epoch=LeaderEpoch(9), process="another")
        successor = replace(head, version=head.version + 1, nonce="x", writer=writer)
        rewrite(node, KEYS.head, encode_head(successor))
        key = segment_keys(node)[0]
        await node.produce_sealed(b"more")
        while not node.partition.is_fenced:  # noqa: ASYNC110  no event to wait for
            await asyncio.sleep(0.1)
        del items_of(node)[key]
        await asyncio.sleep(30)
        assert key not in items_of(node)
        assert not scrubber.findings

    scrub(scenario)


def test_what_a_successor_let_go_is_not_missed_by_who_does_not_know_it_yet() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        head = head_in(bucket_of(node))
        writer = head.writer._replace(leader_epoch=LeaderEpoch(9), process="another")
        successor = replace(head, version=head.version + 1, nonce="x", writer=writer)
        rewrite(node, KEYS.head, encode_head(successor))
        key = segment_keys(node)[0]
        del items_of(node)[key]
        assert not node.partition.is_fenced
        await asyncio.sleep(30)
        assert key not in items_of(node)
        assert not scrubber.findings

    scrub(scenario)


def test_what_was_found_in_a_topic_that_is_deleted_is_forgotten() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        rewrite(node, KEYS.head, broken(head_in(bucket_of(node))))
        await asyncio.sleep(10)
        assert scrubber.findings
        await node.tier.detach(KEYS.topic_id, KEYS.partition)
        await asyncio.sleep(120)
        assert not scrubber.findings

    scrub(scenario)


def test_what_was_found_in_a_segment_that_expired_is_forgotten() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        keys = segment_keys(node)
        del items_of(node)[keys[0]], items_of(node)[keys[3]]
        node.log.drop(node.log.sealed()[4].next_offset)
        await node.log.settle()
        await asyncio.sleep(30)
        assert {key for _, key in scrubber.findings} == {keys[0], keys[3]}
        first = head_in(bucket_of(node)).entries[0]
        await node.tier.move_log_start(KEYS.topic_id, KEYS.partition, first.next_offset)
        await asyncio.sleep(61)
        assert {key for _, key in scrubber.findings} == {keys[3]}, "what is still listed stays"

    scrub(scenario)


def test_what_was_found_in_a_segment_that_was_merged_is_forgotten() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        key = segment_keys(node)[0]
        other = key.replace(key[-20:-4], "0" * 16)
        finding = Finding(kind=Kind.OBJECT_MISSING, key=other, expected="it", found="none")
        scrubber.findings[finding.kind, finding.key] = finding
        await asyncio.sleep(12)
        assert not scrubber.findings

    scrub(scenario, settings=replace(SLOW, manifest_period_ms=5_000))


def test_what_goes_while_it_is_looked_at_leaves_no_finding() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        (first, *_) = head_in(bucket_of(node)).entries
        key = KEYS.full(first.key)
        finding = Finding(kind=Kind.OBJECT_MISSING, key=key, expected="it", found="none")
        scrubber.findings[finding.kind, finding.key] = finding
        await node.tier.move_log_start(KEYS.topic_id, KEYS.partition, first.next_offset)
        gone = Fault(Kind.OBJECT_MISSING, "it", "none")
        await scrubber._judge(node.partition, first, gone)
        assert not scrubber.findings

    scrub(scenario, settings=SLOW)


def test_what_a_reader_could_not_read_is_looked_at_at_once_and_not_again_and_again() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        keys = segment_keys(node)
        rewrite(node, keys[1], flipped(items_of(node)[keys[1]].data))
        node.log.drop(node.log.sealed()[2].next_offset)
        await node.log.settle()
        await asyncio.sleep(10)
        assert not scrubber.findings, "its turn is years away"
        reads: list[str] = []
        node.store.watch = lambda kind, key: reads.append(key) if kind == "get" else None
        for _ in range(20):
            scrubber.suspect(keys[1])
            scrubber.suspect(keys[4])
            await asyncio.sleep(0.3)
        assert set(scrubber.findings) == {(Kind.OBJECT_WRONG, keys[1])}
        assert (finding := scrubber.findings[Kind.OBJECT_WRONG, keys[1]]).start is not None
        assert finding.end == finding.start + 1
        assert 0 < reads.count(keys[4]) < 4
        asked = reads.count(keys[1])
        scrubber.suspect(keys[1])
        await asyncio.sleep(60)
        assert reads.count(keys[1]) == asked

    scrub(scenario, settings=SLOW)


@pytest.mark.parametrize("key", ["", "no/such", KEYS.head, KEYS.full("seg/x"), "a/t/b/0/seg/x.seg"])
def test_what_is_no_segment_of_ours_is_no_suspect(key: str) -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        scrubber.suspect(key)
        await asyncio.sleep(10)
        assert not scrubber.findings
        assert node.tier.stats.failure_count == 0

    scrub(scenario, settings=SLOW)


def test_a_suspect_waits_for_a_store_that_is_away_and_the_rounds_go_on() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        keys = segment_keys(node)
        rewrite(node, keys[1], flipped(items_of(node)[keys[1]].data))
        node.log.drop(node.log.sealed()[2].next_offset)
        await node.log.settle()
        node.store.is_closed = True
        scrubber.suspect(keys[1])
        await asyncio.sleep(8)
        node.store.is_closed = False
        await asyncio.sleep(120)
        assert set(scrubber.findings) == {(Kind.OBJECT_WRONG, keys[1])}

    scrub(scenario, settings=SLOW)


def test_bytes_that_are_wrong_stay_a_finding_though_the_store_says_that_all_is_well() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        key = segment_keys(node)[1]
        item = items_of(node)[key]
        # Rot below the store: size and checksum are told as they were.
        items_of(node)[key] = replace(item, data=flipped(item.data))
        node.log.drop(node.log.sealed()[2].next_offset)
        await node.log.settle()
        scrubber.suspect(key)
        await asyncio.sleep(10)
        assert set(scrubber.findings) == {(Kind.OBJECT_WRONG, key)}
        looked = node.tier.stats.scrubbed_objects
        await asyncio.sleep(20)
        assert node.tier.stats.scrubbed_objects > looked + 6
        assert set(scrubber.findings) == {(Kind.OBJECT_WRONG, key)}
        items_of(node)[key] = item
        await asyncio.sleep(10)
        assert not scrubber.findings

    scrub(scenario, settings=replace(SLOW, object_period_ms=5_000))


def test_a_head_is_not_put_back_over_objects_that_are_gone() -> None:
    async def scenario(node: TierNode, scrubber: Scrubber) -> None:
        node.log.drop(node.log.sealed()[2].next_offset)
        await node.log.settle()
        older = bucket_of(node).versions(KEYS.head)[0]
        rewrite(node, KEYS.head, older)
        del items_of(node)[segment_keys(node)[0]]
        await asyncio.sleep(20)
        kinds = {kind for kind, _ in scrubber.findings}
        assert kinds == {Kind.HEAD_OLDER, Kind.OBJECT_MISSING}
        assert items_of(node)[KEYS.head].data == older

    scrub(scenario)
