"""What a stream asks of a bucket, and what it does where something is gone. Without a Spark."""

import asyncio
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.fetchproxy.support import HandClock
from tests.table.batches import range_of
from tests.table.test_scan import three_batches
from tests.tamper.bucket import CLUSTER, PLACES, make_bucket
from tierlog.client import EARLIEST, LATEST
from tierlog.cold.bucketview import BucketView
from tierlog.cold.bucketview import Place as BucketPlace
from tierlog.env import LocalDisk, SystemClock
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Got
from tierlog.spark import hottail
from tierlog.spark.bounds import PartitionName
from tierlog.spark.errors import DataLost, NotReadable
from tierlog.spark.options import Mode, parse_options
from tierlog.spark.pins import Pinned, Pins
from tierlog.spark.plan import HotSlice, ParquetFile, ParquetSlice
from tierlog.table import plans
from tierlog.table.manifest import Source
from tierlog.table.plans import About, ConvertPlan, RawPart
from tierlog.wire.error_codes import ErrorCode

streaming = pytest.importorskip("tierlog.spark.streaming")

GIVEN = {"store": "file:///s", "subscribe": "orders,clicks", "startingOffsets": "earliest"}
OPTIONS = parse_options(GIVEN, mode=Mode.STREAM)
LENIENT = replace(OPTIONS, fail_on_data_loss=False)


async def pinned_bucket() -> tuple[MemoryStore, Pins]:
    bucket = await make_bucket()
    return bucket.store, Pins(BucketView(bucket.store, cluster_id=CLUSTER), None)


def meeting(store: MemoryStore, is_asked: Callable[[str], bool]) -> None:
    """A store that answers when every partition was asked about: whoever asks one by one never
    comes to the second."""
    asked, get, are_there = set[str](), store.get, asyncio.Event()

    async def waiting(key: str, **more: Any) -> Got:
        if is_asked(key):
            asked.add("/".join(key.split("/")[:4]))
            if len(asked) == len(PLACES):
                are_there.set()
            await asyncio.wait_for(are_there.wait(), 10)
        return await get(key, **more)

    store.get = waiting  # type: ignore[method-assign]  # for this test


async def test_manifests_are_asked_for_side_by_side() -> None:
    store, found = await pinned_bucket()
    meeting(store, lambda key: key.endswith("/HEAD"))
    assert len(await found.pin(OPTIONS)) == len(PLACES)


async def test_times_are_looked_up_side_by_side() -> None:
    store, found = await pinned_bucket()
    pinned = await found.pin(OPTIONS)
    due = {name: await found.times(pinned, {name: 1}) for name in pinned}
    meeting(store, lambda key: "/seg/" in key)
    assert await found.times(pinned, dict.fromkeys(pinned, 1)) == {
        name: one[name] for name, one in due.items()
    }


async def test_slices_are_planned_side_by_side_and_stay_in_order() -> None:
    store, found = await pinned_bucket()
    pinned = await found.pin(OPTIONS)
    spans = await found.spans(OPTIONS, pinned)
    due = [one for span in spans for one in await found.slices([span], pinned)]
    assert [one.name for one in due] == sorted(one.name for one in due)
    meeting(store, lambda key: "/HEAD" not in key)  # Pages, which each of the three has.
    assert await found.slices(spans, pinned) == due


async def test_who_asks_for_ends_reads_no_tables_and_idle_partitions_are_left_out() -> None:
    store, found = await pinned_bucket()
    asked, get = list[str](), store.get

    async def noted(key: str, **more: Any) -> Got:
        asked.append(key.rpartition("/")[2])
        return await get(key, **more)

    store.get = noted  # type: ignore[method-assign]  # for this test
    known = await found.pin(OPTIONS, with_tables=False)
    assert (asked.count("HEAD"), asked.count("TABLE")) == (3, 0)
    asked.clear()
    assert len(await found.pin(OPTIONS, left_out=list(known)[:2])) == 1
    assert (asked.count("HEAD"), asked.count("TABLE")) == (1, 1)


NAME = PartitionName("orders", 0)


