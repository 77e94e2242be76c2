"""The table of error codes."""

from __future__ import annotations

import pytest

from tierlog.wire.error_codes import ErrorCode


def test_codes_are_without_a_gap() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


def test_every_code_has_a_sentence_of_its_own() -> None:
    sentences = [code.sentence for code in ErrorCode]
    assert all(sentences)
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize(
    ("code", "retriable"),
    [
        (ErrorCode.NONE, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
        (ErrorCode.UNSUPPORTED_VERSION, False),
        (ErrorCode.PRODUCER_FENCED, False),
    ],
)
def test_clients_retry_what_may_pass(code: ErrorCode, retriable: bool) -> None:
    assert code.retriable is retriable


@pytest.mark.compat
def test_numbers_names_and_retries_agree_with_kio() -> None:
    from kio.schema.errors import ErrorCode as Theirs

    ours = {code.name.lower(): (int(code), code.retriable) for code in ErrorCode}
    assert ours == {code.name: (int(code), code.retriable) for code in Theirs}
