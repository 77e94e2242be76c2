"""A verification on real stores: sound, damaged, and where versions are kept."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from tests.cli.served import Ended, run
from tests.stores.servers import Server
from tests.tamper.bucket import CLUSTER, PLACES, TestBucket, make_bucket
from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Doomed

pytestmark = pytest.mark.store


def fill(server: Server, bucket: str, source: TestBucket) -> None:
    async def copy() -> None:
        store = server.open(local_env(), bucket=bucket)
        for key, item in source.store.shelf.items.items():
            await store.put(key, BytesBody(item.data))
        await store.close()

    asyncio.run(copy())


def verify(server: Server, bucket: str, *words: str, cwd: Path) -> tuple[Ended, Any]:
    ended = run(
        *("verify", "--store", f"s3://{bucket}", "--set", f"s3.endpoint={server.endpoint}"),
        *("--json", *words),
        cwd=cwd,
        environment=server.environment(),
    )
    return ended, json.loads(ended.out)


def test_a_flip_a_drop_and_a_swap_are_found_on_a_real_store(
    s3_server: Server, tmp_path: Path
) -> None:
    name = "verify-plain"
    client = s3_server.client()
    client.create_bucket(Bucket=name)
    source = asyncio.run(make_bucket())
    fill(s3_server, name, source)
    ended, told = verify(s3_server, name, "--deep", cwd=tmp_path)
    assert ended.code == 0, ended.out
    assert told["requests"]["put"] == told["requests"]["delete"] == 0
    segments = [key for key in source.store.shelf.items if "/seg/" in key]
    flipped, dropped = Random(1).sample(
        [key for key in segments if f"/{PLACES[0][0]}/0/" in key], 2
    )
    data = bytearray(source.store.shelf.items[flipped].data)
    data[100] ^= 1
    client.put_object(Bucket=name, Key=flipped, Body=bytes(data))
    client.delete_object(Bucket=name, Key=dropped)
    ended, told = verify(s3_server, name, "--deep", cwd=tmp_path)
    assert ended.code == 1
    assert {one["key"]: one["kind"] for one in told["findings"]} == {
        flipped: "object-wrong",
        dropped: "object-missing",
    }


async def make_versioned(server: Server, name: str) -> TestBucket:
    """A bucket that the code for real ones filled, so that entries name versions."""
    store = server.open(local_env(), bucket=name)
    try:
        return await make_bucket(1, lambda _clock: cast("Any", store))
    finally:
        await store.close()


def test_a_delete_marker_on_a_bucket_with_versions_is_found(
    minio_server: Server, tmp_path: Path
) -> None:
    name = "verify-versions"
    client = minio_server.client()
    client.create_bucket(Bucket=name)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    asyncio.run(make_versioned(minio_server, name))
    ended, told = verify(minio_server, name, "--deep", cwd=tmp_path)
    assert ended.code == 0, ended.out
    listed = client.list_objects_v2(Bucket=name, Prefix=f"{CLUSTER}/t/{PLACES[2][0]}/0/seg/")
    marked, covered = (one["Key"] for one in listed["Contents"][:2])
    head = f"{CLUSTER}/t/{PLACES[1][0]}/1/HEAD"
    client.delete_object(Bucket=name, Key=marked)
    client.put_object(Bucket=name, Key=covered, Body=b"something else")
    client.delete_object(Bucket=name, Key=head)
    for words in ((), ("--deep",)):
        ended, told = verify(minio_server, name, *words, cwd=tmp_path)
        assert ended.code == 1
        found = {one["key"]: one for one in told["findings"]}
        assert {key: one["kind"] for key, one in found.items()} == {
            marked: "object-hidden",
            covered: "object-hidden",
            head: "head-missing",
        }
        assert found[marked]["found"] == "a delete marker lies over it"


def test_a_doomed_version_is_gone_for_good(minio_server: Server, tmp_path: Path) -> None:
    name = "verify-gone"
    client = minio_server.client()
    client.create_bucket(Bucket=name)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    asyncio.run(make_versioned(minio_server, name))
    listed = client.list_object_versions(Bucket=name, Prefix=f"{CLUSTER}/t/{PLACES[2][0]}/0/seg/")
    gone = listed["Versions"][0]

    async def delete() -> None:
        store = minio_server.open(local_env(), bucket=name)
        await store.delete([Doomed(gone["Key"], gone["VersionId"])])
        await store.close()

    asyncio.run(delete())
    ended, told = verify(minio_server, name, cwd=tmp_path)
    assert ended.code == 1
    assert [(one["key"], one["kind"]) for one in told["findings"]] == [
        (gone["Key"], "object-missing")
    ]
