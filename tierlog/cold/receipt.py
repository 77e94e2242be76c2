"""Deletion receipts: what was deleted, when, why and under which policy. `docs/format/receipt.md`.

One immutable object for each round of deletions, gzipped canonical JSON. It is written behind the
deletions and before HEAD forgets them. So there is none for an object that was not deleted, and a
crash in between ends with one: whoever goes on deletes the same objects again, which is no error,
and finds or writes the receipt under the same key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from tierlog.cold import canonical
from tierlog.cold.errors import ColdCorrupt, NewerFormat
from tierlog.cold.fields import Fields
from tierlog.cold.head import REASONS, Head, Incarnation, Writer
from tierlog.cold.layout import KEY_CHARACTERS_MAX, parse_segment_key, receipt_key
from tierlog.types import Bytes, LeaderEpoch, Offset

FORMAT = 1
OBJECTS_MAX = 100_000
BYTES_MAX = 64 << 20


class Deleted(NamedTuple):
    """A segment object that is gone."""

    key: str
    version_id: str | None
    sha256: str
    size: int
    base: Offset
    last: Offset
    why: str
    policy_version: int
    """By which its records expired."""
    expired_ms: int
    """When they stopped being served."""
    not_before_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    topic: str
    topic_id: str
    partition: int
    incarnation: Incarnation
    writer: Writer
    """Who deleted."""
    deleted_ms: int
    policy_version: int
    """Of the HEAD that was read before the deletions."""
    head_version: int
    log_start: Offset
    chain_anchor: str
    """The chain's value before the first entry that this HEAD still listed."""
    objects: tuple[Deleted, ...]
    """At least one, in the order of their offsets."""

    @property
    def key(self) -> str:
        """Relative to the partition; of the objects' own keys, which are never used twice."""
        digest = sha256("\n".join(one.key for one in self.objects).encode()).hexdigest()
        last = max(one.last for one in self.objects)
        return receipt_key(first=self.objects[0].base, last=last, digest=digest)


def receipt_for(head: Head, objects: Sequence[Deleted], *, now_ms: int) -> Receipt:
    return Receipt(
        topic=head.topic,
        topic_id=head.topic_id,
        partition=head.partition,
        incarnation=head.incarnation,
        writer=head.writer,
        deleted_ms=now_ms,
        policy_version=head.policy_version,
        head_version=head.version,
        log_start=head.log_start,
        chain_anchor=head.chain_anchor,
        objects=tuple(sorted(objects, key=lambda one: (one.base, one.key))),
    )


def encode_receipt(receipt: Receipt) -> bytes:
    return canonical.compress(
        canonical.to_bytes(
            {
                "chain_anchor": receipt.chain_anchor,
                "deleted_ms": receipt.deleted_ms,
                "format": FORMAT,
                "head_version": receipt.head_version,
                "incarnation": receipt.incarnation._asdict(),
                "kind": "receipt",
                "log_start": receipt.log_start,
                "objects": [one._asdict() for one in receipt.objects],
                "partition": receipt.partition,
                "policy_version": receipt.policy_version,
                "topic": receipt.topic,
                "topic_id": receipt.topic_id,
                "writer": receipt.writer._asdict(),
            }
        )
    )


def decode_receipt(data: Bytes, *, key: str) -> Receipt:
    plain = canonical.decompress(data, key=key, size_max=BYTES_MAX)
    fields = Fields(canonical.from_bytes(plain, key=key), key=key, place="receipt")
    found = fields.integer("format", 1)
    if found > FORMAT:
        raise NewerFormat(key, found=found, known=FORMAT)
    if fields.text("kind") != "receipt":
        raise ColdCorrupt(key, "it is no receipt")
    incarnation, writer = fields.inner("incarnation"), fields.inner("writer")
    receipt = Receipt(
        topic=fields.text("topic"),
        topic_id=fields.text("topic_id"),
        partition=fields.integer("partition"),
        incarnation=Incarnation(incarnation.integer("number"), incarnation.text("id")),
        writer=Writer(LeaderEpoch(writer.integer("leader_epoch")), writer.text("process")),
        deleted_ms=fields.integer("deleted_ms"),
        policy_version=fields.integer("policy_version"),
        head_version=fields.integer("head_version"),
        log_start=Offset(fields.integer("log_start")),
        chain_anchor=fields.digest("chain_anchor"),
        objects=tuple(_read_deleted(one) for one in fields.inners("objects", OBJECTS_MAX)),
    )
    for one in (fields, incarnation, writer):
        one.close()
    if not receipt.objects:
        fields.refuse("objects", "is empty")
    return receipt


def _read_deleted(fields: Fields) -> Deleted:
    base = fields.integer("base")
    deleted = Deleted(
        key=fields.text("key", KEY_CHARACTERS_MAX),
        version_id=fields.maybe_text("version_id"),
        sha256=fields.digest("sha256"),
        size=fields.integer("size", 1),
        base=Offset(base),
        last=Offset(fields.integer("last", base)),
        why=fields.text("why"),
        policy_version=fields.integer("policy_version"),
        expired_ms=fields.integer("expired_ms", -1),
        not_before_ms=fields.integer("not_before_ms", -1),
    )
    fields.close()
    name = parse_segment_key(deleted.key)
    if name is None or (name.base, name.last) != (deleted.base, deleted.last):
        fields.refuse("key", "is not that of such a segment")
    if deleted.why not in REASONS:
        fields.refuse("why", f"is none of {', '.join(REASONS)}")
    return deleted
