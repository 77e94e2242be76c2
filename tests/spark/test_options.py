"""The options: those of Spark's Kafka source, with their precedence, defaults and errors."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.config import Address
from tierlog.spark.bounds import (
    Edge,
    Offsets,
    PartitionName,
    Time,
    Times,
    as_json,
    flattened,
    parse_offsets,
)
from tierlog.spark.errors import OptionRefused
from tierlog.spark.options import (
    IGNORED,
    OBEYED,
    REFUSED,
    Assign,
    Mode,
    ReadOptions,
    Subscribe,
    SubscribePattern,
    parse_options,
)

STORE = {"store": "file:///data/store"}
LEAST = {**STORE, "subscribe": "orders"}
ORDERS_0 = PartitionName("orders", 0)


def batch(**more: str) -> ReadOptions:
    return parse_options({**LEAST, **more}, mode=Mode.BATCH)


def stream(**more: str) -> ReadOptions:
    return parse_options({**LEAST, **more}, mode=Mode.STREAM)


def refused(given: dict[str, str], mode: Mode = Mode.BATCH) -> str:
    with pytest.raises(OptionRefused) as caught:
        parse_options(given, mode=mode)
    return str(caught.value)


def test_defaults_are_those_of_kafka() -> None:
    found = batch()
    assert (found.start, found.end) == (Edge.EARLIEST, Edge.LATEST)
    assert found.chosen == Subscribe(("orders",))
    assert found.fail_on_data_loss
    assert not found.include_headers
    assert not found.late_start_is_latest
    assert stream().start is Edge.LATEST


@given(st.sampled_from(OBEYED), st.randoms(use_true_random=False))
def test_names_have_no_case(name: str, random: object) -> None:
    texts = {
        "assign": '{"orders": [0]}',
        "subscribePattern": "or.*",
        "kafka.bootstrap.servers": "broker:9092",
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "startingOffsetsByTimestamp": '{"orders": {"0": 1}}',
        "endingOffsetsByTimestamp": '{"orders": {"0": 1}}',
        "startingOffsetsByTimestampStrategy": "latest",
        "store": "file:///data/store",
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "eu-central-1",
        "clusterId": "abc",
        "subscribe": "orders",
        "kafka.security.protocol": "plaintext",
        "maxTriggerDelay": "5m",
    }
    flags = {"failOnDataLoss", "includeHeaders", "includeLineage", "pushFilters"}
    text = texts.get(name, "true" if name in flags else "1")
    base = dict(STORE) if name in ("assign", "subscribePattern") else dict(LEAST)
    base.pop(name, None)
    spelt = "".join(random.choice((one.upper(), one.lower())) for one in name)  # type: ignore[attr-defined]
    assert parse_options({**base, spelt: text}, mode=Mode.BATCH) == parse_options(
        {**base, name: text}, mode=Mode.BATCH
    )


def test_a_time_goes_before_times_and_these_before_offsets() -> None:
    start = {
        "startingTimestamp": "1000",
        "startingOffsetsByTimestamp": '{"orders": {"0": 2000}}',
        "startingOffsets": '{"orders": {"0": 3}}',
    }
    assert batch(**start).start == Time(1000)
    del start["startingTimestamp"]
    assert batch(**start).start == Times({ORDERS_0: 2000})
    del start["startingOffsetsByTimestamp"]
    assert batch(**start).start == Offsets({ORDERS_0: 3})
    end = {name.replace("starting", "ending"): text for name, text in start.items()}
    assert batch(**end).end == Offsets({ORDERS_0: 3})
    assert batch(**end, endingTimestamp="7").end == Time(7)


def test_what_to_read_is_named_in_exactly_one_way() -> None:
    assert "exactly one of" in refused(STORE)
    assert "subscribe and subscribePattern" in refused({**LEAST, "subscribePattern": "o.*"})
    assert batch(subscribe=" a, b ,a").chosen == Subscribe(("a", "b"))
    found = parse_options({**STORE, "assign": '{"a": [1, 0]}'}, mode=Mode.BATCH)
    assert found.chosen == Assign({"a": (0, 1)})
    found = parse_options({**STORE, "subscribePattern": "o.*"}, mode=Mode.BATCH)
    assert found.chosen == SubscribePattern("o.*")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"zzz": "1"}, "docs/spark.md"),
        ({"path": "/x"}, "takes no path"),
        ({"subscribe": " , "}, "names no topic"),
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "of orders-0 cannot be latest"),
        ({"startingOffsets": "first"}, "write earliest"),
        ({"startingOffsets": "{"}, "must be JSON"),
        ({"startingOffsets": '{"orders": [0]}'}, "needs an object"),
        ({"startingOffsets": '{"orders": {"x": 0}}'}, "'x' is no partition"),
        ({"startingOffsets": '{"orders": {"0": 1.5}}'}, "not offsets"),
        ({"startingOffsets": '{"orders": {"0": true}}'}, "not offsets"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "not offsets"),
        ({"startingOffsets": '{"orders": {"0": 1, "0": 2}}'}, "stands twice"),
        ({"startingOffsets": "{}"}, "names no partition"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "of orders-0 cannot be earliest"),
        ({"startingTimestamp": "yesterday"}, "milliseconds"),
        ({"startingTimestamp": "-1"}, "milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "first"}, "error or latest"),
        ({"failOnDataLoss": "yes"}, "true or false"),
        ({"minPartitions": "0"}, "from 1 on"),
        ({"maxRecordsPerPartition": "-1"}, "from 1 on"),
        ({"kafka.bootstrap.servers": "broker"}, "HOST:PORT"),
        ({"kafka.bootstrap.servers": ""}, "names no broker"),
        ({"store": "/data"}, "file:///path or s3://"),
        ({"s3.endpoint": "127.0.0.1:9000"}, "must be a URL"),
        ({"minOffsetsPerTrigger": "0"}, "from 1 on"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_do(more: dict[str, str], says: str) -> None:
    assert says in refused({**LEAST, **more})


@pytest.mark.parametrize("name", ["endingTimestamp", "endingOffsets", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    assert "has no end" in refused({**LEAST, name: "1"}, Mode.STREAM)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_kafka_refuses_is_refused(name: str) -> None:
    assert "not supported" in refused({**LEAST, name.upper(): "x"})


@pytest.mark.parametrize("name", IGNORED)
def test_what_has_no_meaning_is_taken_and_told(name: str) -> None:
    assert batch(**{name.lower(): "7"}).ignored == (name,)


def test_every_setting_of_kafkas_consumer_has_an_answer() -> None:
    """Names as the jar of a client has them; what Spark's Kafka source takes is not "unknown"."""
    names = [
        "check.crcs",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "max.poll.interval.ms",
        "metric.reporters",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "retry.backoff.ms",
    ]
    found = batch(**{f"kafka.{name}": "1" for name in names})
    assert found.ignored == tuple(sorted(f"kafka.{name}" for name in names))


