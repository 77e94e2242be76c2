"""The audit beside a live cluster: what is no damage, and what only time or a copy can tell."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random

import pytest

from tests.tamper.bucket import CLUSTER, DAY_S, MINUTE_S, PLACES, PREFIX, TestBucket, make_bucket
from tests.tamper.damages import put
from tierlog.cold.audit import AuditReport, Kind
from tierlog.cold.auditor import Auditor
from tierlog.cold.auditstate import AuditState
from tierlog.cold.changes import MoveLogStart
from tierlog.cold.clusterstate import decode_state, encode_state
from tierlog.cold.codec import decode_head
from tierlog.cold.layout import STATE, topic_receipt_key
from tierlog.cold.localcopy import LocalCopies
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Doomed, Got, Span
from tierlog.types import Offset

DEEP, MOVED, FEW = PLACES


def play(scenario: Callable[[TestBucket], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(await make_bucket())

    asyncio.run(run())


def kinds(report: AuditReport) -> list[Kind]:
    return [one.kind for one in report.findings]


def notes(report: AuditReport) -> list[str]:
    return [note for one in report.partitions for note in one.notes]


def test_a_segment_that_was_sent_and_not_published_is_a_note() -> None:
    async def scenario(bucket: TestBucket) -> None:
        publisher = bucket.publisher(FEW)
        await bucket.upload(publisher, bucket.head(FEW).next_offset, Random(1))
        report = await bucket.auditor().run()
        assert report.is_sound
        (note,) = notes(report)
        assert note.startswith("1 segment behind offset 14 not listed yet: an upload under way")

    play(scenario)


def test_a_segment_that_waits_for_its_publish_for_a_day_is_a_finding() -> None:
    async def scenario(bucket: TestBucket) -> None:
        await bucket.upload(bucket.publisher(FEW), bucket.head(FEW).next_offset, Random(1))
        bucket.clock.seconds += DAY_S + MINUTE_S
        (finding,) = (await bucket.auditor().run()).findings
        assert finding.kind is Kind.HEAD_OLDER
        assert finding.start == bucket.head(FEW).next_offset
        assert "sent 24 hours ago" in finding.expected

    play(scenario)


def test_what_an_older_leader_left_behind_the_end_says_nothing() -> None:
    """A restore claims HEAD; what the old cluster had sent and not published is lost for it."""

    async def scenario(bucket: TestBucket) -> None:
        await bucket.upload(bucket.publisher(FEW), bucket.head(FEW).next_offset, Random(1))
        bucket.clock.seconds += DAY_S
        await bucket.publisher(FEW, epoch=5).claim()
        bucket.clock.seconds += DAY_S
        report = await bucket.auditor().run()
        assert report.is_sound
        assert not notes(report)

    play(scenario)


def test_a_head_that_was_put_back_is_told_by_what_lies_behind_its_end() -> None:
    async def scenario(bucket: TestBucket) -> None:
        await put(bucket, bucket.keys(DEEP).head, bucket.heads[DEEP][-2])
        (finding,) = (await bucket.auditor(is_deep=False).run()).findings
        assert (finding.kind, finding.place) == (Kind.HEAD_OLDER, "orders-0")
        assert "minutes before HEAD was written" in finding.expected

    play(scenario)


def test_only_a_copy_tells_of_a_roll_back_over_changes_that_sent_nothing() -> None:
    async def scenario(bucket: TestBucket) -> None:
        copies = LocalCopies(bucket.env, "/data/cold")
        await copies.open()
        older = bucket.store.shelf.items[bucket.keys(DEEP).head].data
        head = await bucket.publisher(DEEP).commit(MoveLogStart(Offset(20)))
        await copies.save(head)
        await put(bucket, bucket.keys(DEEP).head, older)
        assert (await bucket.auditor().run()).is_sound
        auditor = Auditor(bucket.env, bucket.store, cluster_id=CLUSTER, copies=copies)
        (finding,) = (await auditor.run()).findings
        assert finding.kind is Kind.HEAD_OLDER
        assert finding.expected == f"version {head.version}, of which this node has a copy"
        await bucket.store.delete([Doomed(bucket.keys(DEEP).head)])
        auditor = Auditor(bucket.env, bucket.store, cluster_id=CLUSTER, copies=copies)
        assert kinds(await auditor.run()) == [Kind.HEAD_MISSING]

    play(scenario)


def test_objects_below_the_log_start_may_be_gone() -> None:
    async def scenario(bucket: TestBucket) -> None:
        needed = set(await bucket.victims())
        below = [
            key
            for key in bucket.store.shelf.items
            if f"/{MOVED[0]}/{MOVED[1]}/" in key and key not in needed
        ]
        assert any("/seg/" in key for key in below)
        assert any("/page/" in key for key in below)
        await bucket.store.delete([Doomed(key) for key in below])
        assert (await bucket.auditor().run()).is_sound

    play(scenario)


def test_a_state_that_was_put_back_is_told_by_a_topic_that_it_does_not_know() -> None:
    async def scenario(bucket: TestBucket) -> None:
        fresh = TestBucket(bucket.env, bucket.clock, MemoryStore(bucket.clock))
        await fresh.found()
        state = fresh.store.shelf.items[PREFIX + STATE].data
        known = decode_state(state)
        left = {key: one for key, one in known.topics.items() if key != FEW[0]}
        older = replace(known, topics=left)
        await put(bucket, PREFIX + STATE, encode_state(older))
        (finding,) = (await bucket.auditor().run()).findings
        assert (finding.kind, finding.key) == (Kind.STATE_OLDER, PREFIX + STATE)
        assert "topic clicks" in finding.expected

    play(scenario)


def without_topic(bucket: TestBucket, topic_id: str) -> bytes:
    """STATE as it was before the topic was made."""
    known = decode_state(bucket.store.shelf.items[PREFIX + STATE].data)
    left = {key: one for key, one in known.topics.items() if key != topic_id}
    return encode_state(replace(known, version=known.version - 1, topics=left))


def test_a_topic_without_anything_in_its_first_partition_is_missed_all_the_same() -> None:
    async def scenario(bucket: TestBucket) -> None:
        first = bucket.keys(DEEP).prefix
        await bucket.store.delete(
            [Doomed(key) for key in bucket.store.shelf.items if key.startswith(first)]
        )
        await put(bucket, PREFIX + STATE, without_topic(bucket, DEEP[0]))
        report = await bucket.auditor().run()
        assert kinds(report) == [Kind.STATE_OLDER]
        assert "topic orders" in report.findings[0].expected
        assert {(one.topic, one.partition) for one in report.partitions} == {
            ("orders", 0),
            ("orders", 1),
            ("clicks", 0),
        }

    play(scenario)


def test_partitions_that_state_does_not_know_are_told() -> None:
    async def scenario(bucket: TestBucket) -> None:
        known = decode_state(bucket.store.shelf.items[PREFIX + STATE].data)
        fewer = {**known.topics, DEEP[0]: replace(known.topics[DEEP[0]], partitions=1)}
        await put(bucket, PREFIX + STATE, encode_state(replace(known, topics=fewer)))
        (finding,) = (await bucket.auditor().run()).findings
        assert finding.kind is Kind.STATE_OLDER
        assert "2 partitions of orders" in finding.expected

    play(scenario)


def test_what_a_receipt_tells_of_is_not_missed() -> None:
    async def scenario(bucket: TestBucket) -> None:
        await put(bucket, PREFIX + STATE, without_topic(bucket, FEW[0]))
        await put(bucket, PREFIX + topic_receipt_key(FEW[0]), b"swept")
        assert (await bucket.auditor().run()).is_sound

    play(scenario)


def test_only_a_copy_tells_of_a_state_that_lost_what_published_nothing() -> None:
    async def scenario(bucket: TestBucket) -> None:
        copies = LocalCopies(bucket.env, "/data/cold")
        await copies.open()
        state = decode_state(bucket.store.shelf.items[PREFIX + STATE].data)
        await copies.save_state(replace(state, version=state.version + 1))
        assert (await bucket.auditor().run()).is_sound
        auditor = Auditor(bucket.env, bucket.store, cluster_id=CLUSTER, copies=copies)
        assert kinds(await auditor.run()) == [Kind.STATE_OLDER]

    play(scenario)


@pytest.mark.parametrize("data", [None, b"garbage"])
def test_topics_are_looked_at_though_state_is_gone(data: bytes | None) -> None:
    async def scenario(bucket: TestBucket) -> None:
        if data is None:
            await bucket.store.delete([Doomed(PREFIX + STATE)])
        else:
            await put(bucket, PREFIX + STATE, data)
        victim = bucket.keys(FEW).full(bucket.head(FEW).entries[0].key)
        await bucket.store.delete([Doomed(victim)])
        report = await bucket.auditor().run()
        assert kinds(report) == [Kind.STATE_WRONG, Kind.OBJECT_MISSING]
        assert len(report.partitions) == len(PLACES)

    play(scenario)


def test_a_head_that_moves_while_it_is_walked_is_walked_again() -> None:
    """An object that left the manifest meanwhile may be gone when it is asked for."""

    class Moving(MemoryStore):
        is_moved = False

        async def get(
            self,
            key: str,
            *,
            span: Span | None = None,
            etag: str | None = None,
            version_id: str | None = None,
        ) -> Got:
            got = await super().get(key, span=span, etag=etag, version_id=version_id)
            if key == bucket.keys(FEW).head and not self.is_moved:
                self.is_moved = True
                head = decode_head(got.data, key=key)
                first = head.leaves[0] if head.leaves else head.entries[0]
                end = Offset(first.next_offset)
                await bucket.publisher(FEW).commit(MoveLogStart(end))
                gone = [
                    one
                    for one in self.shelf.items
                    if f"/{FEW[0]}/0/seg/" in one and int(one.rsplit("/", 1)[1][21:41]) < end
                ]
                await self.delete([Doomed(one) for one in gone])
            return got

    bucket: TestBucket

    async def scenario() -> None:
        nonlocal bucket
        bucket = await make_bucket()
        store = Moving(bucket.clock)
        store.shelf = bucket.store.shelf
        bucket.store = store
        report = await bucket.auditor().run()
        assert store.is_moved
        assert report.is_sound

    asyncio.run(scenario())


def test_a_garbled_answer_is_read_again() -> None:
    class Stuttering(MemoryStore):
        count = 0

        async def get(
            self,
            key: str,
            *,
            span: Span | None = None,
            etag: str | None = None,
            version_id: str | None = None,
        ) -> Got:
            got = await super().get(key, span=span, etag=etag, version_id=version_id)
            self.count += 1
            if self.count % 5:
                return got
            data = bytearray(got.data)
            data[self.count % len(data)] ^= 1 << self.count % 8
            return Got(data=bytes(data), stat=got.stat)

    async def scenario(bucket: TestBucket) -> None:
        store = Stuttering(bucket.clock)
        store.shelf = bucket.store.shelf
        assert (await bucket.auditor(store=store).run()).is_sound
        assert store.count > 60

    play(scenario)


def test_a_state_file_skips_what_was_sound_and_reads_what_was_not() -> None:
    async def scenario(bucket: TestBucket) -> None:
        victim = next(key for key in await bucket.referenced(FEW) if "/seg/" in key)
        right = bucket.store.shelf.items[victim].data
        await put(bucket, victim, right[:70] + b"x" + right[71:])

        async def audited() -> AuditReport:
            state = AuditState(bucket.env.disk, "/state", cluster_id=CLUSTER)
            state.open()
            auditor = Auditor(
                bucket.env, bucket.store, cluster_id=CLUSTER, is_deep=True, state=state
            )
            report = await auditor.run()
            state.close()
            return report

        first, second = await audited(), await audited()
        assert kinds(first) == kinds(second) == [Kind.OBJECT_WRONG]
        assert sum(one.read_bytes for one in second.partitions) == 0, "its CRC told"
        assert sum(one.skipped_bytes for one in second.partitions) == sum(
            one.bytes for one in first.partitions
        ) - len(right)

    play(scenario)
