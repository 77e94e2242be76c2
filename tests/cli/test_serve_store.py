"""`tierlog serve` and `tierlog restore` on a store that is wrong, denied or away: as processes.

Whoever can be told what to do is told, in a sentence; a store that does not answer stops nobody.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.served import Start, run, starting
from tests.compat.drivers.confluent import Confluent
from tests.stores.servers import BUCKET, Server

NOWHERE = ("--store", "s3://tierlog/nowhere", "--set", "s3.endpoint=http://127.0.0.1:9")
KEYS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "a secret of nobody"}


@pytest.fixture
def start(tmp_path: Path, minio_server: Server) -> Iterator[Start]:
    with starting(tmp_path, minio_server.environment()) as begin:
        yield begin


def told(server: Server, bucket: str = BUCKET, prefix: str = "serve-store") -> list[str]:
    return ["--store", f"s3://{bucket}/{prefix}", "--set", f"s3.endpoint={server.endpoint}"]


@pytest.mark.store
def test_a_bucket_that_is_missing_ends_the_first_start_with_a_sentence_and_no_trace(
    start: Start, minio_server: Server, tmp_path: Path
) -> None:
    code, out, err = start(*told(minio_server, "no-such-bucket")).end()
    assert (code, out) == (1, "")
    sentence = (
        "tierlog: s3://no-such-bucket/serve-store: the bucket no-such-bucket does not exist; "
        "create it or correct --store"
    )
    assert err.splitlines()[-1] == sentence
    assert "Traceback" not in err
    assert not (tmp_path / "data").exists()  # A restore may still have it.
    words = ["restore", "--data", "data", *told(minio_server, "no-such-bucket")]
    ended = run(*words, cwd=tmp_path, environment=minio_server.environment())
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[-1] == sentence


@pytest.mark.store
def test_wrong_credentials_end_the_first_start_with_a_sentence_and_later_ones_serve(
    start: Start, minio_server: Server, tmp_path: Path
) -> None:
    """A node with data goes on with what it has, and says why nothing is uploaded."""
    with ExitStack() as stack:
        denied = stack.enter_context(starting(tmp_path, KEYS))
        code, out, err = denied(*told(minio_server)).end()
        assert (code, out) == (1, "")
        assert "the store refuses these credentials; see which" in err.splitlines()[-1]
        assert "Traceback" not in err
        node = start(*told(minio_server))
        node.ready()
        node.process.terminate()
        assert node.end()[0] == 0
        node = denied(*told(minio_server))
        Confluent().admin(node.ready()[1]).create("hot")
        node.process.terminate()
        code, _, err = node.end()
        assert code == 0
        assert "the object store refuses this node, somebody must act; uploads wait" in err
        assert "Traceback" not in err


@pytest.mark.store
def test_the_ready_line_names_a_bucket_as_it_was_given(start: Start, minio_server: Server) -> None:
    ready = start(*told(minio_server, prefix="ready")).ready()
    assert ready[4] == f"s3://{BUCKET}/ready"


@pytest.mark.compat
def test_a_store_that_cannot_be_reached_stops_no_start_but_a_restore(tmp_path: Path) -> None:
    with starting(tmp_path, KEYS) as start:
        node = start(*NOWHERE)
        kafka = node.ready()[1]
        Confluent().admin(kafka).create("hot")
        node.process.terminate()
        code, _, err = node.end()
        assert code == 0
        assert "botocore" not in err
        assert "it is not known whether the store holds a cluster already" in err
        assert "the object store does not answer; uploads wait" in err
        assert "Traceback" not in err
    ended = run("restore", "--data", "new", *NOWHERE, cwd=tmp_path, environment=KEYS)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[-1].startswith("tierlog: ")
    assert "127.0.0.1:9 does not answer: nobody listens there" in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "new").exists()


def test_mistakes_in_the_url_of_a_store_exit_2_and_are_shown(tierlog: Cli, tmp_path: Path) -> None:
    mistakes = {
        "s3://": "'' cannot be the name of a bucket",
        "s3://bucket:9000/x": "'bucket:9000' cannot be the name of a bucket",
        "s3://bucket/a//b": "a part of the prefix between slashes is empty",
        "http://127.0.0.1:9000/bucket": "it must be file:///path or s3://bucket/prefix",
        "relative/path": "it must be file:///path or s3://bucket/prefix",
        "file://relative": "a folder is written with its absolute path",
    }
    data = str(tmp_path / "data")
    for url, sentence in mistakes.items():
        for command in ("serve", "restore"):
            outcome = tierlog(command, "--data", data, "--store", url)
            assert (outcome.code, outcome.out) == (2, ""), url
            assert sentence in outcome.err, url
    where = ("--data", data, "--store", "s3://bucket")
    outcome = tierlog("serve", *where, "--set", "s3.endpoint=127.0.0.1:9000")
    assert (outcome.code, outcome.out) == (2, "")
    assert "s3.endpoint is '127.0.0.1:9000'; it must be a URL" in outcome.err
    assert not (tmp_path / "data").exists()
