"""What a stream had and no longer finds: a topic that is gone, or another one by its name. Pure.

Spark's Kafka source compares a batch's two ends: a partition that is missing from the later one, or
that ends before it began, is a loss. So here; and within one reader a topic that has another id is
a loss as well, also where the new one is longer already than what was read of the old one. The
checkpoint has Kafka's shape, which has no room for ids: a reader that is started anew knows none.

Where a loss does not matter the stream begins such a partition again at its first offset. An end
that lies before its start says so in the checkpoint, and means the same to whoever plans that batch
again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tierlog.spark.errors import DataLost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierlog.spark.bounds import PartitionName
    from tierlog.spark.options import ReadOptions
    from tierlog.spark.pins import Pinned

logger = logging.getLogger(__name__)

ANEW = (
    "start the query with a new checkpoint to read what is there from its beginning, or with "
    "failOnDataLoss=false to go on at the first offset that is there"
)


def losses(
    seen: Mapping[PartitionName, int],
    pinned: Mapping[PartitionName, Pinned],
    ids: Mapping[str, str],
) -> dict[PartitionName, str]:
    """What was lost of partitions that the stream has read up to `seen`, in a sentence each."""
    found: dict[PartitionName, str] = {}
    for name, at in sorted(seen.items()):
        one = pinned.get(name)
        if one is None:
            found[name] = f"{name} is gone, and the stream has read it up to offset {at}"
        elif is_another(one, ids):
            found[name] = (
                f"{name.topic} was deleted and made anew while the stream ran: what followed "
                f"offset {at} of partition {name.partition} may be lost"
            )
        elif one.latest < at:
            found[name] = (
                f"{name} ends at offset {one.latest}, and the stream has read it up to {at}: it "
                "was deleted and made anew, or is read without the brokers that had its tail"
            )
    return found


def is_another(one: Pinned, ids: Mapping[str, str]) -> bool:
    """Whether this is no longer the topic that had the name."""
    assert one.place.topic_id is not None, "what is pinned has an id"
    return ids.get(one.name.topic, one.place.topic_id) != one.place.topic_id


def ids_of(pinned: Mapping[PartitionName, Pinned]) -> dict[str, str]:
    return {name.topic: one.place.topic_id or "" for name, one in pinned.items()}


def report(options: ReadOptions, sentence: str, *, instead: str = ANEW) -> None:
    """Raises `DataLost`, unless that does not matter."""
    if options.fail_on_data_loss:
        raise DataLost(f"{sentence}; {instead}")
    logger.warning("%s; failOnDataLoss=false: what is there is read", sentence)


def before(end: int, seen: int, earliest: int) -> int:
    """An end of a partition that begins again: one that says so, by lying before `seen`."""
    return min(end, seen - 1) if seen > earliest else end
