"""What must hold for every frame that a real client sent or accepted."""

from tests.compat.world import BATCH_BYTES_MAX
from tierlog.records.batch import validate_produced
from tierlog.records.header import BatchHeader
from tierlog.records.record import decode_records
from tierlog.types import Bytes
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.framing import SIZE_BYTES
from tierlog.wire.header import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from tierlog.wire.messages.produce import ProduceRequest
from tierlog.wire.quirks import SURPLUS_BYTES, asks_for_all_topics_wrongly


def check_request(frame: bytes) -> list[BatchHeader]:
    """It decodes with no byte left and encodes to the same bytes; returns the batches in it."""
    header, request = decode_request(frame)
    parts = encode_request(
        request,
        header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
    )
    again = b"".join(parts)[SIZE_BYTES:]
    body = read_request_header(frame)[1]
    if header.api_key == ApiKey.METADATA and asks_for_all_topics_wrongly(
        frame, body, header.api_version
    ):
        frame = frame[:body] + frame[body + SURPLUS_BYTES :]
    assert again == frame
    return [check_batch(records) for records in batches_of(request)]


def batches_of(request: object) -> list[Bytes]:
    if not isinstance(request, ProduceRequest):
        return []
    return [
        partition.records
        for topic in request.topic_data
        for partition in topic.partition_data
        if partition.records is not None
    ]


def check_batch(batch: Bytes) -> BatchHeader:
    header = validate_produced(batch, BATCH_BYTES_MAX)
    records = decode_records(batch, dense=True)
    assert len(records) == header.record_count
    return header


def check_response(api: ApiKey, version: int, frame: bytes) -> None:
    """What the client accepted decodes and encodes to the same bytes."""
    correlation_id, response = decode_response(api, version, frame)
    again = b"".join(encode_response(response, version, correlation_id=correlation_id))
    assert again[SIZE_BYTES:] == frame