def test_plain_text_is_what_there_is() -> None:
    name = "kafka.security.protocol"
    assert batch(**{name: "plaintext"}).ignored == ()
    for protocol in ("SSL", "SASL_SSL", "SASL_PLAINTEXT"):
        said = refused({**LEAST, name: protocol})
        assert f"{name} cannot be '{protocol}': brokers are asked in plain text" in said


@pytest.mark.parametrize(
    "name",
    ["sasl.jaas.config", "sasl.mechanism", "ssl.truststore.location", "security.providers"],
)
def test_what_would_need_security_is_refused_by_name_with_the_reason(name: str) -> None:
    said = refused({**LEAST, f"kafka.{name}": "x"})
    assert f"kafka.{name} is not supported: brokers are asked in plain text" in said


def test_a_misspelt_setting_of_kafka_is_refused_with_the_nearest_name() -> None:
    said = refused({**LEAST, "kafka.fetch.min.byte": "1"})
    assert said == "there is no option kafka.fetch.min.byte; did you mean kafka.fetch.min.bytes?"


def test_a_stream_may_wait_for_a_number_of_offsets() -> None:
    found = stream(minOffsetsPerTrigger="100", maxOffsetsPerTrigger="200", maxTriggerDelay="5m")
    assert (found.trigger_offsets_min, found.trigger_delay_max_ms) == (100, 300_000)
    assert stream(minOffsetsPerTrigger="100").trigger_delay_max_ms == 900_000
    more = {"minOffsetsPerTrigger": "100", "maxOffsetsPerTrigger": "50"}
    assert "minOffsetsPerTrigger is 100, more than" in refused({**LEAST, **more}, Mode.STREAM)
    assert batch(minOffsetsPerTrigger="100").ignored == ("minOffsetsPerTrigger",)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1500", 1500), ("20ms", 20), ("3 s", 3000), ("2min", 120_000), ("1H", 3_600_000)],
)
def test_durations_are_written_as_spark_writes_them(text: str, ms: int) -> None:
    assert stream(maxTriggerDelay=text).trigger_delay_max_ms == ms


@pytest.mark.parametrize("text", ["", "soon", "1.5h", "-1s", "5 weeks"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    assert "as 500ms, 30s, 15m" in refused({**LEAST, "maxTriggerDelay": text}, Mode.STREAM)


def test_the_same_option_twice_is_refused_unless_it_says_the_same() -> None:
    assert batch(FAILONDATALOSS="false", failOnDataLoss="false").fail_on_data_loss is False
    assert "given twice" in refused({**LEAST, "FAILONDATALOSS": "false", "failOnDataLoss": "true"})


def test_offsets_name_what_is_assigned() -> None:
    assigned = {**STORE, "assign": '{"orders": [0, 1]}'}
    assert "differ in orders-1" in refused({**assigned, "startingOffsets": '{"orders": {"0": 1}}'})


def test_brokers_and_the_store_of_the_session() -> None:
    found = parse_options(
        {"subscribe": "orders", "kafka.bootstrap.servers": "a:1, b:2"},
        mode=Mode.STREAM,
        default_store="s3://bucket/prefix",
    )
    assert found.brokers == (Address("a", 1), Address("b", 2))
    assert found.store == "s3://bucket/prefix"
    assert "spark.tierlog.store" in refused({"subscribe": "orders"})


def test_a_refusal_outlives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(OptionRefused("store", "a sentence")))
    assert (copy.option, str(copy)) == ("store", "a sentence")


names = st.builds(PartitionName, st.text("abc.-_", min_size=1, max_size=5), st.integers(0, 99))


@given(st.dictionaries(names, st.integers(0, 2**63 - 1), min_size=1))
def test_offsets_have_the_shape_of_kafka(offsets: dict[PartitionName, int]) -> None:
    text = as_json(offsets)
    assert parse_offsets("startingOffsets", text).by == offsets
    assert flattened(json.loads(text)) == offsets
