"""The receipt of a deleted topic: what there was, and that no data of it is left.

Written once, when the last segment and page of the topic is gone and before its manifests go: they
are what it quotes. So it outlives them, and whoever asks later what became of a topic id is told.
Gzip-compressed canonical JSON. `docs/format/topic-receipt.md` has the members.
"""

from dataclasses import dataclass

from tierlog.cold import canonical
from tierlog.cold.clusterstate import PARTITIONS_MAX
from tierlog.cold.errors import NewerFormat
from tierlog.cold.fields import Fields
from tierlog.cold.head import Incarnation
from tierlog.types import Bytes

FORMAT = 1
KIND = "topic"
RECEIPT_BYTES_MAX = 256 << 20
"""Unpacked; a million partitions of 200 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastHead:
    """What the last manifest of a partition said."""

    partition: int
    version: int
    sha256: str
    """Of the object's bytes as stored."""
    log_start: int
    next_offset: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReceipt:
    cluster_id: str
    incarnation: Incarnation
    """Of the life that swept."""
    node: int
    topic: str
    topic_id: str
    deleted_ms: int
    """When the deletion came to the bucket."""
    swept_ms: int
    partitions: tuple[LastHead, ...]
    """Those that had published something."""


def encode(receipt: TopicReceipt) -> bytes:
    value = {
        "format": FORMAT,
        "kind": KIND,
        "cluster_id": receipt.cluster_id,
        "incarnation": receipt.incarnation._asdict(),
        "node": receipt.node,
        "topic": receipt.topic,
        "topic_id": receipt.topic_id,
        "deleted_ms": receipt.deleted_ms,
        "swept_ms": receipt.swept_ms,
        "partitions": [
            {
                "partition": one.partition,
                "version": one.version,
                "sha256": one.sha256,
                "log_start": one.log_start,
                "next_offset": one.next_offset,
                "records": one.records,
                "bytes": one.bytes,
            }
            for one in receipt.partitions
        ],
    }
    return canonical.compress(canonical.to_bytes(value))


def decode(data: Bytes, *, key: str) -> TopicReceipt:
    """Raises `ColdCorrupt` and `NewerFormat`: the bucket is input."""
    whole = canonical.decompress(data, key=key, size_max=RECEIPT_BYTES_MAX)
    fields = Fields(canonical.from_bytes(whole, key=key), key=key, place=key)
    if (found := fields.integer("format", 1)) > FORMAT:
        raise NewerFormat(key, found=found, known=FORMAT)
    if fields.text("kind") != KIND:
        fields.refuse("kind", f"is not {KIND}")
    life = fields.inner("incarnation")
    receipt = TopicReceipt(
        cluster_id=fields.text("cluster_id"),
        incarnation=Incarnation(life.integer("number", 1), life.text("id")),
        node=fields.integer("node"),
        topic=fields.text("topic"),
        topic_id=fields.text("topic_id"),
        deleted_ms=fields.integer("deleted_ms"),
        swept_ms=fields.integer("swept_ms"),
        partitions=tuple(_last_head(one) for one in fields.inners("partitions", PARTITIONS_MAX)),
    )
    life.close()
    fields.close()
    return receipt


def _last_head(fields: Fields) -> LastHead:
    head = LastHead(
        partition=fields.integer("partition"),
        version=fields.integer("version"),
        sha256=fields.text("sha256"),
        log_start=fields.integer("log_start"),
        next_offset=fields.integer("next_offset"),
        records=fields.integer("records"),
        bytes=fields.integer("bytes"),
    )
    fields.close()
    return head
