"""What the recorder remembers: topics with their batches, groups of one member, producer ids.

A small honest broker state in memory: what a client wrote is what it reads. One node, one replica,
nothing is ever synced, groups take one member at a time, transactions are taken at their word.
Ids and member names are counted, not drawn, so that a capture differs from the last one only where
the client does.
"""

import asyncio
from dataclasses import dataclass, field

from tierlog.records.batch import iter_batches, patch_offset, validate_produced
from tierlog.records.record import decode_records
from tierlog.types import Bytes, LeaderEpoch, Offset

NODE_ID = 1
LEADER_EPOCH = LeaderEpoch(3)
START = Offset(0)
BATCH_BYTES_MAX = 1 << 20


@dataclass(slots=True)
class Partition:
    """Batches as sent, with their offsets assigned."""

    log: bytearray = field(default_factory=bytearray)
    end: Offset = START

    def append(self, records: Bytes) -> Offset:
        """Check the batch as a broker must, and every record in it; then keep it."""
        batch = bytearray(records)
        header = validate_produced(memoryview(batch), BATCH_BYTES_MAX)
        decode_records(batch, dense=True)
        base = self.end
        patch_offset(batch, base, LEADER_EPOCH)
        self.log += batch
        self.end = Offset(base + header.record_count)
        return base

    def read(self, offset: int) -> bytes:
        """Whole batches from the one that holds the offset."""
        for position, header in iter_batches(self.log):
            if header.next_offset > offset:
                return bytes(self.log[position:])
        return b""

    def offset_at(self, timestamp: int) -> tuple[int, int]:
        """Timestamp and offset of the first record at or after a time; -1, -1 without one."""
        for position, _ in iter_batches(self.log):
            for record in decode_records(bytes(self.log[position:])):
                if record.timestamp >= timestamp:
                    return record.timestamp, record.offset
        return -1, -1


@dataclass(slots=True)
class Topic:
    name: str
    id: bytes
    partitions: list[Partition]


@dataclass(slots=True)
class Group:
    """A group that is happy with its only member."""

    generation: int = 0
    member: str = ""
    protocol_type: str = ""
    protocol: str = ""
    metadata: bytes = b""
    assignment: bytes = b""
    committed: dict[tuple[str, int], tuple[int, str | None]] = field(default_factory=dict)


class World:
    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.host = "127.0.0.1"
        self.port = 0
        self.appended = asyncio.Condition()
        self._ids = 0

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    def create(self, name: str, partitions: int) -> Topic:
        """A topic with an id that is neither zero nor used before, also after a delete."""
        topic = Topic(
            name=name,
            id=b"tierlog-" + self.next_id().to_bytes(8, "big"),
            partitions=[Partition() for _ in range(partitions)],
        )
        self.topics[name] = topic
        return topic

    def find(self, *, name: str = "", topic_id: bytes = b"") -> Topic | None:
        if name:
            return self.topics.get(name)
        return next((topic for topic in self.topics.values() if topic.id == topic_id), None)

    def partition(self, topic: Topic | None, index: int) -> Partition | None:
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def group(self, group_id: str) -> Group:
        return self.groups.setdefault(group_id, Group())
