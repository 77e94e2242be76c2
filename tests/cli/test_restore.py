"""`tierlog serve` beside a store that holds a cluster, and `tierlog restore`: as processes.

The contract of the command line, a line a test, and a real consumer who finds what was published.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.served import Ended, Start, run, starting
from tests.compat.cold import Place, create_cold, eventually, wait_cold
from tests.compat.drivers.base import Record, Refused, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.compat.samples import read, write

TOPIC = "orders"
RECORDS = [Record(value=b"%d" % number * 30) for number in range(60)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a cluster in `data-store` whose `data` is lost: two partitions, 30 records each."""
    with Place(name="folder").running(tmp_path) as node:
        create_cold(node.address, TOPIC)
        write(Confluent(), node.address, TOPIC, RECORDS, Sending())
        wait_cold(node, TOPIC)
    shutil.rmtree(tmp_path / "data")
    return tmp_path


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as begin:
        yield begin


def restored(folder: Path, *words: str, data: str = "data") -> Ended:
    return run(
        "restore", "--store", f"file://{folder}/data-store", "--data", data, *words, cwd=folder
    )


def cluster_ids(folder: Path) -> list[str]:
    """Of the store, by the format that each keeps."""
    return sorted(one.parent.name for one in (folder / "data-store").glob("*/format.json"))


@pytest.mark.compat
def test_an_empty_directory_beside_a_cluster_is_refused_and_can_be_restored_as_it_was_told(
    folder: Path, start: Start
) -> None:
    (cluster,) = cluster_ids(folder)
    code, out, err = start().end()
    assert (code, out) == (1, "")
    sentence = err.splitlines()[-1]
    assert sentence.startswith(f"tierlog: the store holds a cluster already ({cluster})")
    assert "'tierlog restore'" in sentence
    assert "--new-cluster" in sentence
    ended = restored(folder)
    assert ended.code == 0, ended.err
    assert ended.out.startswith(f"cluster {cluster} begins life 2 (the last was 1)\n")
    assert ended.out.splitlines()[2].split()[:5] == [TOPIC, "0", "0", "60", "60"]
    assert ended.err.splitlines()[-2:] == [
        "ready:",
        f"  tierlog serve --data data --store file://{folder}/data-store",
    ]
    kafka, _, _, store = start().ready().groups()
    assert store == f"file://{folder}/data-store"
    found = read(Confluent(), kafka, TOPIC, len(RECORDS))
    assert [one.value for one in found] == [one.value for one in RECORDS]
    assert write(Confluent(), kafka, TOPIC, RECORDS[:3], Sending(idempotent=True)) == [60, 61, 62]


@pytest.mark.compat
def test_a_new_cluster_may_begin_in_the_same_store_and_then_a_restore_asks_which(
    folder: Path, start: Start
) -> None:
    (first,) = cluster_ids(folder)
    node = start("--new-cluster")
    kafka = node.ready()[1]
    assert Confluent().admin(kafka).topics() == set()
    Confluent().admin(kafka).create("other")
    eventually(lambda: len(cluster_ids(folder)) == 2, "the new cluster is in the store")
    node.process.terminate()
    assert node.end()[0] == 0
    node = start()  # Its data is its own now: no word is needed.
    node.ready()
    (second,) = set(cluster_ids(folder)) - {first}
    ended = restored(folder, data="again")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        "tierlog: there are several clusters in this store, name one with --cluster-id: "
        f"{', '.join(sorted([first, second]))}\n"
    )
    ended = restored(folder, "--cluster-id", "nobody", data="again")
    assert (ended.code, ended.out) == (1, "")
    assert "the store has no cluster/STATE of a cluster nobody" in ended.err
    ended = restored(folder, "--cluster-id", first, "--json", data="again")
    assert ended.code == 0
    told = json.loads(ended.out)
    assert (told["cluster_id"], told["incarnation"], told["after"]) == (first, 2, 1)
    assert (told["is_complete"], told["is_sound"], told["deleted"]) == (True, True, [])
    (partition,) = told["partitions"]
    assert partition["topic"] == TOPIC
    assert partition["outcome"] == "restored"
    assert (partition["log_start"], partition["next_offset"]) == (0, len(RECORDS))
    assert (partition["records"], partition["problems"]) == (len(RECORDS), [])


