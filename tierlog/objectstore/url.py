"""From the URL of a store, as people write it, to the store.

`file:///path` is a folder, `s3://bucket/prefix` a bucket, `memory://name` a store that all who name
it in this process share and that is gone with it: for tests and for looking around.
"""

from tierlog.config import NodeSettings, store_folder
from tierlog.env import Env
from tierlog.objectstore.folder import FolderStore
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import ObjectStore

MEMORY = "memory://"
S3 = "s3://"

_in_memory: dict[str, MemoryStore] = {}


def open_store(env: Env, url: str, settings: NodeSettings) -> ObjectStore:
    """Asks nobody yet: whether the store answers shows at the first call. Raises `InvalidConfig`
    for a URL that names no store."""
    if url.startswith(MEMORY):
        return _in_memory.setdefault(url, MemoryStore(env.clock))
    folder = store_folder(url)
    if folder is not None:
        return FolderStore(env, folder, floor_of=settings.store_floor)
    return _open_s3(env, url, settings)


def _open_s3(env: Env, url: str, settings: NodeSettings) -> ObjectStore:
    # Here and not above: the client library is slow to import, and a folder needs none.
    from tierlog.objectstore.s3 import S3Settings, S3Store

    bucket, _, prefix = url.removeprefix(S3).partition("/")
    found = S3Settings(endpoint=settings.s3_endpoint, region=settings.s3_region)
    return S3Store(env, bucket=bucket, prefix=prefix, settings=found)
