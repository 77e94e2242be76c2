"""Bytes of the local metastore: the snapshot and the frames of the journal.

`docs/format/metastore.md` has the layouts. Numbers are big-endian; every part has a CRC-32C. Pure:
what cannot be believed is `Unreadable`, and the caller, who knows the file, says what follows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from crc32c import crc32c

from tierlog.metastore.port import Entry
from tierlog.metastore.state import Applied
from tierlog.types import Bytes

MAJOR, MINOR = 1, 0
"""A reader refuses a newer major; a newer minor only adds what old readers may pass over."""

SNAPSHOT_MAGIC = b"TLMETAS\n"
JOURNAL_MAGIC = b"TLMETAJ\n"
FRAME_MAGIC = b"TLtx"

PUT, PUT_IN_SESSION, DELETE = 1, 2, 3

_HEAD = Struct(">8sHHI")  # magic, major, minor, crc of the versions and of everything behind it
_JOURNAL = Struct(">16sQ")  # store id, revision that it begins behind
_SNAPSHOT = Struct(">16sQI")  # store id, revision, number of entries
_ENTRY = Struct(">BHIQQ")  # kind, key bytes, value bytes, created, revision
_FRAME = Struct(
    ">4sIIIQQ"
)  # magic, crc of what is behind it, payload bytes, txns, revision, position
_CHANGE = Struct(">BHI")  # kind, key bytes, value bytes
_COUNT = Struct(">I")
_VERSION = Struct(">HH")

HEAD_BYTES = _HEAD.size
JOURNAL_HEAD_BYTES = _HEAD.size + _JOURNAL.size
FRAME_HEAD_BYTES = _FRAME.size
_CHECKED_FROM = 8
"""Of a frame: behind its magic and its CRC."""


class Unreadable(Exception):
    """These bytes are not what this format calls for."""


class UnknownMajor(Exception):
    """A version from the future."""

    def __init__(self, found: int) -> None:
        super().__init__(found)
        self.found = found


@dataclass(frozen=True, slots=True)
class Snapshot:
    store_id: bytes
    revision: int
    entries: list[Entry]


@dataclass(frozen=True, slots=True)
class JournalHead:
    store_id: bytes
    base: int
    """The journal's first transaction has a revision above it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Transactions that were written together. Without any, a mark: all before it was durable."""

    first: int
    """Revision of its first transaction; for a mark the one that comes next."""
    count: int
    payload: memoryview
    end: int
    """Position behind it."""


# Heads


def _with_head(magic: bytes, body: bytes) -> bytes:
    return _HEAD.pack(magic, MAJOR, MINOR, crc_of(_VERSION.pack(MAJOR, MINOR), body)) + body


def crc_of(version: Bytes, body: Bytes) -> int:
    return crc32c(body, crc32c(version))


def _checked_body(data: Bytes, magic: bytes, size: int | None) -> memoryview:
    if len(data) < HEAD_BYTES:
        raise Unreadable("it is cut short")
    found, major, _, crc = _HEAD.unpack_from(data)
    if found != magic or not major:
        raise Unreadable("it does not begin as such a file does")
    if major > MAJOR:
        raise UnknownMajor(major)
    body = memoryview(data)[HEAD_BYTES : None if size is None else HEAD_BYTES + size]
    if crc_of(memoryview(data)[8:12], body) != crc:
        raise Unreadable("its checksum is wrong")
    return body


# The snapshot


