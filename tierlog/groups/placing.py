"""Puts the offsets of groups into a restored `__consumer_offsets`, before a node starts on it.

Each is written as if it were committed now: how long the offsets of an empty group are kept counts
from the restore, not from a commit of long ago. Written twice, they say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.cold.restore import CannotPlace
from tierlog.groups.formats import OffsetKey, OffsetValue, encode_key, encode_value
from tierlog.groups.service import TOPIC, java_hash
from tierlog.hot import LogSettings
from tierlog.metastore import values
from tierlog.records.batch import parse_header
from tierlog.records.record import Record, encode_batch
from tierlog.types import LeaderEpoch, Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.cold.clusteroffsets import Groups
    from tierlog.cold.clusterstate import ClusterState
    from tierlog.env import Env
    from tierlog.hot import Log, LogDirectory

RECORDS_A_BATCH: Final = 1000

Pair = tuple[OffsetKey, OffsetValue]


async def place_offsets(
    env: Env, directory: LogDirectory, state: ClusterState, groups: Groups
) -> None:
    """Durable when it returns. Raises `CannotPlace` where the topic did not come back."""
    found = [key for key, one in state.topics.items() if one.name == TOPIC]
    if not found:
        raise CannotPlace(
            f"the offsets of {len(groups)} groups do not come back: the bucket does not know "
            f"{TOPIC}, in which they belong"
        )
    (topic_id,) = found
    count = state.topics[topic_id].partitions
    by_shard: dict[int, list[Pair]] = {}
    now_ms = env.clock.now_ms()
    for group, pair in _pairs(groups, state, now_ms):
        by_shard.setdefault(java_hash(group) % count, []).append(pair)
    for index, pairs in sorted(by_shard.items()):
        name = values.log_name(bytes.fromhex(topic_id), index)
        log = await directory.open_log(name, LogSettings(contiguous=False))
        try:
            await _write(log, pairs, now_ms)
        finally:
            await log.close()


def _pairs(groups: Groups, state: ClusterState, now_ms: int) -> Iterator[tuple[str, Pair]]:
    for group, rows in groups.items():
        for spot, one in rows.items():
            topic = state.topics[spot.topic_id].name
            key = OffsetKey(group=group, topic=topic, partition=spot.partition)
            value = OffsetValue(
                offset=one.offset,
                leader_epoch=one.leader_epoch,
                metadata=one.metadata,
                commit_timestamp=now_ms,
                topic_id=bytes.fromhex(spot.topic_id),
            )
            yield group, (key, value)


async def _write(log: Log, pairs: list[Pair], now_ms: int) -> None:
    epoch = LeaderEpoch(max(log.epochs.latest, 0))
    for first in range(0, len(pairs), RECORDS_A_BATCH):
        records = [
            Record(Offset(number), TimestampMs(now_ms), encode_key(key), encode_value(value))
            for number, (key, value) in enumerate(pairs[first : first + RECORDS_A_BATCH])
        ]
        batch = memoryview(encode_batch(records))
        log.append(batch, parse_header(batch), leader_epoch=epoch, now_ms=now_ms)
        await log.wait_visible(log.log_end)
