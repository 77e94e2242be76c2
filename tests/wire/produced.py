"""The two readers of Produce side by side: one shape for both, and where they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.wire.codec import decode_whole
from tierlog.wire.errors import WireError
from tierlog.wire.messages.produce import ProduceRequest
from tierlog.wire.produce import TOPIC_IDS_FROM, Produced, read_produce

if TYPE_CHECKING:
    from collections.abc import Callable


def flat(message: ProduceRequest, version: int) -> Produced:
    """The compiled reader's message in the shape of the hand-written one."""
    return Produced(
        message.transactional_id,
        message.acks,
        message.timeout_ms,
        [
            (
                (topic.topic_id if version >= TOPIC_IDS_FROM else topic.name),
                [
                    (part.index, None if part.records is None else memoryview(part.records))
                    for part in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ],
    )


def by_hand(version: int, data: bytes, position: int = 0) -> Produced | str:
    """What the hand-written reader reads, or the name of its refusal."""
    return _outcome(lambda: read_produce(version, data, position))


def compiled(version: int, data: bytes, position: int = 0) -> Produced | str:
    """What the compiled reader reads, or the name of its refusal."""
    return _outcome(lambda: flat(decode_whole(ProduceRequest, version, data, position), version))


def agree(ours: Produced | str, theirs: Produced | str) -> bool:
    """The same value, or a refusal each. A string cut off inside a letter has two names for it."""
    if isinstance(ours, str) and isinstance(theirs, str):
        return ours == theirs or {ours, theirs} == {"Truncated", "BadString"}
    return ours == theirs


def _outcome(read: Callable[[], Produced]) -> Produced | str:
    try:
        return read()
    except WireError as error:
        return type(error).__name__