def encode_snapshot(store_id: bytes, revision: int, entries: Iterable[Entry]) -> bytes:
    parts = [b""]
    for entry in entries:
        key = entry.key.encode()
        kind = PUT_IN_SESSION if entry.session else PUT
        parts.append(_ENTRY.pack(kind, len(key), len(entry.value), entry.created, entry.revision))
        parts += (key, entry.value)
    parts[0] = _SNAPSHOT.pack(store_id, revision, len(parts) // 3)
    return _with_head(SNAPSHOT_MAGIC, b"".join(parts))


def decode_snapshot(data: Bytes) -> Snapshot:
    body = _checked_body(data, SNAPSHOT_MAGIC, None)
    try:
        store_id, revision, count = _SNAPSHOT.unpack_from(body)
        entries, position = [], _SNAPSHOT.size
        for _ in range(count):
            kind, key_size, size, created, changed = _ENTRY.unpack_from(body, position)
            position += _ENTRY.size
            key = str(body[position : position + key_size], "utf-8")
            position += key_size
            value = bytes(body[position : position + size])
            position += size
            entries.append(Entry(key, value, changed, created, int(kind == PUT_IN_SESSION)))
    except (StructError, UnicodeDecodeError) as fault:
        raise Unreadable("its entries do not add up") from fault
    if position != len(body):
        raise Unreadable("its entries do not add up")
    return Snapshot(store_id, revision, entries)


# The journal


def encode_journal_head(store_id: bytes, base: int) -> bytes:
    return _with_head(JOURNAL_MAGIC, _JOURNAL.pack(store_id, base))


def decode_journal_head(data: Bytes) -> JournalHead:
    body = _checked_body(data, JOURNAL_MAGIC, _JOURNAL.size)
    if len(body) < _JOURNAL.size:
        raise Unreadable("it is cut short")
    store_id, base = _JOURNAL.unpack(body)
    return JournalHead(store_id, base)


def encode_frame(txns: Sequence[Applied], *, position: int) -> bytes:
    """One frame for transactions whose revisions follow each other."""
    payload = b"".join(part for txn in txns for part in _txn_parts(txn))
    return _frame(txns[0].revision, len(txns), payload, position)


def encode_mark(revision: int, *, position: int) -> bytes:
    """A frame without transactions; `revision` is the store's."""
    return _frame(revision + 1, 0, b"", position)


def _frame(first: int, count: int, payload: bytes, position: int) -> bytes:
    head = _FRAME.pack(FRAME_MAGIC, 0, len(payload), count, first, position)
    crc = crc32c(payload, crc32c(head[_CHECKED_FROM:]))
    return b"".join((FRAME_MAGIC, _COUNT.pack(crc), head[_CHECKED_FROM:], payload))


def _txn_parts(txn: Applied) -> list[bytes]:
    parts = [_COUNT.pack(len(txn.entries))]
    for name, entry in txn.entries.items():
        key = name.encode()
        if entry is None:
            parts += (_CHANGE.pack(DELETE, len(key), 0), key)
        else:
            kind = PUT_IN_SESSION if entry.session else PUT
            parts += (_CHANGE.pack(kind, len(key), len(entry.value)), key, entry.value)
    return parts


def read_frame(data: memoryview, position: int) -> Frame | None:
    """The sound frame at `position`, or None. It knows its own place: one inside a value, or
    copied from elsewhere, does not pass."""
    if position + FRAME_HEAD_BYTES > len(data):
        return None
    magic, crc, size, count, first, place = _FRAME.unpack_from(data, position)
    end = position + FRAME_HEAD_BYTES + size
    if magic != FRAME_MAGIC or place != position or end > len(data):
        return None
    if crc32c(data[position + _CHECKED_FROM : end]) != crc:
        return None
    return Frame(first, count, data[position + FRAME_HEAD_BYTES : end], end)


def find_frame(data: bytes, position: int) -> int | None:
    """Where the next sound frame begins, at or behind `position`."""
    view = memoryview(data)
    while (position := data.find(FRAME_MAGIC, position)) >= 0:
        if read_frame(view, position) is not None:
            return position
        position += 1
    return None


def replay_frame(frame: Frame, entries: dict[str, Entry]) -> None:
    """Apply the frame's transactions to `entries`."""
    position = 0
    try:
        for revision in range(frame.first, frame.first + frame.count):
            position = _replay_txn(frame.payload, position, revision, entries)
    except (StructError, UnicodeDecodeError) as fault:
        raise Unreadable("its changes do not add up") from fault
    if position != len(frame.payload):
        raise Unreadable("its changes do not add up")


def _replay_txn(
    payload: memoryview, position: int, revision: int, entries: dict[str, Entry]
) -> int:
    (count,) = _COUNT.unpack_from(payload, position)
    position += _COUNT.size
    for _ in range(count):
        kind, key_size, size = _CHANGE.unpack_from(payload, position)
        position += _CHANGE.size
        key = str(payload[position : position + key_size], "utf-8")
        position += key_size
        if kind == DELETE:
            entries.pop(key, None)
            continue
        value = bytes(payload[position : position + size])
        position += size
        before = entries.get(key)
        created = revision if before is None else before.created
        entries[key] = Entry(key, value, revision, created, int(kind == PUT_IN_SESSION))
    return position
