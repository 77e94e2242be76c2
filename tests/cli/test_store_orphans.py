"""`tierlog store orphans`: what it finds in a folder, for people and for programs."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cold.sweeping import ALIVE, CLUSTER, DEAD, PREFIX, SEGMENTS, Scene, play
from tierlog.cold.clusterstate import TopicRecord, encode_format
from tierlog.cold.layout import FORMAT_JSON
from tierlog.config import NodeSettings
from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.url import open_store

STRANGER = "f" * 32


class Past:
    """A clock that stands still, long ago."""

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A cluster with a living topic whose segments no manifest knows, one that is deleted, and one
    that STATE does not know; all objects are of 1970."""

    async def scenario(scene: Scene) -> dict[str, bytes]:
        await scene.fill(DEAD)
        await scene.fill(ALIVE)
        await scene.fill(STRANGER, partitions=1)
        await scene.delete(DEAD, name="gone")
        await (await scene.keeper()).put_topics({ALIVE: TopicRecord(name="orders", partitions=2)})
        return {key: one.data for key, one in scene.memory.shelf.items.items()}

    items = play(scenario)
    assert items[PREFIX + FORMAT_JSON] == encode_format(CLUSTER)
    folder = tmp_path / "store"
    write_folder(folder, items)
    return f"file://{folder}"


def write_folder(folder: Path, items: dict[str, bytes]) -> None:
    """By the adapter itself: how a folder keeps objects is its own affair."""

    async def run() -> None:
        past = replace(local_env(), clock=Past())
        store = open_store(past, f"file://{folder}", NodeSettings())
        for key, data in items.items():
            await store.put(key, BytesBody(data))
        await store.close()

    asyncio.run(run())


def test_it_lists_what_nobody_knows(tierlog: Cli, store: str) -> None:
    done = tierlog("store", "orphans", "--store", store)
    assert done.code == 0, done.err
    rows = [line.split() for line in done.lines if line.startswith("orders ")]
    assert [(row[1], row[2]) for row in rows] == [("0", "5"), ("1", "5")]
    assert sum(line.startswith("orphan orders/0/seg/") for line in done.lines) == SEGMENTS
    assert f"topic id {STRANGER} is not in STATE: left alone" in done.lines
    assert any(line.startswith(f"gone ({DEAD}) was deleted") for line in done.lines)


def test_json_has_all_of_it(tierlog: Cli, store: str) -> None:
    done = tierlog("store", "orphans", "--store", store, "--json")
    report = json.loads(done.out)
    assert report["cluster_id"] == CLUSTER
    assert [one["orphan_objects"] for one in report["partitions"]] == [SEGMENTS + 1] * 2
    assert report["partitions"][0]["orphan_bytes"] == SEGMENTS * 7 + 4
    assert report["unknown_topic_ids"] == [STRANGER]
    assert [one["topic"] for one in report["deleted_topics"]] == ["gone"]
    assert report["uploads"] == []


def test_nothing_is_changed(tierlog: Cli, store: str) -> None:
    folder = Path(store.removeprefix("file://"))
    before = {path: path.stat().st_mtime for path in folder.rglob("*") if path.is_file()}
    tierlog("store", "orphans", "--store", store)
    after = {path: path.stat().st_mtime for path in folder.rglob("*") if path.is_file()}
    assert before.items() <= after.items()


def test_a_store_without_a_cluster_is_told(tierlog: Cli, tmp_path: Path) -> None:
    done = tierlog("store", "orphans", "--store", f"file://{tmp_path}/none")
    assert done.code == 1
    assert "no cluster" in done.err
