"""The address of the object store: what can be read, and where it may lie."""

import pytest

from tierlog.config import InvalidConfig, NodeSettings, check_apart, default_store, store_folder


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("file:///var/store", "/var/store"),
        ("s3://bucket", None),
        ("s3://my-bucket.eu/some/prefix/", None),
    ],
)
def test_a_store_is_a_folder_or_a_bucket(url: str, folder: str | None) -> None:
    assert store_folder(url) == folder


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://x", "it must be file:///path or s3://bucket/prefix"),
        ("/var/store", "it must be file:///path"),
        ("S3://bucket", "it must be"),
        ("file://var/store", "with its absolute path"),
        ("file:///", "with its absolute path"),
        ("file://", "with its absolute path"),
        ("s3://", "'' cannot be the name of a bucket"),
        ("s3:///prefix", "'' cannot be the name of a bucket"),
        ("s3://My_Bucket/x", "'My_Bucket' cannot be"),
        ("s3://bucket/a//b", "a part of the prefix between slashes is empty"),
        ("s3://bucket/../x", "or made of dots"),
    ],
)
def test_anything_else_is_refused_and_shown(url: str, complaint: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        store_folder(url)
    assert refused.value.name == "store"
    assert refused.value.sentence.startswith(f"store is '{url}'; ")
    assert complaint in refused.value.sentence


@pytest.mark.parametrize("folder", ["/d/data", "/d/data/", "/d/data/store", "/d"])
def test_a_store_and_data_do_not_hold_each_other(folder: str) -> None:
    with pytest.raises(InvalidConfig, match="side by side"):
        check_apart(folder, "/d/data")


@pytest.mark.parametrize("folder", ["/d/data-store", "/d/dat", "/e/data"])
def test_a_store_beside_the_data_is_taken(folder: str) -> None:
    check_apart(folder, "/d/data")


def test_the_default_store_lies_beside_the_data() -> None:
    assert default_store("/var/lib/tierlog/") == "file:///var/lib/tierlog-store"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9000", "localhost", "http://", "http://:9000", "http://h:x", "ftp://h"]
)
def test_an_endpoint_that_is_no_url_is_refused_and_shown(url: str) -> None:
    with pytest.raises(
        InvalidConfig, match=r"s3\.endpoint is '.*'; it must be a URL as http"
    ) as no:
        NodeSettings(s3_endpoint=url)
    assert f"'{url}'" in no.value.sentence


@pytest.mark.parametrize(
    "url", ["", "http://127.0.0.1:9000", "https://s3.example.org/", "http://[::1]:9"]
)
def test_an_endpoint_is_the_url_of_a_service(url: str) -> None:
    assert NodeSettings(s3_endpoint=url).s3_endpoint == url
