"""Whatever is done to a bucket, an audit finds it and no consumer is served wrong bytes: a few, and
a few hundred. `make tamper` takes a thousand."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from tests.tamper.bucket import PLACES, make_bucket
from tests.tamper.damages import DEEDS
from tests.tamper.search import take
from tests.tamper.versioned import VersionedStore
from tierlog.objectstore.memory import MemoryStore

SLICES, SLICE = 8, 30


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def failures(seeds: range) -> str:
    async def all_of_them() -> list[str]:
        cases = [await take(seed) for seed in seeds]
        return [str(case) for case in cases if case.problems]

    return "\n".join(asyncio.run(all_of_them()))


@pytest.mark.parametrize("store", [MemoryStore, VersionedStore])
def test_a_sound_bucket_has_no_findings(store: type[MemoryStore]) -> None:
    async def scenario() -> None:
        for seed in range(7):
            bucket = await make_bucket(seed, store)
            for is_deep in (False, True):
                report = await bucket.auditor(is_deep=is_deep).run()
                assert not report.findings
                assert not any(one.notes for one in report.partitions)

    asyncio.run(scenario())


def test_the_bucket_has_everything_that_a_bucket_may_have() -> None:
    async def scenario() -> None:
        bucket = await make_bucket()
        heads = [bucket.head(place) for place in PLACES]
        assert any(head.indexes for head in heads)
        assert any(head.leaves for head in heads)
        assert any(head.entries for head in heads)
        assert any(head.garbage for head in heads)
        assert any(head.skips for head in heads)
        assert any(head.log_start > 0 for head in heads)
        assert len(set(DEEDS)) == 8

    asyncio.run(scenario())


def test_damage_is_found_located_and_never_served() -> None:
    assert not failures(range(20))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1000 + SLICES * SLICE, SLICE))
def test_many_damages_are_found_located_and_never_served(first: int) -> None:
    assert not failures(range(first, first + SLICE))
