"""The Fetch response, written by hand: the message that takes the data out.

A `FetchWriter` packs each partition as it is given, without a `FetchResponse` and its structs in
between. The result is a list of parts for one gathering write: small headers, and between them the
record buffers themselves, never copied or joined. The bytes are those of the compiled codec; the
tests compare the two at every version.

Topics and partitions are counted against what was announced, since a client would read a wrong
count as garbage. What a version cannot carry is refused where the schema does not call it
ignorable. Everything wrong raises `EncodeError`; the writer is of no use afterwards.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from tierlog.wire.errors import EncodeError, UnsupportedVersion
from tierlog.wire.messages.fetch import FetchResponse
from tierlog.wire.primitives import STRING_BYTES_MAX, uvarint, uvarint_of_string

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.types import Bytes

FLEXIBLE_FROM: Final = FetchResponse.flexible.first
TOPIC_IDS_FROM: Final = 13
LOG_START_FROM: Final = 5
SESSIONS_FROM: Final = 7
LEADER_EPOCHS_FROM: Final = 9
PREFERRED_REPLICA_FROM: Final = 11
REPLICA_STATE_FROM: Final = 15
NODES_FROM: Final = 16

_THROTTLE: Final = struct.Struct(">i").pack
_THROTTLE_SESSION: Final = struct.Struct(">ihi").pack
_HEAD_V4: Final = struct.Struct(">ihqqi").pack
_HEAD: Final = struct.Struct(">ihqqqi").pack
_HEAD_FLEXIBLE: Final = struct.Struct(">ihqqq").pack
_HEAD_NO_ABORTED: Final = struct.Struct(">ihqqqBi").pack
_ABORTED: Final = struct.Struct(">qq").pack
_INT16: Final = struct.Struct(">h").pack
_INT32: Final = struct.Struct(">i").pack
_NO_TAGS: Final = b"\0"

_FAULTS: Final = (struct.error, UnicodeEncodeError, TypeError, AttributeError)
"""What a value raises that does not fit its field."""


class FetchWriter:
    """Writes one response. Topics and partitions come in order, as many as were announced."""

    __slots__ = (
        "_flexible",
        "_open_topic",
        "_partitions_left",
        "_parts",
        "_small",
        "_topics_left",
        "_version",
    )

    def __init__(
        self,
        version: int,
        *,
        topic_count: int,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
    ) -> None:
        if version not in FetchResponse.versions:
            raise UnsupportedVersion(
                message="FetchResponse", version=version, api_key=FetchResponse.api_key
            )
        self._version = version
        self._flexible = version >= FLEXIBLE_FROM
        self._parts: list[Bytes] = []
        self._open_topic = False
        self._topics_left = topic_count
        self._partitions_left = 0
        try:
            if version >= SESSIONS_FROM:
                self._small = [_THROTTLE_SESSION(throttle_time_ms, error_code, session_id)]
            elif session_id:
                raise self._not_carried("session id", session_id)
            else:
                self._small = [_THROTTLE(throttle_time_ms)]
            self._small.append(self._count(topic_count))
        except _FAULTS as fault:
            raise EncodeError(str(fault)) from None

    def topic(self, topic: str | bytes, *, partition_count: int) -> None:
        """Begin a topic: by name, from v13 on by its id of sixteen bytes."""
        self._close_topic()
        self._topics_left -= 1
        if self._topics_left < 0:
            raise EncodeError("more topics than were announced")
        self._open_topic = True
        self._partitions_left = partition_count
        try:
            if self._version < TOPIC_IDS_FROM:
                name = _name(topic)
                self._small.append(uvarint(len(name) + 1) if self._flexible else _INT16(len(name)))
                self._small += (name, self._count(partition_count))
                return
            if len(topic) != 16 or isinstance(topic, str):
                raise EncodeError(f"v{self._version} wants a topic id, not {topic!r:.100}")
            self._small += (topic, self._count(partition_count))
        except _FAULTS as fault:
            raise EncodeError(str(fault)) from None

    def partition(
        self,
        index: int,
        *,
        error_code: int = 0,
        high_watermark: int,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        aborted: Sequence[tuple[int, int]] | None = None,
        preferred_read_replica: int = -1,
        records: Bytes | None = None,
        more: Bytes = b"",
        tags: bytes = _NO_TAGS,
    ) -> None:
        """Add a partition. `aborted` are pairs of producer id and first offset; `more` goes on
        where `records` ends, in a buffer of its own.

        `tags` is a whole tag section, which `partition_tags` makes.
        """
        left = self._partitions_left - 1
        if left < 0:
            raise EncodeError(f"partition {index} was not announced by `topic`")
        self._partitions_left = left
        head = (index, error_code, high_watermark, last_stable_offset, log_start_offset)
        try:
            if not self._flexible:
                self._old_partition(head, aborted, preferred_read_replica, records, more, tags)
                return
            if aborted is None:
                self._small.append(_HEAD_NO_ABORTED(*head, 0, preferred_read_replica))
            else:
                self._small.append(_HEAD_FLEXIBLE(*head))
                self._small.append(_compact_aborted(aborted, preferred_read_replica))
            self._compact_records(records, more)
            self._small.append(tags)
        except _FAULTS as fault:
            raise EncodeError(str(fault)) from None

    def finish(self, tags: bytes = _NO_TAGS) -> list[Bytes]:
        """The parts. `tags` is a whole tag section, which `response_tags` makes."""
        self._close_topic()
        if self._topics_left:
            raise EncodeError(f"{self._topics_left} topics were announced and not written")
        if self._version < NODES_FROM and tags != _NO_TAGS:
            raise self._not_carried("tag section", tags)
        if self._flexible:
            self._small.append(tags)
        if self._small:
            self._parts.append(b"".join(self._small))
        return self._parts

    def _old_partition(
        self,
        head: tuple[int, int, int, int, int],
        aborted: Sequence[tuple[int, int]] | None,
        preferred_read_replica: int,
        records: Bytes | None,
        more: Bytes,
        tags: bytes,
    ) -> None:
        """Before v12."""
        if tags != _NO_TAGS:
            raise self._not_carried("tag section", tags)
        count = -1 if aborted is None else len(aborted)
        if self._version >= LOG_START_FROM:
            self._small.append(_HEAD(*head, count))
        else:
            self._small.append(_HEAD_V4(*head[:4], count))
        if aborted:
            self._small += [_ABORTED(*pair) for pair in aborted]
        if self._version >= PREFERRED_REPLICA_FROM:
            self._small.append(_INT32(preferred_read_replica))
        elif preferred_read_replica != -1:
            raise self._not_carried("preferred read replica", preferred_read_replica)
        self._records(records, more)

    def _count(self, count: int) -> bytes:
        if count < 0:
            raise EncodeError(f"a count of {count}")
        return uvarint(count + 1) if self._flexible else _INT32(count)

    def _not_carried(self, what: str, value: object) -> EncodeError:
        return EncodeError(f"v{self._version} has no {what} and would lose {value!r:.100}")

    def _close_topic(self) -> None:
        if self._partitions_left:
            left = self._partitions_left
            raise EncodeError(f"{left} partitions of a topic were announced and not written")
        if self._open_topic and self._flexible:
            self._small.append(_NO_TAGS)

    def _compact_records(self, records: Bytes | None, more: Bytes) -> None:
        if records is None:
            self._small.append(b"\0")
            return
        self._small.append(uvarint(len(records) + len(more) + 1))
        self._part(records, more)

    def _records(self, records: Bytes | None, more: Bytes) -> None:
        if records is None:
            self._small.append(_INT32(-1))
            return
        self._small.append(_INT32(len(records) + len(more)))
        self._part(records, more)

    def _part(self, records: Bytes, more: Bytes) -> None:
        if records:
            self._parts.append(b"".join(self._small))
            self._parts.append(records)
            if more:
                self._parts.append(more)
            self._small = []


def partition_tags(
    *,
    diverging_epoch: tuple[int, int] | None = None,
    current_leader: tuple[int, int] | None = None,
) -> bytes:
    """The tag section of a partition, v12 and later.

    `diverging_epoch` is (epoch, end offset), `current_leader` (leader id, leader epoch).
    """
    try:
        return _partition_tags(diverging_epoch, current_leader)
    except _FAULTS as fault:
        raise EncodeError(str(fault)) from None


def _partition_tags(
    diverging_epoch: tuple[int, int] | None, current_leader: tuple[int, int] | None
) -> bytes:
    section = b""
    if diverging_epoch is not None:
        section += b"\0" + b"\x0d" + struct.pack(">iqB", *diverging_epoch, 0)
    if current_leader is not None:
        section += b"\1" + b"\x09" + struct.pack(">iiB", *current_leader, 0)
    count = (diverging_epoch is not None) + (current_leader is not None)
    return bytes((count,)) + section


def response_tags(node_endpoints: Sequence[tuple[int, str, int, str | None]]) -> bytes:
    """The tag section of the response, v16 and later: (node id, host, port, rack) per node."""
    if not node_endpoints:
        return _NO_TAGS
    try:
        body = uvarint(len(node_endpoints) + 1) + b"".join(map(_node, node_endpoints))
    except _FAULTS as fault:
        raise EncodeError(str(fault)) from None
    return b"\1\0" + uvarint(len(body)) + body


def _node(node: tuple[int, str, int, str | None]) -> bytes:
    node_id, host, port, rack = node
    made = _INT32(node_id) + _compact_string(host) + _INT32(port)
    return made + (b"\0" if rack is None else _compact_string(rack)) + _NO_TAGS


def _compact_string(text: str) -> bytes:
    content = text.encode()
    return uvarint_of_string(len(content) + 1) + content


def _compact_aborted(aborted: Sequence[tuple[int, int]], preferred_read_replica: int) -> bytes:
    pairs = b"".join([_ABORTED(*pair) + _NO_TAGS for pair in aborted])
    return uvarint(len(aborted) + 1) + pairs + _INT32(preferred_read_replica)


def _name(topic: str | bytes) -> bytes:
    if isinstance(topic, bytes):
        raise EncodeError("topic ids are known from v13 on; this version wants a name")
    name = topic.encode()
    if len(name) > STRING_BYTES_MAX:
        raise EncodeError(f"a topic name of {len(name)} bytes")
    return name
