"""Requests that a widespread client writes wrongly, and where to read them all the same.

One so far. librdkafka, asking Metadata v9+ for all topics, writes the null array as four zero bytes
where the compact form is one (its issue 5049, seen from confluent-kafka 2.16). Kafka reads the
first byte as the null, the next ones as fields, and does not look at the rest. A right request of
that shape is three bytes shorter, so the two cannot be mistaken for each other.
"""

from typing import Final

from tierlog.types import Bytes

ALL_TOPICS_BYTES: Final = {9: 8, 10: 8, 11: 7, 12: 7, 13: 7}
"""Of the wrong body: four zeros, auto creation, one or two questions about rights, tags."""
SURPLUS_BYTES: Final = 3


def asks_for_all_topics_wrongly(frame: Bytes, position: int, version: int) -> bool:
    """Whether the Metadata request whose body begins at `position` is librdkafka's."""
    return len(frame) - position == ALL_TOPICS_BYTES.get(version) and bytes(
        frame[position : position + 4]
    ) == bytes(4)
