"""A command's look into the object store, without a broker."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tierlog.cli.failure import Refused
from tierlog.config import default_store, load_node_settings, store_folder

if TYPE_CHECKING:
    from tierlog.cold.bucketview import BucketView
    from tierlog.config import NodeSettings

T = TypeVar("T")

DATA = "./tierlog-data"
"""Where `tierlog serve` puts its data, beside which its store lies."""


def settings_of(store: str | None, sets: Sequence[str]) -> "NodeSettings":
    """Raises `InvalidConfig`, and `Refused` for a folder that is not there: it is not made."""
    url = store or os.environ.get("TIERLOG_STORE") or default_store(os.path.abspath(DATA))
    settings = load_node_settings(options={"store": url}, sets=sets, environ=os.environ, file=None)
    check_folder(settings)
    return settings


def check_folder(settings: "NodeSettings") -> None:
    """Whoever reads a store that is a folder makes none."""
    folder = store_folder(settings.store)
    if folder is not None and not os.path.isdir(folder):
        raise Refused(f"there is no folder {folder}; name the store with --store")


def with_bucket(
    settings: "NodeSettings", cluster_id: str | None, work: Callable[["BucketView"], Awaitable[T]]
) -> T:
    return asyncio.run(_opened(settings, cluster_id, work))


async def _opened(
    settings: "NodeSettings", cluster_id: str | None, work: Callable[["BucketView"], Awaitable[T]]
) -> T:
    from tierlog.cold.bucketview import BucketView
    from tierlog.env import local_env
    from tierlog.server import node_store

    store, _ = node_store(local_env(), settings)
    try:
        return await work(BucketView(store, cluster_id=cluster_id))
    finally:
        await store.close()
