"""The fuzzer of batches, run for long, and shown to catch what it looks for."""

import time

import pytest

from tests.fuzz import batches
from tests.fuzz.batches import make_input, run
from tierlog.records.errors import BatchError

INPUTS = 30_000
SHARDS = 4


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_batch_breaks_its_readers(shard: int) -> None:
    stats = run(1, INPUTS // SHARDS, first=shard * INPUTS // SHARDS)
    assert not stats.failures, stats.failures[0]
    assert stats.inputs == INPUTS // SHARDS


def test_a_short_run_reaches_every_reader_both_ways() -> None:
    stats = run(2, 600)
    assert not stats.failures, stats.failures[0]
    for reader in batches.READERS:
        outcomes = {o.rpartition(": ")[2] for o in stats.outcomes if o.startswith(f"{reader}: ")}
        assert "read" in outcomes, reader
        assert len(outcomes) > 1, reader


def test_an_input_follows_from_seed_and_index_alone() -> None:
    assert [make_input(7, i) for i in range(50)] == [make_input(7, i) for i in range(50)]
    assert make_input(7, 0) != make_input(8, 0)


def planted(monkeypatch: pytest.MonkeyPatch, reader: object) -> str:
    """The failure that a run finds when one reader is replaced."""
    monkeypatch.setitem(batches.READERS, "parse_header", reader)
    (failure,) = run(3, 10).failures
    return failure


def test_a_foreign_exception_is_caught_and_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(data: bytes) -> None:
        raise IndexError("planted")

    failure = planted(monkeypatch, breaks)
    assert "IndexError('planted')" in failure
    assert make_input(3, 0).hex() in failure
    assert "python -m tests.fuzz.batches --seed 3 --index 0" in failure


def test_a_slow_reader_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def spins(data: bytes) -> None:
        until = time.process_time() + 0.06
        while time.process_time() < until:
            pass

    assert "s of CPU" in planted(monkeypatch, spins)


def test_a_greedy_reader_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def grabs(data: bytes) -> None:
        bytes(100_000_000)
        raise BatchError("planted")

    assert "bytes" in planted(monkeypatch, grabs)
