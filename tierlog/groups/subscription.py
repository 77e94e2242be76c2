"""What a consumer says for itself when it joins a classic group: its subscription, Kafka's
`ConsumerProtocolSubscription`. To the coordinator it is opaque but for the topics in it."""

from __future__ import annotations

import struct
from typing import Final

from tierlog.wire.codec import decode
from tierlog.wire.errors import WireError
from tierlog.wire.schema import Message, array, string

CONSUMER: Final = "consumer"
"""The protocol type of groups whose members say it so."""
_SHORT = struct.Struct(">h")


class Subscription(Message, versions="0"):
    """What all versions begin with."""

    topics: list[str] = array(string)


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """None for what is not in these words: clients may say what they like."""
    if len(metadata) < _SHORT.size:
        return None
    try:
        return decode(Subscription, 0, metadata, _SHORT.size)[0].topics
    except WireError:
        return None
