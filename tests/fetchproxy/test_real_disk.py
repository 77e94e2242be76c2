"""The proxy on this machine's disk and threads: what leaves is a view of a mapped file."""

import asyncio
from dataclasses import replace
from pathlib import Path

from tests.fetchproxy.support import CHUNK, WHOLE_CHUNKS, Watched, even_history, read_all, upload
from tierlog.env import LocalTasks, local_env, mapped_bytes
from tierlog.fetchproxy import ColdPrefix, ColdRead, FetchProxy
from tierlog.types import Offset


async def test_a_history_is_read_through_mapped_files_and_again_after_a_restart(
    tmp_path: Path,
) -> None:
    segments = even_history(segments=3)
    store = Watched()
    prefix = await upload(store, segments)
    env = local_env()
    for _ in range(2):
        proxy = FetchProxy(env, store, WHOLE_CHUNKS, str(tmp_path / "cache"))
        await proxy.start()
        everything = b"".join(batch for segment in segments for batch in segment)
        assert await read_all(proxy, prefix) == everything
        await proxy.close()
    chunks = sum(-(-entry.data_bytes // CHUNK) for entry in prefix.entries)
    assert len(store.gets) <= chunks + len(segments) + 8  # Those that the first end cut off.
    assert isinstance(env.tasks, LocalTasks)
    env.tasks.close()


async def first_of(proxy: FetchProxy, prefix: ColdPrefix) -> ColdRead:
    found = proxy.read(prefix, Offset(0), bytes_max=1000)
    return found if isinstance(found, ColdRead) else await found


async def test_an_answer_of_one_chunk_holds_no_memory_and_outlives_its_file(
    tmp_path: Path,
) -> None:
    store = Watched()
    prefix = await upload(store, even_history())
    env = local_env()
    tiny = replace(WHOLE_CHUNKS, cache_bytes=2 * CHUNK, readahead_bytes_max=0)
    proxy = FetchProxy(env, store, tiny, str(tmp_path / "cache"))
    await proxy.start()
    await first_of(proxy, prefix)
    await proxy.close()
    proxy = FetchProxy(env, store, tiny, str(tmp_path / "cache"))
    await proxy.start()
    got = await first_of(proxy, prefix)
    before = bytes(got.records)
    assert mapped_bytes([got.records]) == len(got.records) > 0
    await read_all(proxy, prefix)
    await proxy.close()
    for path in (tmp_path / "cache").iterdir():
        path.unlink()
    assert bytes(got.records) == before
    assert isinstance(env.tasks, LocalTasks)
    env.tasks.close()
    await asyncio.sleep(0)
