"""The jobs: verify finds what was changed, replay keeps everything and goes on where it ended."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tierlog.spark
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.spark import topics
from tests.spark.converting import convert_share
from tests.spark.session import MARKS
from tierlog.cold.audit import Kind
from tierlog.config import Address
from tierlog.records.attributes import Codec
from tierlog.spark import converting, replaying, resuming
from tierlog.spark.bounds import PartitionName
from tierlog.spark.converting import convert
from tierlog.spark.errors import NotReadable
from tierlog.spark.options import Mode, parse_options
from tierlog.spark.reading import plan
from tierlog.spark.replaying import replay
from tierlog.spark.resuming import SOURCE_HEADER
from tierlog.spark.stores import StorePlace, with_store
from tierlog.spark.verifying import verify
from tierlog.table.settings import TableSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = MARKS
TOPIC = "jobs"


@pytest.fixture(scope="module")
def store(node: RunningNode) -> str:
    """20 records in each of two partitions cold, 4 more hot."""

    def batch(number: int) -> topics.Written:
        records = tuple(
            (b"k%d" % (each % 2), b"v" * 200, (("h", None),), 1_700_000_000_000 + number)
            for each in range(4)
        )
        return topics.Written(number % 2, list(Codec)[number % 5], records)

    topic = topics.Topic(
        2,
        tuple(map(batch, range(10))),
        tuple(map(batch, range(10, 12))),
        log_append_time=False,
        converted_share=0,
    )
    topics.make(node, TOPIC, topic)
    return f"file://{node.data}-store"


def address(node: RunningNode) -> Address:
    host, port = node.address.split(":")
    return Address(host, int(port))


def objects(node: RunningNode, store: str, pattern: str) -> list[Path]:
    """Of partition 0, as files."""
    place = f"*/t/{node.topic_id(TOPIC)}/0/{pattern}"
    return sorted(Path(store.removeprefix("file://")).glob(place))


def test_verify_reads_everything_and_finds_a_changed_byte(
    spark: "SparkSession", node: RunningNode, store: str
) -> None:
    seen: list[tuple[int, int]] = []
    report = verify(
        spark,
        StorePlace(url=store),
        topics=[TOPIC],
        watcher=lambda done, total: seen.append((done, total)),
    )
    assert report.is_sound
    assert report.partitions == 2
    assert report.segments >= 4
    assert seen[-1] == (report.bytes, report.bytes)
    mine = objects(node, store, "seg/*.seg")[0]
    sound = mine.read_bytes()
    try:
        mine.write_bytes(sound[:100] + bytes([sound[100] ^ 1]) + sound[101:])
        (finding,) = verify(spark, StorePlace(url=store), topics=[TOPIC]).findings
    finally:
        mine.write_bytes(sound)
    assert finding.kind is Kind.OBJECT_WRONG
    assert (finding.topic, finding.partition, finding.start) == (TOPIC, 0, 0)
    with pytest.raises(NotReadable, match="there is no topic nothing"):
        verify(spark, StorePlace(url=store), topics=["nothing"])


def source(store: str, node: RunningNode, **more: str) -> Any:
    given = {"store": store, "subscribe": TOPIC, "kafka.bootstrap.servers": node.address, **more}
    return parse_options(given, mode=Mode.BATCH)


def test_a_replay_keeps_everything_and_goes_on_where_it_ended(
    spark: "SparkSession", node: RunningNode, store: str
) -> None:
    Confluent().admin(node.address).create("replayed", 2)
    before = topics.consumed(node, TOPIC)
    options = source(store, node)
    # An earlier run that was ended half way: partition 0 has records up to offset 5.
    topics.write(node, "replayed", [half(options, 6)])
    found = replay(spark, options, target="replayed", brokers=[address(node)])
    assert [(one.name.partition, one.records, one.resumed_at) for one in found] == [
        (0, 18, 6),
        (1, 24, None),
    ]
    again = replay(spark, options, target="replayed", brokers=[address(node)])
    assert [one.records for one in again] == [0, 0]
    after = topics.consumed(node, "replayed")
    assert [without_source(one) for one in after if one.partition == 1] == [
        one for one in before if one.partition == 1
    ]
    assert [without_source(one)[2:] for one in after[6:24]] == [one[2:] for one in before[6:24]]
    names = [dict(one.headers)[SOURCE_HEADER] or b"" for one in after if one.partition == 1]
    assert [one.rpartition(b"/")[0] for one in names] == [b"jobs/1/%d" % at for at in range(24)]


def half(options: Any, count: int) -> topics.Written:
    run = replaying.run_of(options.start, options.end, None)
    return topics.Written(
        0,
        Codec.NONE,
        tuple(
            (None, None, ((SOURCE_HEADER, b"jobs/0/%d/%s" % (at, run.encode())),), 5)
            for at in range(count)
        ),
    )


def without_source(one: topics.Seen) -> topics.Seen:
    headers = tuple(pair for pair in one.headers if pair[0] != SOURCE_HEADER)
    return one._replace(headers=headers)


def test_a_replay_by_key_is_a_run_of_its_own(
    spark: "SparkSession", node: RunningNode, store: str
) -> None:
    Confluent().admin(node.address).create("by-key", 2)
    brokers = [address(node)]
    for key, due in ((b"k1", [12, 12]), (b"k0", [12, 12]), (b"k1", [0, 0])):
        found = replay(spark, source(store, node), target="by-key", brokers=brokers, keys=[key])
        assert [one.records for one in found] == due
    keys = [one.key for one in topics.consumed(node, "by-key") if one.partition == 0]
    assert keys == [b"k1"] * 12 + [b"k0"] * 12


def test_a_replay_needs_a_target_that_fits(
    spark: "SparkSession", node: RunningNode, store: str
) -> None:
    Confluent().admin(node.address).create("narrow", 1)
    for target, says in (
        ("narrow", "jobs-1 keeps its number"),
        ("nowhere", "create it first"),
        (TOPIC, "into itself"),
    ):
        with pytest.raises(NotReadable, match=says):
            replay(spark, source(store, node), target=target, brokers=[address(node)])


@pytest.mark.parametrize(
    "value", [b"jobs/0/7", b"other/0/7/r", b"jobs/1/7/r", b"jobs/0/x/r", b"\xff", b"jobs/0/7/s"]
)
def test_a_header_of_others_says_nothing(value: bytes) -> None:
    name = PartitionName("jobs", 0)
    assert resuming.source_offset(value, name, "r") is None
    assert resuming.source_offset(b"jobs/0/7/r", name, "r") == 7


def test_convert_lists_what_its_tasks_made_and_ends_when_all_is_done(
    spark: "SparkSession", node: RunningNode, store: str
) -> None:
    rows = topics.consumed(node, TOPIC)
    place = StorePlace(url=store)
    half_way = convert_share(spark, store, TOPIC, rows, 0.5)
    assert 0 < half_way.rows < 40
    planned = plan(source(store, node))
    assert planned.cost().boundary_files == 0
    assert planned.cost().parquet_files == half_way.files
    seen: list[tuple[int, int]] = []
    rest = convert(
        spark, place, topics=[TOPIC], watcher=lambda done, total: seen.append((done, total))
    )
    assert half_way.rows + rest.rows == 40
    assert seen[-1] == (rest.read_bytes, rest.read_bytes)
    assert convert(spark, place, topics=[TOPIC]).files == 0
    assert plan(source(store, node)).cost().raw_segments == 0
    broker: dict[str, Any] = {"kafka.bootstrap.servers": node.address}
    frame = tierlog.spark.read(spark, store=store, topic=TOPIC, includeHeaders=True, **broker)
    assert topics.collected(frame) == rows
    assert len(frame.inputFiles()) == half_way.files + rest.files
    report = verify(spark, place, topics=[TOPIC])
    assert report.is_sound
    assert report.files == half_way.files + rest.files
    file = objects(node, store, "pq/*.parquet")[0]
    sound = file.read_bytes()
    try:
        file.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        (finding,) = verify(spark, place, topics=[TOPIC]).findings
    finally:
        file.write_bytes(sound)
    assert finding.kind is Kind.FILE_WRONG
    assert finding.key.endswith(file.name)


def test_a_file_that_somebody_else_was_quicker_with_is_not_listed(
    spark: "SparkSession", node: RunningNode
) -> None:
    batch = topics.Written(0, Codec.NONE, ((b"k", b"v" * 600, (), 1_700_000_000_000),) * 2)
    topic = topics.Topic(1, (batch,) * 6, (), log_append_time=False, converted_share=0)
    topics.make(node, "twice", topic)
    store = f"file://{node.data}-store"
    place = StorePlace(url=store)
    settings = TableSettings(convert_segments_max=2)
    look = partial(converting._planned, None, ["twice"], until=None, settings=settings, losses={})
    late = with_store(place, look)
    assert len(late) >= 2
    made = [(task, converting.made_by(place, task)) for task in late]
    convert(spark, place, topics=["twice"], settings=TableSettings(convert_segments_max=1))
    assert with_store(place, partial(converting._listed, made, beaten=set())) == []
    rows = topics.consumed(node, "twice")
    found = tierlog.spark.read(spark, store=store, topic="twice", includeHeaders=True)
    assert topics.collected(found) == rows
    assert len(rows) == 12


def test_convert_goes_on_behind_a_segment_that_is_not_there(
    spark: "SparkSession", node: RunningNode
) -> None:
    batch = topics.Written(0, Codec.NONE, ((b"k", b"v" * 600, (), 1_700_000_000_000),) * 2)
    topic = topics.Topic(1, (batch,) * 6, (), log_append_time=False, converted_share=0)
    topics.make(node, "holed", topic)
    store = f"file://{node.data}-store"
    rows = topics.consumed(node, "holed")
    folder = Path(f"{node.data}-store").glob(f"*/t/{node.topic_id('holed')}/0/seg/*.seg")
    lost = sorted(folder)[2]
    first, last = (int(digits) for digits in lost.name.split("-")[:2])
    lost.unlink()
    report = convert(
        spark,
        StorePlace(url=store),
        topics=["holed"],
        settings=TableSettings(convert_segments_max=2),
    )
    assert (report.rows, report.dead_records) == (12 - (last - first + 1), last - first + 1)
    found = tierlog.spark.read(
        spark, store=store, topic="holed", includeHeaders=True, failOnDataLoss=False
    )
    assert topics.collected(found) == [one for one in rows if not first <= one.offset <= last]
    assert convert(spark, StorePlace(url=store), topics=["holed"]).files == 0
