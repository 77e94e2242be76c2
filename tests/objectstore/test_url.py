"""Stores by their URLs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.objectstore.contract import put, read
from tierlog.config import InvalidConfig, NodeSettings
from tierlog.env import local_env
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.folder import FolderStore
from tierlog.objectstore.s3 import S3Store
from tierlog.objectstore.url import open_store

SETTINGS = NodeSettings()


async def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    store = open_store(local_env(), f"file://{tmp_path}/store", SETTINGS)
    assert isinstance(store, FolderStore)
    await put(store, "a", b"1")
    assert (tmp_path / "store/a").read_bytes() == b"1"
    await store.close()


async def test_memory_is_shared_by_name() -> None:
    one = open_store(local_env(), "memory://test-url-one", SETTINGS)
    await put(one, "a", b"1")
    assert await read(open_store(local_env(), "memory://test-url-one", SETTINGS), "a") == b"1"
    with pytest.raises(NoSuchObject):
        await open_store(local_env(), "memory://test-url-other", SETTINGS).get("a")


async def test_an_s3_url_is_a_bucket_and_asks_nobody_yet() -> None:
    settings = NodeSettings(s3_endpoint="http://127.0.0.1:1", s3_region="eu-central-1")
    store = open_store(local_env(), "s3://bucket/some/prefix", settings)
    assert isinstance(store, S3Store)
    await store.close()


@pytest.mark.parametrize("url", ["", "store", "ftp://x", "file://relative", "s3://", "s3://A_B"])
def test_what_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig):
        open_store(local_env(), url, SETTINGS)


def test_a_folder_needs_no_client_library(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from tierlog.config import NodeSettings\n"
        "from tierlog.env import local_env\n"
        "from tierlog.objectstore.url import open_store\n"
        f"open_store(local_env(), 'file://{tmp_path}', NodeSettings())\n"
        "assert not {'boto3', 'botocore', 'urllib3'} & set(sys.modules), 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
