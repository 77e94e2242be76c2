"""Where the object store is, as people write it: file:///path or s3://bucket/prefix."""

import re
from urllib.parse import urlsplit

from tierlog.config.errors import InvalidConfig

FILE, S3 = "file://", "s3://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def default_store(data_path: str) -> str:
    """The store of a node that names none: beside the absolute data path, never inside."""
    return f"{FILE}{data_path.rstrip('/')}-store"


def store_folder(url: str) -> str | None:
    """The folder of a store on the disk; None for a bucket. Raises `InvalidConfig`."""
    if url.startswith(FILE):
        return _folder(url)
    if not url.startswith(S3):
        raise _refused(url, "it must be file:///path or s3://bucket/prefix")
    bucket, _, prefix = url.removeprefix(S3).partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise _refused(url, f"'{bucket}' cannot be the name of a bucket")
    if any(part in ("", ".", "..") for part in prefix.strip("/").split("/")) and prefix.strip("/"):
        raise _refused(url, "a part of the prefix between slashes is empty or made of dots")
    return None


def check_endpoint(url: str) -> None:
    """Of an S3 service; empty is AWS. Raises `InvalidConfig`."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # A port that is no number.
        is_whole = False
    if url and not is_whole:
        raise InvalidConfig(
            "s3.endpoint", f"s3.endpoint is '{url}'; it must be a URL as http://127.0.0.1:9000"
        )


def check_apart(folder: str, data_path: str) -> None:
    """Refuses a store and data that hold each other. Both are absolute, without symbolic links."""
    store, data = folder.rstrip("/") + "/", data_path.rstrip("/") + "/"
    if store.startswith(data) or data.startswith(store):
        raise InvalidConfig(
            "store",
            f"the store {folder} and the data directory {data_path} must lie side by side: "
            "neither may be the other, nor be inside it",
        )


def _folder(url: str) -> str:
    path = url.removeprefix(FILE)
    if not path.startswith("/") or not path.strip("/"):
        raise _refused(url, "a folder is written with its absolute path: file:///path")
    return path


def _refused(url: str, wanted: str) -> InvalidConfig:
    return InvalidConfig("store", f"store is '{url}'; {wanted}")