def known(earliest: int, latest: int, topic_id: str = "t") -> dict[PartitionName, Pinned]:
    place = BucketPlace(cluster_id="c", topic_id=topic_id, topic="orders", partition=0)
    one = Pinned(name=NAME, place=place, head=None, table=None, earliest=earliest, latest=latest)
    return {NAME: one}


def test_what_a_new_partition_had_and_has_lost_is_a_loss_or_left_out() -> None:
    """It appeared in a batch that was planned and not committed; then retention was quicker."""
    with pytest.raises(DataLost, match="begins at 9"):
        streaming.spans_of(OPTIONS, known(9, 20), {}, {NAME: 5})
    assert streaming.spans_of(LENIENT, known(9, 20), {}, {NAME: 5}) == []
    (span,) = streaming.spans_of(OPTIONS, known(2, 20), {}, {NAME: 5})
    assert (span.start, span.end) == (2, 5)


class Looked:
    """A stream whose looks at the bucket find what `there` says, and what it reads."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        there: dict[PartitionName, Pinned],
        *,
        fails: bool,
        limit: int | None = None,
    ) -> None:
        self.there = there
        options = OPTIONS if fails else LENIENT
        self.options = replace(options, trigger_offsets_max=limit)
        self.reader = streaming.TierlogStreamReader(self.options, ["value"])
        monkeypatch.setattr(self.reader, "_pinned", lambda _: self.there)
        monkeypatch.setattr(streaming, "LOOK_AGAIN_S", 0)
        self.at = dict.fromkeys(there, 0)
        self.reader._seen = self.at

    def batch(self) -> list[tuple[int, int]]:
        """What it reads, and nothing where Spark would see no difference."""
        first, last = self.at, streaming.flattened(self.reader.latestOffset())
        if first == last:
            return []
        self.at = self.reader._seen = last
        spans = streaming.spans_of(self.options, self.there, first, last)
        return [(one.start, one.end) for one in spans]


def test_a_topic_that_was_made_anew_is_a_loss_if_it_is_shorter_than_what_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Looked(monkeypatch, known(0, 100), fails=True)
    assert stream.batch() == [(0, 100)]
    stream.there = known(0, 20)
    # As by a reader that was started anew, and knows the checkpoint alone.
    stream.reader._ids.clear()
    with pytest.raises(DataLost, match="ends at offset 20, and the stream has read it up to 100"):
        stream.batch()


def test_a_topic_that_was_made_anew_is_a_loss_also_if_it_is_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Looked(monkeypatch, known(0, 100), fails=True)
    assert stream.batch() == [(0, 100)]
    stream.there = known(0, 120, "another")
    with pytest.raises(DataLost, match=r"orders was deleted and made anew.*with a new checkpoint"):
        stream.batch()


@pytest.mark.parametrize("limit", [None, 30])
@pytest.mark.parametrize("latest", [0, 1, 20, 99, 100, 101, 120])
def test_a_topic_that_was_made_anew_is_read_from_its_beginning_where_a_loss_does_not_matter(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    latest: int,
    limit: int | None,
) -> None:
    stream = Looked(monkeypatch, known(0, 100), fails=False, limit=limit)
    while stream.batch():
        pass
    stream.there = known(0, latest, "another")
    read = [offset for _ in range(9) for span in stream.batch() for offset in range(*span)]
    assert read == list(range(latest))
    assert stream.at == {NAME: latest}
    assert caplog.text.count("deleted and made anew while the stream ran") == 1


def test_a_topic_that_is_gone_is_a_loss_or_left_out_until_it_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strict = Looked(monkeypatch, known(0, 100), fails=True)
    strict.batch()
    strict.there = {}
    with pytest.raises(DataLost, match="orders-0 is gone, and the stream has read it up to offset"):
        strict.batch()
    lenient = Looked(monkeypatch, known(0, 100), fails=False)
    lenient.batch()
    lenient.there = {}
    assert lenient.batch() == []
    assert lenient.at == {}
    lenient.there = known(0, 120, "another")
    assert lenient.batch() == [(0, 120)]


def test_a_stream_waits_for_a_number_of_offsets_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Looked(monkeypatch, known(0, 1), fails=True)
    stream.reader._options = replace(
        OPTIONS, trigger_offsets_min=10, trigger_delay_max_ms=60_000, trigger_offsets_max=20
    )
    stream.reader._clock = clock = HandClock()
    assert stream.batch() == [(0, 1)]  # As Kafka's source: the first waits for nothing.
    stream.there = known(0, 10)
    assert stream.batch() == []
    stream.there = known(0, 11)
    assert stream.batch() == [(1, 11)]
    stream.there = known(0, 12)
    clock.seconds += 59
    assert stream.batch() == []
    clock.seconds += 1
    assert stream.batch() == [(11, 12)]
    stream.there = known(0, 99)
    assert stream.batch() == [(12, 32)]


def test_a_loss_is_believed_when_it_was_seen_more_than_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Looked(monkeypatch, known(0, 100), fails=True)
    stream.batch()
    looks = [known(0, 90), {}, known(0, 130)]
    monkeypatch.setattr(stream.reader, "_pinned", lambda _: looks.pop(0))
    stream.there = known(0, 130)
    assert stream.batch() == [(100, 130)]


async def test_a_topic_that_the_stream_has_read_may_lack_and_a_misspelt_one_may_not() -> None:
    _, found = await pinned_bucket()
    for words in ({"subscribe": "orders,gone"}, {"assign": '{"orders":[0,1],"gone":[0]}'}):
        given = {name: text for name, text in GIVEN.items() if name != "subscribe"}
        options = parse_options({**given, **words}, mode=Mode.STREAM)
        with pytest.raises(NotReadable, match="there is no topic gone"):
            await found.pin(options)
        seen = {PartitionName("gone", 0): 5}
        there = await found.pin(options, may_lack=streaming.may_lack(options, seen))
        assert {name.topic for name in there} == {"orders"}
        assert streaming.may_lack(options, {}) == frozenset()
        lenient = replace(options, fail_on_data_loss=False)
        assert streaming.may_lack(lenient, {}) == {"orders", "gone"}


@dataclass
class ReadMaxRows:
    max_rows: int


def as_spark_4_2(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What a reader finds there of `pyspark.sql.streaming.datasource`, in case it is not there."""
    if find_spec("pyspark.sql.streaming.datasource") is not None:
        return import_module("pyspark.sql.streaming.datasource")
    found = ModuleType("pyspark.sql.streaming.datasource")
    found.__spec__ = ModuleSpec(found.__name__, None)
    vars(found).update(
        ReadMaxRows=ReadMaxRows,
        ReadAllAvailable=type("ReadAllAvailable", (), {}),
        SupportsTriggerAvailableNow=type("SupportsTriggerAvailableNow", (), {}),
    )
    monkeypatch.setitem(sys.modules, found.__name__, found)
    monkeypatch.delitem(sys.modules, "tierlog.spark.admitting", raising=False)
    return found


