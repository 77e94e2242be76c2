"""Every message and version that kafka-python has a class for, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.wire import kafka_python_oracle
from tests.wire.values import Values, every_message
from tierlog.wire.codec import decode_whole, encode
from tierlog.wire.messages.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from tierlog.wire.schema import Message

pytestmark = pytest.mark.compat

SEEDS = range(50)
UNKNOWN = ("ConsumerGroupDescribe", "ConsumerGroupHeartbeat")
KNOWN = [kind for kind in every_message() if not kind.__name__.startswith(UNKNOWN)]


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.__name__)
def test_bytes_agree_with_kafka_python_both_ways(kind: type[Message]) -> None:
    for version in kind.versions:
        for seed in SEEDS:
            message = Values(seed).message(kind, version)
            theirs = kafka_python_oracle.write(message, version)
            assert encode(message, version) == theirs, (version, seed, message)
            assert decode_whole(kind, version, theirs) == message, (version, seed)
            if kind is not ApiVersionsResponse:  # they read it as v0 whenever it has an error
                assert kafka_python_oracle.same(message, version, theirs), (version, seed)
