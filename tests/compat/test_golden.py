"""Bytes that real clients sent: every frame decodes, and encodes to the same bytes again.

No client is needed here; `tests/compat/capture.py` writes the files anew.
"""

import functools
import re
from pathlib import Path

import pytest

from tests.compat import golden
from tests.compat.checks import check_request, check_response
from tests.compat.golden import Golden
from tierlog.records.attributes import Codec
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.header import read_request_header

CLIENTS = ("aiokafka", "confluent-kafka", "kafka-python", "kcat")


@functools.cache
def everything() -> tuple[tuple[Path, Golden], ...]:
    return tuple((path, line) for path in golden.files() for line in golden.read(path))


def of_client(name: str) -> list[Golden]:
    pattern = re.compile(re.escape(name) + r"-\d[\d.]*\.jsonl")
    return [line for path, line in everything() if pattern.fullmatch(path.name)]


@pytest.mark.parametrize("client", CLIENTS)
def test_every_request_of_a_client_decodes_and_encodes_to_the_same_bytes(client: str) -> None:
    lines = of_client(client)
    assert len(lines) > 25
    for line in lines:
        check_request(line.request)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_answer_a_client_accepted_decodes_and_encodes_to_the_same_bytes(client: str) -> None:
    for line in of_client(client):
        if line.response is not None:
            check_response(line.api, line.version, line.response)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_codec_of_a_client_is_there_and_its_batches_are_sound(client: str) -> None:
    headers = [header for line in of_client(client) for header in check_request(line.request)]
    assert {header.codec for header in headers} == set(Codec)
    assert any(header.has_producer for header in headers)


def test_api_and_version_of_a_line_are_those_of_its_frame() -> None:
    for _, line in everything():
        header, _ = read_request_header(line.request)
        assert (header.api_key, header.api_version) == (line.api, line.version)


def test_only_produce_without_acks_went_unanswered() -> None:
    silent = {(line.flow, line.api) for _, line in everything() if line.response is None}
    assert silent == {("acks 0", ApiKey.PRODUCE)}


def test_the_versions_are_those_that_the_clients_prefer() -> None:
    """Against everything on offer; when a client's new release moves on, this shows it."""
    newest = {
        client: {
            api: max(line.version for line in of_client(client) if line.api is api)
            for api in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH)
        }
        for client in CLIENTS
    }
    assert {client: tuple(found.values()) for client, found in newest.items()} == {
        "aiokafka": (0, 5, 7, 11),
        "confluent-kafka": (3, 13, 10, 16),
        "kafka-python": (4, 13, 9, 12),
        "kcat": (3, 4, 7, 11),
    }


def test_golden_files_are_small_and_name_no_machine() -> None:
    assert sum(path.stat().st_size for path in golden.files()) < golden.FOLDER_BYTES_MAX
    for path, line in everything():
        for frame in (line.request, line.response or b""):
            assert len(frame) <= golden.FRAME_BYTES_MAX
            assert not re.search(rb"/(home|root|tmp|usr|work|var)/|localhost", frame), path
        client_id = read_request_header(line.request)[0].client_id
        assert client_id is not None
        assert client_id.startswith("tierlog-compat"), path
