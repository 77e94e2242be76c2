"""Who gets how many of the files that the process may open."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.broker.fileshares import PER_CONNECTION, files_wanted, share_files
from tierlog.hot.directory import FILES_MAX


@given(files_max=st.integers(16, 100_000), connections_max=st.integers(1, 50_000))
def test_the_shares_fit_and_nobody_is_left_without(files_max: int, connections_max: int) -> None:
    shares = share_files(files_max, connections_max=connections_max)
    taken = shares.logs + PER_CONNECTION * shares.connections
    assert taken <= files_max - min(files_max // 8, 128)
    assert 1 <= shares.connections <= connections_max
    assert 1 <= shares.logs <= FILES_MAX


def test_with_as_many_as_are_wanted_all_have_all_they_want(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for connections_max in (1, 100, 10_000):
        wanted = files_wanted(connections_max=connections_max)
        shares = share_files(wanted, connections_max=connections_max)
        assert (shares.logs, shares.connections) == (FILES_MAX, connections_max)
        shares.warn_if_short()
    assert caplog.records == []


def test_too_few_files_for_the_connections_are_told(caplog: pytest.LogCaptureFixture) -> None:
    shares = share_files(1024, connections_max=10_000)
    assert (shares.logs, shares.connections) == (224, 336)
    shares.warn_if_short()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "1024 files (ulimit -n): there can be 336 connections" in record.getMessage()


def test_few_connections_leave_more_to_the_logs() -> None:
    shares = share_files(1024, connections_max=100)
    assert (shares.logs, shares.connections) == (696, 100)
