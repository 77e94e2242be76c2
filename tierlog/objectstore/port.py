"""The object store as a port.

Keys are plain text with slashes, relative to the store's own prefix. Objects are written whole and
never change; only `HEAD`-like objects are replaced, by `put_if_match`. Ranges are half open.

Rules that every adapter keeps:
- A read after a write that was answered shows it. A listing does, too.
- An object is seen whole or not at all. A checksum that was given is compared before it is seen.
- A conditional write is sent once. It answers WON only if this very request took effect, LOST only
  if it certainly did not, and AMBIGUOUS for everything else: a timeout, a reset, 409, 5xx. Whoever
  hears AMBIGUOUS reads back. Nothing below this port repeats a conditional write.
- The ETag names the content at most; two equal bodies may have equal ETags (so manifests carry a
  nonce).
- Reads are not repeated either: `Retrying` is the wrapper that does.
- Every call ends: within the adapter's time limit it raises `StoreUnavailable` or is AMBIGUOUS.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from tierlog.types import Bytes, Position

CRC_BYTES = 1 << 20
"""What one of `Got.crcs` covers."""


class Span(NamedTuple):
    """A byte range `[start, end)` of an object."""

    start: Position
    end: Position

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """What a store knows of an object without reading it."""

    key: str
    size: int
    etag: str
    version_id: str | None = None
    """Of stores that keep versions."""
    crc32c: int | None = None
    """Of the whole object, where the store keeps it."""
    modified_ms: int = -1
    storage_class: str | None = None
    """As the store calls it; None where it has no classes, or does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    data: Bytes = field(repr=False)
    """Not shown: asyncio writes down the results of tasks here and there, megabytes or not."""
    stat: Stat
    """Of the whole object, also where a range was read."""
    crcs: tuple[int, ...] = ()
    """CRC-32C of every `CRC_BYTES` of `data`, the last perhaps shorter, where the adapter took them
    while the bytes came in. Whoever changes `data` drops them."""


class Outcome(Enum):
    WON = "won"
    LOST = "lost"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The raw outcome of a write. `etag` and `version_id` are known only if it was WON."""

    outcome: Outcome
    etag: str = ""
    version_id: str | None = None
    detail: str = ""
    """For people: what the store said."""


class Body(Protocol):
    """Bytes to be written, possibly many: read piece by piece, and again if need be.

    `pieces` may block on a disk; adapters call it where blocking is allowed.
    """

    @property
    def size(self) -> int: ...

    @property
    def crc32c(self) -> int:
        """Of all the bytes. The store refuses the write if what arrives has another."""
        ...

    def pieces(self) -> Iterator[Bytes]:
        """From the beginning, in order, each of at most 1 MiB."""
        ...


class Part(NamedTuple):
    """A part of a multipart upload that the store has taken."""

    number: int
    """From 1."""
    etag: str
    size: int
    crc32c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A multipart upload that was begun and neither completed nor aborted."""

    key: str
    id: str
    begun_ms: int = -1


class DeleteFailed(NamedTuple):
    key: str
    reason: str


class Doomed(NamedTuple):
    """What is to be deleted: one version of a key, or whatever stands there."""

    key: str
    version_id: str | None = None


class ObjectStore(Protocol):
    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        """The object or a range of it, exactly as long as asked for: a range must lie inside.

        Raises `NoSuchObject`, and `ObjectChanged` if `etag` is not the object's.
        """
        ...

    async def get_tail(self, key: str, size: int) -> Got:
        """The last `size` bytes, or the whole object if it is shorter."""
        ...

    async def head(self, key: str, *, version_id: str | None = None) -> Stat:
        """Raises `NoSuchObject`."""
        ...

    async def put(self, key: str, body: Body) -> Written:
        """Unconditionally. For tools and tests: tierlog's own objects are put if absent."""
        ...

    async def put_if_absent(self, key: str, body: Body) -> Written: ...

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        """LOST if the object has another ETag, or is not there."""
        ...

    def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Stat]]:
        """Pages of at most 1,000 objects below `prefix` whose keys come after `after`, in order of
        the key's UTF-8 bytes."""
        ...

    async def delete(self, doomed: Sequence[Doomed]) -> Sequence[DeleteFailed]:
        """At most 1,000. What is not there counts as deleted. Answers those that failed."""
        ...

    async def copy(self, source: str, target: str) -> Written:
        """Inside the store, to a key that must be absent."""
        ...

    async def begin_upload(self, key: str) -> Upload: ...

    async def put_part(self, upload: Upload, number: int, body: Body) -> Part:
        """From 5 MiB to 5 GiB, the last one may be smaller."""
        ...

    async def complete_upload(
        self, upload: Upload, parts: Sequence[Part], *, crc32c: int
    ) -> Written:
        """If absent, as `put_if_absent`; `crc32c` is that of the whole object."""
        ...

    async def abort_upload(self, upload: Upload) -> None:
        """What is not there counts as aborted."""
        ...

    def list_uploads(self, prefix: str) -> AsyncIterator[Sequence[Upload]]: ...

    async def close(self) -> None: ...
