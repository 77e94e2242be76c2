"""Every message and version, byte for byte against kio, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.wire import kio_oracle
from tests.wire.values import Values, every_message
from tierlog.wire.codec import decode_whole, encode

if TYPE_CHECKING:
    from tierlog.wire.schema import Message

pytestmark = pytest.mark.compat

SEEDS = range(100)


@pytest.mark.parametrize("kind", every_message(), ids=lambda kind: kind.__name__)
def test_bytes_agree_with_kio_both_ways(kind: type[Message]) -> None:
    for version in kind.versions:
        for seed in SEEDS:
            message = Values(seed).message(kind, version)
            entity = kio_oracle.as_entity(message, version)
            theirs = kio_oracle.write(entity)
            assert encode(message, version) == theirs, (version, seed, message)
            assert decode_whole(kind, version, theirs) == message, (version, seed)
            assert kio_oracle.read(type(entity), theirs) == entity, (version, seed)
