"""Retention of what is in the store, with a real client: the beginning moves, what lies below is
out of range, its objects go after their grace, and a restore knows it."""

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.cli.served import run
from tests.compat.cold import (
    MARKS,
    PATIENCE_S,
    Place,
    create_cold,
    eventually,
    fetch_once,
    place_of,
    wait_cold,
)
from tests.compat.drivers.base import Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.compat.samples import read, write
from tests.stores.servers import BUCKET, Server
from tierlog.wire.error_codes import ErrorCode

pytestmark = MARKS

TOPIC = "expiring"
OLD = [Record(value=b"old %d " % number * 20) for number in range(60)]
NEW = [Record(value=b"new %d " % number * 20) for number in range(10)]
SETS = ["tierlog.garbage.grace.ms=500"]


class Shelf:
    """The objects of a store, by whoever keeps them."""

    def __init__(self, folder: Path, server: Server | None) -> None:
        self._folder = folder / "data-store"
        self._server = server

    def keys(self, part: str) -> list[str]:
        if self._server is None:
            found = [str(one) for one in self._folder.rglob("*") if one.is_file()]
        else:
            client = self._server.client()
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=TOPIC)
            found = [one["Key"] for page in pages for one in page.get("Contents", ())]
        return [key for key in found if f"/{part}/" in key]


def earliest(server: str) -> int:
    consumer = Consumer({"bootstrap.servers": server, "group.id": "unused", "log_level": 0})
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=PATIENCE_S)
        return int(low)
    finally:
        consumer.close()


def write_cold(node: RunningNode) -> None:
    """Several segments: a batch is in one, whatever their size."""
    for start in range(0, len(OLD), 10):
        write(Confluent(), node.address, TOPIC, OLD[start : start + 10], Sending())
        wait_cold(node, TOPIC)


@pytest.fixture(params=["folder", "minio"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Place, Shelf]:
    if request.param == "folder":
        return Place(name="folder"), Shelf(tmp_path, None)
    server = request.getfixturevalue("minio_server")
    return place_of(server, prefix=TOPIC), Shelf(tmp_path, server)


def test_the_beginning_moves_and_objects_go_and_a_restore_begins_there(
    kept: tuple[Place, Shelf], tmp_path: Path
) -> None:
    place, shelf = kept
    with place.running(tmp_path, sets=SETS) as node:
        create_cold(node.address, TOPIC)
        write_cold(node)
        assert len(shelf.keys("seg")) > 1
        admin = Confluent().admin(node.address)
        admin.alter(TOPIC, retention_ms="100")
        eventually(lambda: earliest(node.address) == len(OLD), "the beginning moves")
        assert fetch_once(node.address, TOPIC, 0).error == ErrorCode.OFFSET_OUT_OF_RANGE
        eventually(lambda: not shelf.keys("seg"), "the objects are gone")
        eventually(lambda: bool(shelf.keys("receipt")), "a receipt says so")
        admin.alter(TOPIC, retention_ms="-1")
        write(Confluent(), node.address, TOPIC, NEW, Sending())
        found = read(Confluent(), node.address, TOPIC, len(NEW), offset=len(OLD))
        assert [one.value for one in found] == [one.value for one in NEW]
        wait_cold(node, TOPIC)
    shutil.rmtree(tmp_path / "data")
    url = place.url or f"file://{tmp_path}/data-store"
    sets = [word for one in place.sets for word in ("--set", one)]
    words = ["restore", "--store", url, "--data", "data", *sets]
    ended = run(*words, cwd=tmp_path, environment=place.environment)
    assert ended.code == 0, ended.err
    with place.running(tmp_path, sets=SETS) as node:
        assert earliest(node.address) == len(OLD)
        assert fetch_once(node.address, TOPIC, 0).error == ErrorCode.OFFSET_OUT_OF_RANGE
        found = read(Confluent(), node.address, TOPIC, len(NEW), offset=len(OLD))
        assert [(one.offset, one.value) for one in found] == [
            (len(OLD) + number, one.value) for number, one in enumerate(NEW)
        ]


def test_records_that_expire_by_size_leave_the_newest(tmp_path: Path) -> None:
    with Place(name="folder").running(tmp_path, sets=SETS) as node:
        create_cold(node.address, TOPIC, retention_bytes="6000")
        write_cold(node)
        eventually(lambda: earliest(node.address) > 0, "the beginning moves")
        start = earliest(node.address)
        found = read(Confluent(), node.address, TOPIC, len(OLD) - start, offset=start)
        assert [one.value for one in found] == [one.value for one in OLD[start:]]