def test_available_now_ends_where_it_began_in_as_many_batches_as_the_limit_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = as_spark_4_2(monkeypatch)
    reader = streaming.stream_reader(replace(OPTIONS, trigger_offsets_max=8), ["value"])
    there = [known(0, 20), known(0, 50)]
    monkeypatch.setattr(streaming.TierlogStreamReader, "_pinned", lambda *_: there[0])
    assert reader.getDefaultReadLimit() == words.ReadMaxRows(8)
    assert reader.reportLatestOffset() is None
    reader.prepareForTriggerAvailableNow()
    there.pop(0)
    at, steps = {"orders": {"0": 3}}, list[int]()
    while not steps or at["orders"]["0"] != steps[-1]:
        steps.append(at["orders"]["0"])
        at = reader.latestOffset(at, reader.getDefaultReadLimit())
    assert steps == [3, 11, 19, 20]
    assert reader.reportLatestOffset() == {"orders": {"0": 20}}
    assert reader.latestOffset({"orders": {"0": 3}}, words.ReadAllAvailable()) == at
    # Any other trigger goes on to what comes later.
    free = streaming.stream_reader(OPTIONS, ["value"])
    assert isinstance(free.getDefaultReadLimit(), words.ReadAllAvailable)
    assert free.latestOffset(at, words.ReadAllAvailable()) == {"orders": {"0": 50}}


