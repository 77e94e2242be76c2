"""The store in memory, against the promises of the port; and that the suite would notice."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.objectstore.contract import ObjectStoreContract
from tierlog.env import SystemClock
from tierlog.objectstore.body import read_body
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Body, Got, ObjectStore, Span, Written


class TestMemoryStore(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return MemoryStore(SystemClock())


# Stores that lie, each in one way.


class LyingSwap(MemoryStore):
    """Ignores If-Match, as some imitations of S3 do."""

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        return await self.put(key, body)


class OverwritingCreate(MemoryStore):
    """Ignores If-None-Match."""

    async def put_if_absent(self, key: str, body: Body) -> Written:
        return await self.put(key, body)


class RacyCreate(MemoryStore):
    """Looks first and writes later: right as long as nobody races."""

    async def put_if_absent(self, key: str, body: Body) -> Written:
        is_taken = key in self.shelf.items
        await asyncio.sleep(0)
        return await (super().put_if_absent(key, body) if is_taken else self.put(key, body))


class ShortRange(MemoryStore):
    """Cuts the last byte of longer ranges off."""

    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        got = await super().get(key, span=span, etag=etag, version_id=version_id)
        return got if span is None or span.size < 2 else replace(got, data=got.data[:-1], crcs=())


class BlindToChecksums(MemoryStore):
    async def put_if_absent(self, key: str, body: Body) -> Written:
        try:
            read_body(body)
        finally:
            self.shelf.put_if_absent(key, b"".join(body.pieces()), now_ms=1_700_000_000_000)
        return await super().put_if_absent(key, body)


def contract_tests() -> list[str]:
    return [name for name in vars(ObjectStoreContract) if name.startswith("test_")]


async def failing(make: Callable[[], ObjectStore]) -> set[str]:
    """Which tests of the contract fail on this store; those with parameters are left out."""
    failed = set()
    for name in contract_tests():
        test: Callable[..., Awaitable[None]] = getattr(ObjectStoreContract(), name)
        if list(inspect.signature(test).parameters) != ["store"]:
            continue
        try:
            await test(make())
        except (Exception, pytest.fail.Exception):  # noqa: BLE001  any failure counts
            failed.add(name)
    return failed


@pytest.mark.parametrize(
    ("liar", "noticed_by"),
    [
        (LyingSwap, "test_a_swap_wins_once_for_each_etag"),
        (LyingSwap, "test_racing_counters_lose_no_step"),
        (OverwritingCreate, "test_an_object_that_exists_is_not_overwritten"),
        (RacyCreate, "test_of_racing_creators_one_wins_and_its_bytes_stay"),
        (ShortRange, "test_a_range_is_exactly_as_long_as_asked_for"),
        (BlindToChecksums, "test_bytes_that_changed_on_the_way_are_never_seen"),
    ],
)
async def test_the_contract_notices_a_store_that_lies(
    liar: type[MemoryStore], noticed_by: str
) -> None:
    assert noticed_by in await failing(lambda: liar(SystemClock()))


async def test_the_contract_holds_nothing_against_a_store_that_does_not() -> None:
    assert await failing(lambda: MemoryStore(SystemClock())) == set()
