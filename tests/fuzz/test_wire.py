"""The fuzzer of the wire codecs, run for long, and shown to catch what it looks for."""

from __future__ import annotations

import time

import pytest

from tests.fuzz import wire
from tests.fuzz.wire import Input, corpus, make_input, run, warm_up
from tierlog.wire.errors import WireError
from tierlog.wire.messages.produce import ProduceRequest
from tierlog.wire.produce import Produced

INPUTS = 70_000
SHARDS = 7


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_frame_breaks_the_decoders(shard: int) -> None:
    warm_up()
    stats = run(1, INPUTS // SHARDS, first=shard * INPUTS // SHARDS)
    assert not stats.failures, stats.failures[0]
    assert stats.inputs == INPUTS // SHARDS


@pytest.mark.slow
def test_a_run_meets_acceptance_and_every_refusal() -> None:
    stats = run(2, 6_000)
    assert not stats.failures, stats.failures[0]
    refusals = {
        "BadLength", "BadString", "BadTags", "NullNotAllowed", "TrailingBytes", "Truncated",
        "UnknownApi", "UnsupportedVersion",
    }  # fmt: skip
    assert refusals | {"accepted"} <= stats.outcomes.keys()


def test_inputs_go_round_every_message_and_version() -> None:
    assert len(corpus()) == len(set(corpus())) > 400


def test_an_input_follows_from_seed_and_index_alone() -> None:
    assert [make_input(7, i) for i in range(20)] == [make_input(7, i) for i in range(20)]
    assert make_input(7, 0) != make_input(8, 0)


def planted(monkeypatch: pytest.MonkeyPatch, decoder: object) -> str:
    """The failure that a run finds when the request decoder is replaced."""
    monkeypatch.setattr(wire, "decode_request", decoder)
    (failure,) = run(3, 40).failures
    return failure


def test_a_foreign_exception_is_caught_and_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(frame: bytes) -> None:
        raise IndexError("planted")

    failure = planted(monkeypatch, breaks)
    assert "IndexError('planted')" in failure
    assert make_input(3, 0).frame.hex() in failure
    assert "python -m tests.fuzz.wire --seed 3 --index 0" in failure


def test_a_slow_decoder_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def spins(frame: bytes) -> None:
        until = time.process_time() + 0.06
        while time.process_time() < until:
            pass
        raise WireError("planted")

    assert "s of CPU" in planted(monkeypatch, spins)


def test_a_greedy_decoder_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def grabs(frame: bytes) -> None:
        bytes(100_000_000)
        raise WireError("planted")

    assert "bytes of memory" in planted(monkeypatch, grabs)


def test_readers_of_produce_that_differ_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def accepts_everything(version: int, frame: bytes, position: int = 0) -> Produced:
        return Produced(None, 0, 0, [])

    monkeypatch.setattr(wire, "by_hand", accepts_everything)
    first = next(i for i, (kind, _) in enumerate(corpus()) if kind is ProduceRequest)
    (failure,) = run(3, 40, first=first).failures
    assert "by hand" in failure


def test_an_input_for_a_response_names_its_api_and_version() -> None:
    made = [make_input(1, index) for index in range(len(corpus()))]
    assert {given.api is None for given in made} == {True, False}
    assert all(isinstance(given, Input) for given in made)
