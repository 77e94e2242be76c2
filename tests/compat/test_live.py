"""Real clients, driven now, against the recorder: they understand us and we understand them.

kcat comes from the system's packages; `tests/compat/install.sh` gets it. Where it is missing its
tests are skipped, under CI=true they fail.
"""

import os
import shutil
from collections.abc import Mapping

import pytest

from tests.compat.checks import batches_of, check_request, check_response
from tests.compat.clients import CLIENTS, Client
from tests.compat.flows import CLASSIC_FLOWS, FLOWS, MESSAGES, TOPIC, messages_for
from tests.compat.recorder import CEILINGS, CLASSIC, Recorder, recording
from tierlog.records.header import parse_header
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.header import decode_request

pytestmark = [
    pytest.mark.compat,
    # kafka-python reads its schemas that way when it is imported.
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),
]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    if found.name == "kcat" and shutil.which("kcat") is None and os.environ.get("CI") != "true":
        pytest.skip("kcat is not installed: tests/compat/install.sh")
    return found


def drive(client: Client, flow: str, ceilings: Mapping[ApiKey, int]) -> Recorder:
    """Run a flow; everything that was said must stand all checks."""
    with recording(ceilings=ceilings) as recorder:
        FLOWS[flow](client, f"127.0.0.1:{recorder.world.port}")
    assert recorder.faults == []
    for one in recorder.exchanges:
        check_request(one.request)
        if one.response is not None:
            check_response(one.api, one.version, one.response)
    return recorder


def codecs_sent(recorder: Recorder) -> set[str]:
    return {
        parse_header(batch).codec.name.lower()
        for one in recorder.exchanges
        for batch in batches_of(decode_request(one.request)[1])
    }


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_client_reads_back_what_it_wrote_in_every_codec(client: Client, codec: str) -> None:
    assert codecs_sent(drive(client, f"codec {codec}", CEILINGS)) == {codec}


@pytest.mark.parametrize("flow", ["acks 0", "acks all"])
def test_a_client_reads_back_what_it_wrote_with_other_acks(client: Client, flow: str) -> None:
    recorder = drive(client, flow, CEILINGS)
    unanswered = [one for one in recorder.exchanges if one.response is None]
    assert bool(unanswered) == (flow == "acks 0")


def test_an_idempotent_producer_uses_its_id_and_a_group_commits_where_it_ended(
    client: Client,
) -> None:
    recorder = drive(client, "idempotent and group", CEILINGS)
    headers = [header for one in recorder.exchanges for header in check_request(one.request)]
    assert headers
    assert all(header.has_producer for header in headers)
    committed, _ = recorder.world.group("readers").committed[TOPIC, 0]
    assert committed == recorder.world.topics[TOPIC].partitions[0].end == len(messages_for(client))


@pytest.mark.parametrize(
    "client", [one for one in CLIENTS if one.name != "kcat"], ids=lambda client: client.name
)
def test_a_transaction_runs_to_its_end(client: Client) -> None:
    """kcat has no transactions."""
    recorder = drive(client, "transaction", CEILINGS)
    assert {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN} <= {one.api for one in recorder.exchanges}
    assert recorder.world.topics[TOPIC].partitions[0].end == len(MESSAGES)


def test_admin_requests_are_understood(client: Client) -> None:
    recorder = drive(client, "admin", CEILINGS)
    assert "made-by-admin" not in recorder.world.topics
    assert ApiKey.METADATA in {one.api for one in recorder.exchanges}


@pytest.mark.parametrize("flow", CLASSIC_FLOWS)
def test_a_client_gets_along_with_a_broker_without_flexible_versions(
    client: Client, flow: str
) -> None:
    recorder = drive(client, flow, CLASSIC)
    assert all(one.version <= CLASSIC[one.api] for one in recorder.exchanges)
