"""The proxy on this machine's disk and threads: what leaves is a view of a mapped file."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fetchproxy.support import CHUNK, WHOLE_CHUNKS, Watched, even_history, read_all, upload
from tierlog.env import LocalTasks, local_env, mapped_bytes
from tierlog.fetchproxy import ColdPrefix, ColdRead, FetchProxy
from tierlog.fetchproxy.pieces import FilePiece
from tierlog.types import Bytes, Offset, TimestampMs


async def test_a_history_is_read_through_mapped_files_and_again_after_a_restart(
    tmp_path: Path,
) -> None:
    segments = even_history(segments=3)
    store = Watched()
    prefix = await upload(store, segments)
    env = local_env()
    for _ in range(2):
        proxy = FetchProxy(env, store, PATIENT, str(tmp_path / "cache"))
        await proxy.start()
        everything = b"".join(batch for segment in segments for batch in segment)
        assert await read_all(proxy, prefix) == everything
        await proxy.close()
    chunks = sum(-(-entry.data_bytes // CHUNK) for entry in prefix.entries)
    assert len(store.gets) <= chunks + len(segments) + 8  # Those that the first end cut off.
    assert isinstance(env.tasks, LocalTasks)
    env.tasks.close()


PATIENT = replace(WHOLE_CHUNKS, memory_bytes=1024 * CHUNK)
"""However busy the disk is, all chunks are kept."""


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


async def test_what_is_not_in_the_page_cache_is_read_by_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = even_history(segments=3)
    store = Watched()
    prefix = await upload(store, segments)
    env = local_env()
    proxy = FetchProxy(env, store, PATIENT, str(tmp_path / "cache"))
    await proxy.start()
    await read_all(proxy, prefix)
    await proxy.close()
    threads = []

    def pread(piece: FilePiece, size: int, position: int) -> Bytes:
        threads.append(threading.get_ident())
        return really(piece, size, position)

    really = FilePiece.pread
    monkeypatch.setattr(FilePiece, "pread", pread)
    monkeypatch.setattr(FilePiece, "is_cached", lambda *_: False)
    proxy = FetchProxy(env, store, PATIENT, str(tmp_path / "cache"))
    await proxy.start()
    everything = b"".join(batch for segment in segments for batch in segment)
    assert await read_all(proxy, prefix) == everything
    assert await proxy.search_time(prefix, TimestampMs(1050)) == (50, 1050)
    assert await proxy.search_latest(prefix) == (119, 1119)
    await proxy.close()
    assert threads
    assert threading.get_ident() not in threads
    assert isinstance(env.tasks, LocalTasks)
    env.tasks.close()