class Deleting:
    """A broker's client: offsets below `start` are gone."""

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self.router = SimpleNamespace(attempt=self._attempt)

    async def _attempt(self, work: Any, **_: object) -> Any:
        return await work()

    async def fetch(self, topic: str, partition: int, offset: int, **_: object) -> Any:
        if not self._start <= offset <= self._end:
            return SimpleNamespace(error=ErrorCode.OFFSET_OUT_OF_RANGE, batches=b"")
        data = b"".join(three_batches()[offset // 3 :])
        return SimpleNamespace(error=ErrorCode.NONE, batches=data, high_watermark=self._end)

    async def list_offsets(self, topic: str, asked: dict[int, int]) -> Any:
        ends = {EARLIEST: self._start, LATEST: self._end}
        return {each: SimpleNamespace(offset=ends[sign]) for each, sign in asked.items()}


async def hot_offsets(client: Any, start: int, *, fails: bool) -> list[int]:
    one = HotSlice(name=NAME, start=start, end=9)
    found = hottail.batches_of(client, one, fail_on_data_loss=fails)
    return [header.base_offset async for header, _ in found]


async def test_a_hot_tail_that_was_deleted_while_it_was_read_is_a_loss_or_left_out() -> None:
    with pytest.raises(DataLost, match="failOnDataLoss=false goes on behind it"):
        await hot_offsets(Deleting(6, 9), 0, fails=True)
    assert await hot_offsets(Deleting(6, 9), 0, fails=False) == [6]
    assert await hot_offsets(Deleting(0, 9), 0, fails=True) == [0, 3, 6]
    assert await hot_offsets(Deleting(0, 3), 7, fails=False) == []


async def test_a_part_of_a_file_is_refused_for_its_own_dead_letters_alone(tmp_path: Any) -> None:
    one, two, three = three_batches()
    two[-1] ^= 1
    data = bytes(one + two + three)
    (tmp_path / "raw").write_bytes(data)
    wanted = range_of(b"".join(three_batches()))
    part = RawPart(path=str(tmp_path / "raw"), size=len(data), source="seg/0", wanted=wanted)
    about = About(
        topic="t", topic_id="i", partition=0, start=0, end=9, sources=(Source("seg/0", "0" * 64),)
    )
    plan = ConvertPlan(
        parts=(part,), out=f"{tmp_path}/out", dead_out=f"{tmp_path}/dead", about=about
    )
    made = plans.convert(LocalDisk(), plan)
    assert made.dead is not None
    store = MemoryStore(SystemClock())
    await store.put_if_absent("dead", BytesBody((tmp_path / "dead").read_bytes()))
    file = ParquetFile(key="k", start=0, end=9, rows=6, size=1, dead_records=3, dead_keys=("dead",))
    found = Pins(BucketView(store), None)
    for start, end in ((0, 3), (6, 9), (1, 2)):
        await found.check_dead(OPTIONS, [ParquetSlice(name=NAME, start=start, end=end, file=file)])
    for start, end in ((0, 9), (0, 4), (5, 9)):
        with pytest.raises(DataLost, match="3 records of orders-0"):
            await found.check_dead(
                OPTIONS, [ParquetSlice(name=NAME, start=start, end=end, file=file)]
            )


@pytest.mark.parametrize(("size", "warns"), [(300 << 20, True), (200 << 20, False)])
def test_one_task_that_reads_a_lot_says_why(
    caplog: pytest.LogCaptureFixture, size: int, warns: bool
) -> None:
    from tierlog.spark.source import warn_of_one_task

    file = ParquetFile(key="k", start=0, end=9, rows=9, size=size // 2)
    warn_of_one_task([ParquetSlice(name=NAME, start=0, end=9, file=file)] * 2)
    assert ("tierlog.spark.install(spark)" in caplog.text) is warns


def test_a_stream_warns_of_options_that_mean_nothing(caplog: pytest.LogCaptureFixture) -> None:
    more = {"kafka.group.id": "g", "kafka.fetch.min.bytes": "1"}
    options = parse_options({**GIVEN, **more}, mode=Mode.STREAM)
    with caplog.at_level(logging.WARNING):
        streaming.stream_reader(options, ["value"])
    assert [one.getMessage() for one in caplog.records] == [
        "options without a meaning here are ignored: kafka.fetch.min.bytes, kafka.group.id"
    ]
