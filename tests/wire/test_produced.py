"""The hand-written Produce response is the compiled one, byte for byte."""

import pytest

from tierlog.wire.header import encode_response
from tierlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tierlog.wire.produced import produced_writer


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("name", ["t", "a" * 126, "a" * 127, "a" * 249])
def test_equals_the_compiled_codec(version: int, name: str) -> None:
    topic = bytes(range(16)) if version >= 13 else name
    offset, time_ms, start = 2**40 + 7, 1_700_000_000_123, 99
    made = produced_writer(version, topic, 5)(77, offset, time_ms, start)
    named = {"topic_id": topic} if version >= 13 else {"name": topic}
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                **named,  # type: ignore[arg-type]  # an id or a name, as the version wants
                partition_responses=[
                    PartitionProduceResponse(
                        index=5,
                        error_code=0,
                        base_offset=offset,
                        log_append_time_ms=time_ms,
                        log_start_offset=start,
                    )
                ],
            )
        ]
    )
    assert made == b"".join(encode_response(response, version, correlation_id=77))