def test_restore_takes_a_directory_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "data-store").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").write_text("precious")
    ended = restored(tmp_path, data="full")
    assert (ended.code, ended.out) == (1, "")
    sentence = f"tierlog: {tmp_path}/full is not empty: a restore takes a directory of its own\n"
    assert ended.err == sentence
    assert (tmp_path / "full" / "something").read_text() == "precious"
    ended = restored(tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "tierlog: there is no cluster in this store\n"
    (tmp_path / "data-store").rmdir()
    ended = restored(tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"tierlog: there is no folder {tmp_path}/data-store; name the ")
    assert not (tmp_path / "data").exists()


@pytest.mark.compat
def test_an_unfinished_restore_is_refused_by_serve_and_finished_by_another_run(
    folder: Path, start: Start
) -> None:
    (head,) = (folder / "data-store").glob("*/t/*/0/HEAD")
    content = head.read_bytes()
    segments = head.with_name("seg")
    hidden = segments.rename(folder / "hidden")
    head.write_bytes(b"damaged")  # Nor can it be made anew from its segments.
    ended = restored(folder)
    assert ended.code == 1
    assert "not complete: repair what is named above and run the restore again" in ended.err
    code, out, err = start().end()
    assert (code, out) == (1, "")
    assert err.startswith(f"tierlog: a restore into {folder}/data was begun and has not ended: run")
    hidden.rename(segments)
    head.write_bytes(content)
    assert restored(folder).code == 0
    kafka = start().ready()[1]
    assert len(read(Confluent(), kafka, TOPIC, len(RECORDS))) == len(RECORDS)


@pytest.mark.compat
def test_the_old_node_takes_no_records_any_more_once_it_meets_the_restored_cluster(
    tmp_path: Path,
) -> None:
    """Until its next publish it may still take some: that one is refused by the store."""
    with Place(name="folder").running(tmp_path) as old:
        create_cold(old.address, TOPIC)
        write(Confluent(), old.address, TOPIC, RECORDS[:30], Sending())
        wait_cold(old, TOPIC)
        assert restored(tmp_path, data="new").code == 0
        store = f"file://{tmp_path}/data-store"
        new_folder = tmp_path / "elsewhere"
        new_folder.mkdir()
        (tmp_path / "new").rename(new_folder / "data")
        with Place(name="folder", url=store).running(new_folder) as new:
            offsets = write(Confluent(), new.address, TOPIC, RECORDS[30:], Sending())
            assert offsets == list(range(30, 60))
            wait_cold(new, TOPIC)
            eventually(lambda: is_read_only(old), "the old node is read-only")
            assert "the cluster was restored elsewhere from this bucket" in old.log()
            assert len(read(Confluent(), old.address, TOPIC, 30)) == 30
            found = read(Confluent(), new.address, TOPIC, 60)
            assert [one.value for one in found] == [one.value for one in RECORDS]


def is_read_only(node: RunningNode) -> bool:
    """Each try is one more record that the restored cluster never hears of."""
    patience = Sending(patience_s=2.0)
    with closing(Confluent().producer(node.address, patience)) as producer:
        try:
            producer.send(TOPIC, [Record(value=b"lost")])
        except Refused:
            return True
    return False


def test_help_names_every_option_of_the_contract(tierlog: Cli) -> None:
    serve = tierlog("serve", "--help")
    words = "--data --store --listen --http --advertise --node-id --config --set --new-cluster"
    assert serve.code == 0
    assert all(word in serve.out for word in words.split())
    assert "file:///path or s3://bucket/prefix" in serve.out
    restore = tierlog("restore", "--help")
    assert restore.code == 0
    options = ["--store", "--data", "--cluster-id", "--set", "--json"]
    assert all(word in restore.out for word in options)
    assert "prints what was lost" in restore.out
    assert "restore" in tierlog("--help").out


def test_restore_wants_a_store_and_a_directory(tierlog: Cli, tmp_path: Path) -> None:
    assert tierlog("restore").code == 2
    assert tierlog("restore", "--store", "file:///x").code == 2
    outcome = tierlog("restore", "--store", "ftp://x", "--data", str(tmp_path / "data"))
    assert (outcome.code, outcome.out) == (2, "")
    assert "store is 'ftp://x'; it must be" in outcome.err
    outcome = tierlog("restore", "--store", f"file://{tmp_path}/a", "--data", f"{tmp_path}/a/b")
    assert outcome.code == 2
    assert "must lie side by side" in outcome.err
