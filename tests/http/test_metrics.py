"""What a node did is what its metrics say."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest
from prometheus_client import Metric, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.http.metrics_page import process
from tests.http.nodes import RunningNode, Samples, of, running, settings
from tests.http.support import until
from tierlog.broker.partition import Partition
from tierlog.broker.stats import Histogram
from tierlog.broker.topics import Topic
from tierlog.client import BrokerError, NewRecord
from tierlog.env import local_env
from tierlog.http.exposition import READINGS_A_TURN, Exposition
from tierlog.http.families import FAMILIES
from tierlog.http.family import Family
from tierlog.http.metrics import histogram_lines, text_of
from tierlog.http.readings import api_name, snake
from tierlog.sim import SimWorld, simulate
from tierlog.types import LeaderEpoch


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running(local_env(), settings(str(tmp_path / "data"))) as node:
        yield node


async def produce_and_fetch(node: RunningNode, topic: str, *, times: int) -> tuple[int, int]:
    """Bytes in, bytes out."""
    got = 0
    async with node.client() as client:
        for number in range(times):
            await client.produce(topic, 0, [NewRecord(b"a" * 100), NewRecord(b"b")])
            fetched = await client.fetch(topic, 0, 2 * number)
            got += len(fetched.batches)
    return node.node.topics.named(topic).stats.bytes_in, got


# Against a running node


@pytest.mark.parametrize("openmetrics", [False, True])
async def test_a_produce_and_a_fetch_are_counted(node: RunningNode, openmetrics: bool) -> None:
    await node.create("one")
    await node.create("two", partitions=3)
    bytes_in, bytes_out = await produce_and_fetch(node, "one", times=5)
    samples = await node.samples(openmetrics=openmetrics)
    assert bytes_in == bytes_out > 500
    assert of(samples, "tierlog_topic_produced_bytes_total", topic="one") == bytes_in
    assert of(samples, "tierlog_topic_produced_records_total", topic="one") == 10
    assert of(samples, "tierlog_topic_fetched_bytes_total", topic="one") == bytes_out
    assert of(samples, "tierlog_topic_produce_requests_total", topic="one") == 5
    assert of(samples, "tierlog_topic_fetch_requests_total", topic="one") == 5
    assert of(samples, "tierlog_topic_log_bytes", topic="one") == bytes_in
    assert of(samples, "tierlog_topic_produced_bytes_total", topic="two") == 0
    assert of(samples, "tierlog_topic_partitions", topic="two") == 3
    assert of(samples, "tierlog_topic_segments", topic="two") == 3
    assert of(samples, "tierlog_produced_bytes_total") == bytes_in
    assert of(samples, "tierlog_produced_records_total") == 10
    assert of(samples, "tierlog_fetched_bytes_total") == bytes_out
    assert (of(samples, "tierlog_topics"), of(samples, "tierlog_partitions")) == (2, 4)


async def test_requests_have_counts_and_latencies_by_api(node: RunningNode) -> None:
    await node.create("one")
    await produce_and_fetch(node, "one", times=4)
    samples = await node.samples()
    for api in ("Produce", "Fetch"):
        assert of(samples, "tierlog_requests_total", api=api) == 4
        assert of(samples, "tierlog_request_seconds_count", api=api) == 4
        assert of(samples, "tierlog_request_seconds_bucket", api=api, le="+Inf") == 4
        assert 0 < of(samples, "tierlog_request_seconds_sum", api=api) < 60
        assert of(samples, "tierlog_request_errors_total", api=api) == 0
    assert of(samples, "tierlog_requests_total", api="ListOffsets") == 0


async def test_connections_and_their_bytes_are_counted(node: RunningNode) -> None:
    await node.create("one")
    async with node.client() as client:
        await client.produce("one", 0, [NewRecord(b"v" * 1000)])
        during = await node.samples()
        assert of(during, "tierlog_connections") >= 1
        assert of(during, "tierlog_connections_accepted_total") >= 1
        assert of(during, "tierlog_received_bytes_total") > 1000
        assert of(during, "tierlog_sent_bytes_total") > 0
        assert of(during, "tierlog_in_flight_bytes_max") > 0
    await until(lambda: not node.server.listener.connections)
    after = await node.samples()
    assert of(after, "tierlog_connections") == 0
    assert of(after, "tierlog_in_flight_bytes") == 0
    assert of(after, "tierlog_connections_closed_total", reason="bad_frame") == 0


async def test_a_connection_that_is_no_kafka_client_is_counted_by_reason(
    node: RunningNode,
) -> None:
    reader, writer = await asyncio.open_connection(*node.kafka)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
    samples = await node.samples()
    assert of(samples, "tierlog_connections_closed_total", reason="bad_frame") == 1


async def test_syncs_are_timed_and_the_loop_is_watched(node: RunningNode) -> None:
    await node.create("one")
    await produce_and_fetch(node, "one", times=3)
    lag = node.node.stats.loop_lag
    await until(lambda: lag.count)
    samples = await node.samples()
    assert of(samples, "tierlog_sync_seconds_count") >= 3
    assert of(samples, "tierlog_sync_seconds_sum") > 0
    assert of(samples, "tierlog_loop_lag_seconds_count") >= 1
    assert of(samples, "tierlog_pending_syncs") == 0


async def test_refusals_are_counted_by_reason(node: RunningNode) -> None:
    await node.create("one")
    async with node.client() as client:
        with pytest.raises(BrokerError):
            await client.produce("one", 0, [NewRecord(b"x" * 2_000_000)])
    samples = await node.samples()
    assert of(samples, "tierlog_produce_refusals_total", reason="batch_too_large") == 1
    assert of(samples, "tierlog_topic_produce_errors_total", topic="one") == 1


async def test_the_disk_and_the_node_are_described(node: RunningNode) -> None:
    samples = await node.samples()
    free, total = of(samples, "tierlog_disk_free_bytes"), of(samples, "tierlog_disk_total_bytes")
    assert 0 < free <= total
    refuse = of(samples, "tierlog_disk_refuse_below_bytes")
    assert 0 < refuse <= of(samples, "tierlog_disk_throttle_below_bytes")
    cluster = node.node.cluster_id
    assert of(samples, "tierlog_node_info", node_id="1", cluster_id=cluster) == 1
    assert of(samples, "tierlog_build_info", version=node.server.view.version) == 1
    assert (of(samples, "tierlog_ready"), of(samples, "tierlog_log_directory_broken")) == (1, 0)
    assert of(samples, "process_resident_memory_bytes") > 1 << 20
    assert of(samples, "process_cpu_seconds_total") > 0


async def test_totals_outlive_the_topics_they_came_from(node: RunningNode) -> None:
    await node.create("one")
    bytes_in, _ = await produce_and_fetch(node, "one", times=2)
    await node.node.controller.delete(node.node.topics.named("one"))
    samples = await node.samples()
    assert ("tierlog_topic_log_bytes", frozenset({("topic", "one")})) not in samples
    assert of(samples, "tierlog_produced_bytes_total") == bytes_in
    assert of(samples, "tierlog_produced_records_total") == 4


@pytest.mark.parametrize("openmetrics", [False, True])
async def test_every_family_is_exposed_and_no_other(node: RunningNode, openmetrics: bool) -> None:
    kind = "application/openmetrics-text" if openmetrics else "*/*"
    text = (await node.get("/metrics", Accept=kind)).body.decode()
    told = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    wanted = {family.name for family in FAMILIES}
    wanted |= {f"{one.name}_total" if one.type == "counter" else one.name for one in process()}
    if openmetrics:
        wanted = {name.removesuffix("_total") for name in wanted}
    assert told == wanted
    assert text.count("# HELP") == len(wanted)
    assert text.endswith("# EOF\n") is openmetrics
    assert text.count("# EOF") == openmetrics


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text;version=junk", ",;,=", "x" * 5000, "text/plain;q"]
)
async def test_an_odd_accept_header_gets_one_of_the_two_formats(
    node: RunningNode, accept: str
) -> None:
    answer = await node.get("/metrics", Accept=accept)
    assert answer.status == 200
    assert b"tierlog_ready 1.0" in answer.body


# In the simulated world


def counters(samples: Samples) -> Samples:
    rising = ("_total", "_count", "_bucket", "_sum")
    return {key: value for key, value in samples.items() if key[0].endswith(rising)}


@pytest.mark.parametrize("seed", range(3))
def test_counters_only_rise(seed: int) -> None:
    async def scenario(world: SimWorld) -> None:
        env = world.env("node")

        async def work() -> None:
            async with running(env, settings("/data", host="node")) as node:
                await node.create("one")
                before: Samples = {}
                for _ in range(4):
                    await produce_and_fetch(node, "one", times=2)
                    now = counters(await node.samples())
                    own = {key: value for key, value in now.items() if key[0][:8] == "tierlog_"}
                    assert before.keys() <= own.keys()
                    assert all(own[key] >= value for key, value in before.items())
                    assert own != before
                    before = own

        await world.start("node", work(), what="node")

    simulate(scenario, seed=seed)


# The parts


def test_histograms_are_told_cumulatively() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.0625, 0.1, 0.5, 2.0):
        histogram.note(value)
    assert list(histogram_lines("x", "", histogram)) == [
        'x_bucket{le="0.1"} 2.0\n',
        'x_bucket{le="1.0"} 3.0\n',
        'x_bucket{le="+Inf"} 4.0\n',
        "x_count 4.0\n",
        "x_sum 2.6625\n",
    ]


@pytest.mark.parametrize("parse", [parse_text, parse_openmetrics], ids=["text", "openmetrics"])
def test_a_line_is_read_back_as_it_was_meant(parse: Callable[[str], Iterable[Metric]]) -> None:
    for number in (0, 1, 0.1, 2**53, 1e300, 123456789.25):
        family = Family("x", "gauge", "Any.", lambda _: (), ("a", "b"))
        odd = 'back\\slash "quoted"\nline \u00e4'
        text = "# TYPE x gauge\n" + text_of(family, ((odd, ""), number)) + "# EOF\n"
        ((sample,),) = [one.samples for one in parse(text)]
        assert (sample.name, sample.labels, sample.value) == ("x", {"a": odd, "b": ""}, number)


def test_names_of_apis_and_reasons_are_those_people_know() -> None:
    assert api_name(2) == "ListOffsets"
    assert snake("BatchTooLarge") == "batch_too_large"


def seconds_of_plain_lines(count: int) -> float:
    """What so many samples cost that are nothing but text, on this machine, now."""
    began = time.thread_time()
    "\n".join(f'family{{topic="topic-{number}"}} {number}.0' for number in range(count)).encode()
    return time.thread_time() - began


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text"])
async def test_a_scrape_of_a_thousand_topics_is_cheap_and_lets_the_loop_turn(
    node: RunningNode, accept: str
) -> None:
    await node.create("topic-0")
    with_topics(node, count=1000)
    spent, plain = [], []
    for _ in range(5):
        began = time.thread_time()
        body = (await node.get("/metrics", Accept=accept)).body
        spent.append(time.thread_time() - began)
        plain.append(seconds_of_plain_lines(14 * 1000))
    ratio = min(spent) / min(plain)
    print(f"\nscrape of 1,000 topics: {min(spent) * 1000:.0f} ms CPU, {ratio:.1f} x plain lines")
    assert body.count(b'topic="topic-') == 14 * 1000
    assert ratio < 32, "0.1 s on a machine without neighbours"
    pieces = Exposition(node.server.view).pieces(generate_latest)
    turns = max(piece.count(b'topic="') for piece in pieces)
    assert 0 < turns <= READINGS_A_TURN
    without_topics(node)


def with_topics(node: RunningNode, *, count: int) -> None:
    """Topics that share one log and its uploads: the scrape does not know."""
    first = node.node.topics.named("topic-0")
    log = first.partitions[0].log
    assert node.node.tiering is not None
    tiered = node.node.tiering.tier.partitions
    for number in range(1, count):
        topic = Topic(
            f"topic-{number}", number.to_bytes(16, "big"), overrides={}, config=first.config
        )
        topic.partitions.append(Partition(topic, 0, log, leader_epoch=LeaderEpoch(0)))
        node.node.topics.add(topic)
        tiered[topic.id.hex(), 0] = tiered[first.id.hex(), 0]


def without_topics(node: RunningNode) -> None:
    assert node.node.tiering is not None
    for topic in list(node.node.topics)[1:]:
        node.node.topics.remove(topic)
        del node.node.tiering.tier.partitions[topic.id.hex(), 0]
