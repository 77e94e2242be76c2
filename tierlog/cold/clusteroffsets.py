"""How far the groups came, as the bucket knows it: `cluster/OFFSETS`, as a value.

A copy of what stands in `__consumer_offsets`, at most half a minute old while the store answers. A
restore reads it, and nobody else. Topics are named by their ids: a name may be used again.

Gzip-compressed canonical JSON, replaced by compare-and-swap like STATE: `version` rises, `nonce`
tells whose write it was, `incarnation` and `writer` who may write. Unknown members and a newer
`format` are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tierlog.cold import canonical
from tierlog.cold.clusterstate import PARTITIONS_MAX, is_topic_id
from tierlog.cold.errors import NewerFormat
from tierlog.cold.fields import INTEGER_MAX, Fields
from tierlog.cold.head import Incarnation, Writer
from tierlog.cold.layout import OFFSETS
from tierlog.types import Bytes, LeaderEpoch, Offset

FORMAT = 1
OFFSETS_BYTES_MAX = 1 << 30
"""Unpacked; five million offsets of 200 bytes."""
GROUPS_MAX = 1_000_000
OFFSETS_MAX = 5_000_000
GROUP_CHARACTERS_MAX = 32_767
"""What a string of the protocol holds."""
METADATA_CHARACTERS_MAX = 1 << 20
EPOCH_MAX = 2**31 - 1


class Spot(NamedTuple):
    """A partition of a topic, whatever the topic is called."""

    topic_id: str
    partition: int


class GroupOffset(NamedTuple):
    """What a group committed for one partition."""

    offset: Offset
    leader_epoch: int
    """-1: the client did not say."""
    metadata: str
    committed_ms: int


Groups: TypeAlias = Mapping[str, Mapping[Spot, GroupOffset]]
"""By group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOffsets:
    version: int
    nonce: str
    cluster_id: str
    incarnation: Incarnation
    writer: Writer
    written_ms: int
    groups: Groups = field(default_factory=dict)


def encode_offsets(value: ClusterOffsets) -> bytes:
    return canonical.compress(canonical.to_bytes(_value(value)))


def _value(value: ClusterOffsets) -> dict[str, object]:
    return {
        "format": FORMAT,
        "kind": "offsets",
        "version": value.version,
        "nonce": value.nonce,
        "cluster_id": value.cluster_id,
        "incarnation": value.incarnation._asdict(),
        "writer": value.writer._asdict(),
        "written_ms": value.written_ms,
        "groups": [
            {"group": name, "offsets": [_row(spot, rows[spot]) for spot in sorted(rows)]}
            for name, rows in sorted(value.groups.items())
        ],
    }


def _row(spot: Spot, one: GroupOffset) -> dict[str, object]:
    row: dict[str, object] = {
        "topic_id": spot.topic_id,
        "partition": spot.partition,
        "offset": one.offset,
        "committed_ms": one.committed_ms,
    }
    # Most have neither: what says nothing is left out.
    if one.leader_epoch >= 0:
        row["leader_epoch"] = one.leader_epoch
    if one.metadata:
        row["metadata"] = one.metadata
    return row


def decode_offsets(data: Bytes) -> ClusterOffsets:
    """Raises `ColdCorrupt` and `NewerFormat`: the bucket is input."""
    plain = canonical.decompress(data, key=OFFSETS, size_max=OFFSETS_BYTES_MAX)
    fields = Fields(canonical.from_bytes(plain, key=OFFSETS), key=OFFSETS, place=OFFSETS)
    found = fields.integer("format", 1)
    if found > FORMAT:
        raise NewerFormat(OFFSETS, found=found, known=FORMAT)
    if fields.text("kind") != "offsets":
        fields.refuse("kind", "is not offsets")
    value = ClusterOffsets(
        version=fields.integer("version"),
        nonce=fields.text("nonce"),
        cluster_id=fields.text("cluster_id"),
        incarnation=_read_incarnation(fields.inner("incarnation")),
        writer=_read_writer(fields.inner("writer")),
        written_ms=fields.integer("written_ms"),
        groups=dict(_read_group(one) for one in fields.inners("groups", GROUPS_MAX)),
    )
    fields.close()
    return value


def _read_incarnation(fields: Fields) -> Incarnation:
    found = Incarnation(fields.integer("number", 1), fields.text("id"))
    fields.close()
    return found


def _read_writer(fields: Fields) -> Writer:
    found = Writer(
        LeaderEpoch(fields.integer("leader_epoch", 0, EPOCH_MAX)), fields.text("process")
    )
    fields.close()
    return found


def _read_group(fields: Fields) -> tuple[str, dict[Spot, GroupOffset]]:
    name = fields.text("group", GROUP_CHARACTERS_MAX)
    rows = dict(_read_row(one) for one in fields.inners("offsets", OFFSETS_MAX))
    fields.close()
    return name, rows


def _read_row(fields: Fields) -> tuple[Spot, GroupOffset]:
    topic_id = fields.text("topic_id")
    if not is_topic_id(topic_id):
        fields.refuse("topic_id", "is not 32 hexadecimal digits")
    spot = Spot(topic_id, fields.integer("partition", 0, PARTITIONS_MAX))
    has_epoch, has_metadata = fields.has("leader_epoch"), fields.has("metadata")
    one = GroupOffset(
        offset=Offset(fields.integer("offset", 0, INTEGER_MAX)),
        leader_epoch=fields.integer("leader_epoch", 0, EPOCH_MAX) if has_epoch else -1,
        metadata=fields.text("metadata", METADATA_CHARACTERS_MAX) if has_metadata else "",
        committed_ms=fields.integer("committed_ms"),
    )
    fields.close()
    return spot, one
