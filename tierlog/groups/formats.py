"""What stands in `__consumer_offsets`: Kafka's own records, so that Kafka's tools can read it.

A key begins with its kind: 0 and 1 are a committed offset, 2 is a classic group, 3 to 8 are a
consumer group (`consumer_formats`). A value begins with its version. A null value takes away what
its key names. What we do not know we skip, as Kafka does: a newer node may have written it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from tierlog.errors import TierlogError
from tierlog.groups.consumer_formats import (
    CONSUMER_KINDS,
    VALUE_VERSION,
    ConsumerKey,
    ConsumerValue,
)
from tierlog.wire.codec import decode, encode
from tierlog.wire.schema import Message, Struct, array, bytes_, int32, int64, string, uuid

if TYPE_CHECKING:
    from tierlog.types import Bytes

OFFSET_KEY: Final = 1
OFFSET_VALUE_VERSION: Final = 3
OFFSET_VALUE_VERSION_WITH_ID: Final = 4
"""As Kafka writes since 4.1."""
NO_ID: Final = bytes(16)
GROUP_VALUE_VERSION: Final = 3

_SHORT: Final = struct.Struct(">h")

V = TypeVar("V", bound=Message)


class OffsetKey(Message, versions="0-1"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetValue(Message, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tag=0, default=NO_ID)
    """KAFKA-19141. The offset counts for no other topic that comes to have the name."""


class GroupKey(Message, versions="2-2"):
    group: str = string()


class GroupValue(Message, versions="0-4", flexible="4+"):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=True)
    leader: str | None = string(nullable=True)
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberValue] = array()


class MemberValue(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable=True, default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = bytes_()
    assignment: bytes = bytes_()


Key: TypeAlias = OffsetKey | GroupKey | ConsumerKey
Value: TypeAlias = OffsetValue | GroupValue | ConsumerValue


_KINDS: Final[dict[int, tuple[type[Key], type[Value]]]] = {
    0: (OffsetKey, OffsetValue),
    1: (OffsetKey, OffsetValue),
    2: (GroupKey, GroupValue),
    **CONSUMER_KINDS,
}
_VALUE_VERSIONS: Final[dict[type, int]] = {
    OffsetValue: OFFSET_VALUE_VERSION,
    GroupValue: GROUP_VALUE_VERSION,
}


class StateRecord(NamedTuple):
    """One change of what is remembered; without a value the key is forgotten."""

    key: Key
    value: Value | None


class UnknownKey(TierlogError):
    """A record of a kind or version that this node does not know."""


def encode_key(key: Key) -> bytes:
    kind = OFFSET_KEY if isinstance(key, OffsetKey) else type(key).versions.first
    return _SHORT.pack(kind) + encode(key, kind)


def encode_value(value: Value) -> bytes:
    version = _VALUE_VERSIONS.get(type(value), VALUE_VERSION)
    if isinstance(value, OffsetValue) and value.topic_id != NO_ID:
        version = OFFSET_VALUE_VERSION_WITH_ID
    return _SHORT.pack(version) + encode(value, version)


def decode_record(key: Bytes, value: Bytes | None) -> StateRecord:
    """Raises `UnknownKey` for what is to be skipped, and `WireError` for what is broken."""
    (kind,) = _SHORT.unpack_from(key)
    if kind not in _KINDS:
        raise UnknownKey(f"a record of kind {kind} in the group state")
    key_class, value_class = _KINDS[kind]
    return StateRecord(_read(key_class, kind, key), _value(value_class, value))


def _value(kind: type[V], value: Bytes | None) -> V | None:
    if value is None:
        return None
    (version,) = _SHORT.unpack_from(value)
    if version not in kind.versions:
        raise UnknownKey(f"{kind.__name__} of version {version}")
    return _read(kind, version, value)


def _read(kind: type[V], version: int, data: Bytes) -> V:
    return decode(kind, version, data, _SHORT.size)[0]
