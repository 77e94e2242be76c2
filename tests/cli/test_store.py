"""`tierlog store ls`, `stat` and `cat`: a bucket that a node left behind, looked at without it."""

import asyncio
import gzip
import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli
from tests.cli.served import run
from tests.compat.cold import create_cold, place_of, wait_cold
from tests.compat.drivers.base import Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.samples import write
from tests.http.nodes import running, settings
from tests.stores.servers import Server
from tierlog.broker.controller import NewTopic
from tierlog.client import NewRecord
from tierlog.env import SystemClock, local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.memory import MemoryStore
from tierlog.table.footer import read_about

COLD = {"segment.bytes": "2000", "local.retention.ms": "0"}
COUNT = 6
"""Records of orders/0; two fill a segment, and the last two are not sealed."""


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the topics orders (two partitions, one used) and bills (never written to)."""
    data = tmp_path_factory.mktemp("bucket") / "data"

    async def fill() -> None:
        env = local_env()
        async with running(env, settings(str(data))) as node:
            await node.node.controller.create(NewTopic(name="orders", partitions=2, configs=COLD))
            await node.create("bills")
            async with node.client() as client:
                for number in range(COUNT):
                    record = NewRecord(b"%d" % number * 900, key=b"k%d" % number)
                    await client.produce("orders", 0, [record])
            cold = node.node.topics.by_name["orders"].partitions[0].cold
            assert cold is not None
            is_done = asyncio.Event()
            cold.watch(lambda: is_done.set() if cold.uploaded_end == 4 else None)
            async with asyncio.timeout(30):
                while cold.uploaded_end != 4:
                    await is_done.wait()

    asyncio.run(fill())
    return Path(f"{data}-store")


@pytest.fixture
def looking(tierlog: Cli, bucket: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("TIERLOG_STORE", f"file://{bucket}")
    return tierlog


@pytest.fixture
def cluster(bucket: Path) -> str:
    (found,) = bucket.glob("*/format.json")
    return found.parent.name


# ls


def test_a_cluster_lists_its_topics_by_name(looking: Cli, cluster: str) -> None:
    outcome = looking("store", "ls")
    assert (outcome.code, outcome.err) == (0, "")
    about, title, bills, orders = outcome.lines
    assert about == f"cluster {cluster}, life 1: 2 topics"
    assert title.split() == ["topic", "partitions", "id"]
    assert bills.split()[:2] == ["bills", "1"]
    assert orders.split()[:2] == ["orders", "2"]
    *_, orders = looking("store", "ls", f"/{cluster}", "--long").lines
    assert orders.split()[:4] == ["orders", "2", "4", "2"]


def test_a_topic_lists_its_partitions(looking: Cli) -> None:
    title, first, second = looking("store", "ls", "orders").lines
    assert title.split() == ["partition", "start", "end", "segments", "size", "published"]
    assert first.split()[:4] == ["0", "0", "4", "2"]
    assert second.split() == ["1", "never"]


def test_a_partition_lists_its_segments(looking: Cli) -> None:
    title, *rows = looking("store", "ls", "orders/0").lines
    assert title.split() == ["first", "last", "records", "size", "oldest", "newest"]
    assert [row.split()[:3] for row in rows] == [["0", "1", "2"], ["2", "3", "2"]]
    assert looking("store", "ls", "orders/0", "-n", "1").lines == [title, rows[0]]


def test_programs_get_an_object_a_line(looking: Cli, cluster: str) -> None:
    levels = {path: looking("store", "ls", path, "--json").lines for path in ("", "orders/0")}
    topics = [json.loads(line) for line in levels[""]]
    assert [one["topic"] for one in topics] == ["bills", "orders"]
    first, second = (json.loads(line) for line in levels["orders/0"])
    assert (first["base"], first["last"], second["base"]) == (0, 1, 2)
    assert first["key"].startswith(f"{cluster}/t/{topics[1]['id']}/0/seg/")
    assert json.loads(looking("store", "ls", "orders", "--json").lines[0])["next_offset"] == 4


def test_keys_are_listed_as_the_store_has_them(looking: Cli, cluster: str) -> None:
    keys = [line.split()[-1] for line in looking("store", "ls", "orders/0", "--keys").lines[1:]]
    assert len(keys) == 3
    assert keys[0].endswith("/HEAD")
    every = looking("store", "ls", "--keys").lines
    assert any(line.endswith(f"{cluster}/format.json") for line in every)
    (one,) = looking("store", "ls", f"/{keys[1]}").lines[1:]
    assert one.endswith(keys[1])


# stat


def test_a_segment_shows_its_footer_its_sections_and_whether_it_is_published(looking: Cli) -> None:
    shown = looking("store", "stat", "orders/0/3").out
    fields = dict(line.split("  ", 1) for line in shown.partition("\n\n")[0].splitlines())
    found = {name: text.strip() for name, text in fields.items()}
    assert (found["topic"], found["base"], found["last"], found["records"]) == (
        "orders",
        "2",
        "3",
        "2",
    )
    assert found["in manifest"] == "yes"
    assert found["crc32c"] == found["published crc32c"]
    assert len(found["sha256"]) == 64
    title, *sections = shown.partition("\n\n")[2].splitlines()
    assert title.split() == ["section", "position", "size", "crc32c"]
    assert [line.split()[0] for line in sections][:2] == ["block_crcs", "offset_index"]
    value = json.loads(looking("store", "stat", "orders/0/3", "--json").out)
    assert value["sections"][0]["position"] == value["data_bytes"]


def test_an_object_that_no_manifest_lists_is_told_apart(
    looking: Cli, bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = json.loads(looking("store", "ls", "orders/0", "--json").lines[0])["key"]
    copy = tmp_path / "store"
    subprocess.run(["cp", "-r", str(bucket), str(copy)], check=True)
    twin = key[: -len("0123456789abcdef.seg")] + "0123456789abcdef.seg"
    (copy / twin).write_bytes((bucket / key).read_bytes())
    monkeypatch.setenv("TIERLOG_STORE", f"file://{copy}")
    assert json.loads(looking("store", "stat", f"/{twin}", "--json").out)["in_manifest"] is False
    assert json.loads(looking("store", "stat", f"/{key}", "--json").out)["in_manifest"] is True


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("orders/0/HEAD", {"kind": "head", "next_offset": 4, "entries": {"count": 2}}),
        ("STATE", {"kind": "state", "topics": {"count": 2}}),
        ("cluster/STATE", {"kind": "state"}),
        ("format.json", {"format": 1}),
    ],
)
def test_manifests_show_their_fields(looking: Cli, path: str, fields: dict[str, object]) -> None:
    value = json.loads(looking("store", "stat", path, "--json").out)
    assert fields.items() <= value.items()
    people = looking("store", "stat", path).lines
    assert people[0].startswith("key ")
    assert "modified" in people[2]


def test_the_offsets_of_groups_have_a_short_name(
    looking: Cli, bucket: Path, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = looking("store", "stat", "OFFSETS")
    assert missing.err.startswith(f"tierlog: there is no object {cluster}/cluster/OFFSETS")
    copy = tmp_path / "store"
    subprocess.run(["cp", "-r", str(bucket), str(copy)], check=True)
    (copy / cluster / "cluster" / "OFFSETS").write_bytes(gzip.compress(b'{"kind":"offsets"}'))
    monkeypatch.setenv("TIERLOG_STORE", f"file://{copy}")
    assert json.loads(looking("store", "stat", "OFFSETS", "--json").out)["kind"] == "offsets"


def test_a_parquet_file_shows_its_metadata_and_is_printed_raw_alone(
    looking: Cli, bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "store"
    subprocess.run(["cp", "-r", str(bucket), str(copy)], check=True)
    monkeypatch.setenv("TIERLOG_STORE", f"file://{copy}")
    listed = json.loads(looking("store", "ls", "orders/0", "--json").lines[0])["key"]
    key = listed.partition("seg/")[0] + "pq/0-3.parquet"
    file = copy / key
    file.parent.mkdir(exist_ok=True)
    schema = pa.schema(
        [("offset", pa.int64()), ("value", pa.binary())], {"tierlog.topic": "orders"}
    )
    pq.write_table(pa.table({"offset": [1, 2], "value": [b"a", b"b"]}, schema=schema), file)
    value = json.loads(looking("store", "stat", f"/{key}", "--json").out)
    assert (value["kind"], value["rows"], value["row_groups"]) == ("parquet", 2, 1)
    assert (value["columns"], value["tierlog.topic"]) == (["offset", "value"], "orders")
    assert value["size"] == file.stat().st_size
    people = looking("store", "stat", f"/{key}").lines
    assert any(line.split() == ["columns", "offset,", "value"] for line in people)
    cat = looking("store", "cat", f"/{key}")
    assert (cat.code, cat.out) == (1, "")
    assert "is a Parquet file: use --raw for its bytes" in cat.err
    file.write_bytes(file.read_bytes()[:-1])
    cut = looking("store", "stat", f"/{key}")
    assert cut.code == 1
    assert "it does not end as a Parquet file does" in cut.err
    file.write_bytes(b"x" * 100 + (50).to_bytes(4, "little") + b"PAR1")
    assert "its Parquet footer cannot be read" in looking("store", "stat", f"/{key}").err


def test_a_parquet_footer_that_is_longer_than_the_first_look_is_read(tmp_path: Path) -> None:
    async def look() -> None:
        store = MemoryStore(SystemClock())
        names = [f"column-{number:0100}" for number in range(2000)]
        sink = BytesIO()
        pq.write_table(pa.table({name: [1] for name in names}), sink)
        await store.put("a.parquet", BytesBody(sink.getvalue()))
        assert (await read_about(store, "a.parquet"))["columns"] == names

    asyncio.run(look())


# cat


def test_manifests_are_printed_as_json(looking: Cli, bucket: Path, cluster: str) -> None:
    head = json.loads(looking("store", "cat", "orders/0/HEAD").out)
    assert [entry["base"] for entry in head["entries"]] == [0, 2]
    state = json.loads(looking("store", "cat", "STATE").out)
    stored = gzip.decompress((bucket / cluster / "cluster/STATE").read_bytes())
    assert state == json.loads(stored)
    assert json.loads(looking("store", "cat", "format.json").out)["cluster_id"] == cluster


def test_segments_are_printed_as_batches(looking: Cli) -> None:
    title, first, second = looking("store", "cat", "orders/0/0").lines
    assert title.split()[:5] == ["position", "size", "first", "last", "records"]
    assert first.split()[2:6] == ["0", "0", "1", "none"]
    value = json.loads(looking("store", "cat", "orders/0/0", "--json").lines[1])
    assert (value["base_offset"], value["position"]) == (1, int(second.split()[0]))


def test_records_are_printed_in_the_formats_of_consume(looking: Cli) -> None:
    plain = looking("store", "cat", "orders/0/2", "--records", "--key-separator", ":")
    assert plain.lines == [f"k2:{'2' * 900}", f"k3:{'3' * 900}"]
    value = json.loads(looking("store", "cat", "orders/0/2", "--records", "--json").lines[0])
    assert (value["topic"], value["offset"], value["key"]) == ("orders", 2, "k2")
    (meta, _) = looking("store", "cat", "orders/0/2", "--records", "--meta").lines
    assert meta.split("\t")[:2] == ["0", "2"]


def test_raw_bytes_go_to_a_pipe(looking: Cli, bucket: Path) -> None:
    key = json.loads(looking("store", "ls", "orders/0", "--json").lines[0])["key"]
    words = [sys.executable, "-m", "tierlog", "store", "cat", "--raw", f"/{key}"]
    ran = subprocess.run(words, capture_output=True, check=True)
    assert ran.stdout == (bucket / key).read_bytes()


def test_a_terminal_gets_no_raw_bytes(looking: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    outcome = looking("store", "cat", "--raw", "STATE")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("tierlog: --raw writes bytes, which a terminal cannot show")


def test_a_damaged_batch_ends_the_printing_with_a_sentence(
    looking: Cli, bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = json.loads(looking("store", "ls", "orders/0", "--json").lines[0])["key"]
    copy = tmp_path / "store"
    subprocess.run(["cp", "-r", str(bucket), str(copy)], check=True)
    data = bytearray((bucket / key).read_bytes())
    data[500] ^= 1
    (copy / key).write_bytes(data)
    monkeypatch.setenv("TIERLOG_STORE", f"file://{copy}")
    outcome = looking("store", "cat", "orders/0/0", "--records")
    assert (outcome.code, outcome.out) == (1, "")
    assert "CRC-32C" in outcome.err


# What is not there


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["ls", "ordres"], "there is no topic ordres in the store; did you mean orders?"),
        (["ls", "orders/x"], "orders/x: a partition is a number from 0 on"),
        (["ls", "orders/7"], "orders has partitions 0 to 1"),
        (["ls", "orders/1"], "orders/1 has nothing in the store: it never published, or HEAD is"),
        (["cat", "orders/0/4"], "offset 4 of orders/0 is not in the store, which has 0 to 3"),
        (["cat", "orders/0/HAED"], "there is no object {0}HAED; nearest is HEAD"),
        (
            ["stat", "orders/0/seg/0"],
            "there is no object {0}seg/0; nearest is 00000000000000000000-",
        ),
        (["cat", "orders/0/nothing/0"], "there is no object {0}nothing/0, nor anything else below"),
        (["cat", "orders/0"], "orders/0 is not one object: `tierlog store ls orders/0` lists"),
        (["cat", "--records", "STATE"], "STATE is no segment: it has no records"),
        (["ls", "--cluster-id", "x"], "there is no cluster x; there are "),
    ],
)
def test_what_is_not_there_is_refused_with_what_comes_nearest(
    looking: Cli, cluster: str, words: list[str], sentence: str
) -> None:
    topics = [json.loads(line) for line in looking("store", "ls", "--json").lines]
    outcome = looking("store", *words)
    assert (outcome.code, outcome.out) == (1, "")
    where = f"{cluster}/t/{topics[1]['id']}/0/"
    assert outcome.err.startswith(f"tierlog: {sentence.format(where)}")


def test_a_store_without_a_cluster_and_one_that_is_missing_are_told_apart(
    tierlog: Cli, tmp_path: Path
) -> None:
    empty = tierlog("store", "ls", "--store", f"file://{tmp_path}")
    assert (empty.code, empty.out) == (1, "")
    assert empty.err.startswith("tierlog: the store holds no cluster; is it the right one")
    missing = tierlog("store", "ls", "--store", f"file://{tmp_path}/no")
    assert missing.err == (
        f"tierlog: there is no folder {tmp_path}/no; name the store with --store\n"
    )
    assert not (tmp_path / "no").exists()


def test_of_several_clusters_one_must_be_named(
    looking: Cli, bucket: Path, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "store"
    subprocess.run(["cp", "-r", str(bucket), str(copy)], check=True)
    subprocess.run(["cp", "-r", str(copy / cluster), str(copy / "another")], check=True)
    monkeypatch.setenv("TIERLOG_STORE", f"file://{copy}")
    title, *rows = looking("store", "ls").lines
    assert title.split() == ["cluster", "life", "topics"]
    assert sorted(row.split()[0] for row in rows) == sorted([cluster, "another"])
    refused = looking("store", "ls", "orders")
    assert refused.err.startswith("tierlog: the store holds 2 clusters, and orders may be of any")
    assert looking("store", "ls", f"/{cluster}/orders/0").code == 0
    assert looking("store", "ls", "orders/0", "--cluster-id", cluster).code == 0


# A real store


@pytest.mark.store
def test_a_bucket_on_minio_is_looked_into(tmp_path: Path, minio_server: Server) -> None:
    place = place_of(minio_server, prefix="look")
    with place.running(tmp_path) as node:
        create_cold(node.address, "orders")
        records = [Record(value=b"%d" % number * 30) for number in range(20)]
        write(Confluent(), node.address, "orders", records, Sending())
        wait_cold(node, "orders")
    assert place.url is not None
    where = ["--store", place.url, "--set", place.sets[0]]

    def looked(*words: str) -> str:
        ended = run(*words, *where, cwd=tmp_path, environment=minio_server.environment())
        assert (ended.code, ended.err) == (0, ""), ended
        return ended.out

    assert "orders" in looked("store", "ls")
    listed = looked("store", "ls", "orders/0", "--json").splitlines()
    segments = [json.loads(line) for line in listed]
    assert sum(one["records"] for one in segments) == 20
    printed = "".join(looked("store", "cat", f"/{one['key']}", "--records") for one in segments)
    assert sorted(printed.split()) == sorted(str(number) * 30 for number in range(20))
    stat = json.loads(looked("store", "stat", "orders/0/0", "--json"))
    assert stat["in_manifest"]
    assert stat["crc32c"] == stat["published_crc32c"]
    answer = json.loads(looked("explain", "orders", "--json"))
    assert answer["partitions"][0]["rows"][0]["state"] == "dropped"
