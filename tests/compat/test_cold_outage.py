"""A store that goes away under load from real clients: ended and started again, stopped in the
middle of what it does, or turning away every second request.

A producer and a consumer of librdkafka go on through all of it, and another client writes and reads
a topic of its own in the middle: what was acked is there, once, in order, and hot traffic waits for
nobody. The node is restarted while the store is away, and a partition whose log was lost with it
opens when the store is back.
"""

import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tests.compat.cold import (
    MARKS,
    create,
    create_cold,
    eventually,
    fetch_once,
    place_of,
    wait_cold,
)
from tests.compat.conftest import available
from tests.compat.drivers.base import Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.drivers.kafka_python import KafkaPython
from tests.compat.node import RunningNode, port_to_keep
from tests.compat.samples import read, write
from tests.compat.test_cold_kills import TOPIC, Reader, Writer, under_load
from tests.stores.front import throttling
from tests.stores.servers import Server, minio, paused
from tierlog.wire.error_codes import ErrorCode

pytestmark = MARKS

LOST = "lost"
HOT = "hot"
MORE = 150
"""Records that are acked and read in the outage: some seconds' worth."""


def test_a_store_that_is_ended_and_started_again_costs_nothing_and_holds_up_nobody(
    tmp_path: Path,
) -> None:
    port, data = port_to_keep(), tmp_path / "minio"
    data.mkdir()
    with ExitStack() as stack:
        with minio(data, port) as server:
            place = place_of(server, prefix="ended")
            node = stack.enter_context(place.running(tmp_path))
            prepare(node)
            writer, reader = stack.enter_context(under_load(node.address))
            until_uploaded(node, beyond=0)
        hot_traffic_goes_on(node, writer, round_=1)
        lose_a_log_and_restart(node)
        assert fetch_once(node.address, LOST, 0).error is ErrorCode.KAFKA_STORAGE_ERROR
        hot_traffic_goes_on(node, writer, round_=2)
        uploaded = node.partitions(TOPIC)[0]["uploaded_end"]
        with minio(data, port):
            until_uploaded(node, beyond=uploaded)
            values = [one.value for one in read(Confluent(), node.address, LOST, 20)]
            assert values == [one.value for one in some(20)]
            check_all(node, writer, reader)


def test_a_store_that_stands_still_for_a_while_costs_nothing_and_holds_up_nobody(
    minio_server: Server, tmp_path: Path
) -> None:
    with place_of(minio_server, prefix="still").running(tmp_path) as node:
        prepare(node)
        with under_load(node.address) as (writer, reader):
            until_uploaded(node, beyond=0)
            with paused(minio_server):
                hot_traffic_goes_on(node, writer, round_=1)
                uploaded = node.partitions(TOPIC)[0]["uploaded_end"]
            until_uploaded(node, beyond=uploaded)
            check_all(node, writer, reader)


def test_a_store_that_turns_away_every_second_request_is_slow_and_no_more(
    minio_server: Server, tmp_path: Path
) -> None:
    with throttling(minio_server) as front:
        behind = replace(minio_server, endpoint=front.endpoint)
        with place_of(behind, prefix="throttled").running(tmp_path) as node:
            prepare(node)
            with under_load(node.address) as (writer, reader):
                until_uploaded(node, beyond=0)
                front.is_throttling = True
                hot_traffic_goes_on(node, writer, round_=1)
                node.kill()
                node.start()
                until_uploaded(node, beyond=node.partitions(TOPIC)[0]["uploaded_end"])
                assert front.refused > 10
                front.is_throttling = False
                check_all(node, writer, reader)


def some(count: int) -> list[Record]:
    return [Record(value=b"%d" % number * 50) for number in range(count)]


def prepare(node: RunningNode) -> None:
    create_cold(node.address, TOPIC, segment_bytes="65536")
    create(node.address, HOT)
    create_cold(node.address, LOST)
    write(Confluent(), node.address, LOST, some(20), Sending())
    wait_cold(node, LOST)


def until_uploaded(node: RunningNode, *, beyond: int) -> None:
    eventually(
        lambda: node.partitions(TOPIC)[0]["uploaded_end"] > beyond, f"more than {beyond} uploaded"
    )


def hot_traffic_goes_on(node: RunningNode, writer: Writer, *, round_: int) -> None:
    """Of the client that writes all the time, and of one that comes just now."""
    acked = len(writer.acked)
    eventually(lambda: len(writer.acked) >= acked + MORE, "more is acked", patience_s=20)
    client = available(KafkaPython())
    records = [replace(one, key=b"%d" % round_) for one in some(20)]
    write(client, node.address, HOT, records, Sending())
    found = read(client, node.address, HOT, 20, offset=20 * (round_ - 1))
    assert [one.without_place() for one in found] == records


def lose_a_log_and_restart(node: RunningNode) -> None:
    """The log of a partition that is all in the store, by an accident of its disk."""
    topic_id = node.topic_id(LOST)
    node.kill()
    directories = [one for one in (node.data / "log").iterdir() if one.is_dir()]
    (gone,) = [one for one in directories if topic_id in one.name]
    shutil.rmtree(gone)
    node.start()


def check_all(node: RunningNode, writer: Writer, reader: Reader) -> None:
    writer.end()
    assert not writer.failed
    end = max(writer.acked) + 1
    assert sorted(writer.acked) == list(range(end))
    wanted = [writer.acked[offset] for offset in range(end)]
    assert reader.end(end) == wanted
    wait_cold(node, TOPIC)
    again = read(Confluent(), node.address, TOPIC, end)
    assert [one.offset for one in again] == list(range(end))
    assert [one.value for one in again] == wanted
