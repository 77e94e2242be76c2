"""The state of a store in memory: what `MemoryStore` and the simulated bucket stand on.

Every call takes effect at once and wholly, and answers as a right store would. No versions, no
waiting, no faults: those belong to whoever holds the shelf.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from crc32c import crc32c as crc32c_of

from tierlog.objectstore.errors import NoSuchObject, ObjectChanged, StoreBadRequest
from tierlog.objectstore.keys import check_key
from tierlog.objectstore.port import Doomed, Got, Outcome, Part, Span, Stat, Upload, Written

PAGE_COUNT_MAX = 1000
DELETE_COUNT_MAX = 1000
PART_BYTES_MIN = 5 << 20
"""S3 refuses a smaller part unless it is the last."""
PART_NUMBER_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An object, or a part of one to be."""

    data: bytes
    etag: str
    crc32c: int
    modified_ms: int


@dataclass(slots=True)
class OpenUpload:
    upload: Upload
    parts: dict[int, Item] = field(default_factory=dict)


def content_etag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def won(item: Item) -> Written:
    return Written(outcome=Outcome.WON, etag=item.etag)


def lost(detail: str) -> Written:
    return Written(outcome=Outcome.LOST, detail=detail)


class Shelf:
    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.uploads: dict[str, OpenUpload] = {}
        self._upload_count = 0

    # Reading

    def stat(self, key: str, *, version_id: str | None = None) -> Stat:
        item = self._find(key, version_id)
        return Stat(
            key=key,
            size=len(item.data),
            etag=item.etag,
            crc32c=item.crc32c,
            modified_ms=item.modified_ms,
        )

    def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        stat = self.stat(key, version_id=version_id)
        if etag is not None and etag != stat.etag:
            raise ObjectChanged(key, wanted=etag, found=stat.etag)
        data = self.items[key].data
        return Got(data=data if span is None else cut(data, span, key), stat=stat)

    def get_tail(self, key: str, size: int) -> Got:
        check_tail(key, size)
        stat = self.stat(key)
        return Got(data=self.items[key].data[max(0, stat.size - size) :], stat=stat)

    def list(self, prefix: str, *, after: str) -> Iterator[Sequence[Stat]]:
        """Whoever takes a page later sees what is there then, as in a real store."""
        last = after.encode()
        while page := self._page(prefix.encode(), last):
            yield [self.stat(key.decode()) for key in page]
            last = page[-1]

    def _page(self, prefix: bytes, after: bytes) -> Sequence[bytes]:
        keys = (key.encode() for key in self.items)
        return sorted(key for key in keys if key.startswith(prefix) and key > after)[
            :PAGE_COUNT_MAX
        ]

    def _find(self, key: str, version_id: str | None = None) -> Item:
        item = self.items.get(check_key(key))
        if item is None or version_id is not None:
            raise NoSuchObject(key)
        return item

    # Writing

    def put(self, key: str, data: bytes, *, now_ms: int) -> Written:
        item = Item(data=data, etag=content_etag(data), crc32c=crc32c_of(data), modified_ms=now_ms)
        self.items[check_key(key)] = item
        return won(item)

    def put_if_absent(self, key: str, data: bytes, *, now_ms: int) -> Written:
        if check_key(key) in self.items:
            return lost("412: the object exists")
        return self.put(key, data, now_ms=now_ms)

    def put_if_match(self, key: str, data: bytes, *, etag: str, now_ms: int) -> Written:
        item = self.items.get(check_key(key))
        if item is None:
            return lost("404: there is no object to replace")
        if item.etag != etag:
            return lost(f"412: the object has ETag {item.etag}")
        return self.put(key, data, now_ms=now_ms)

    def copy(self, source: str, target: str, *, now_ms: int) -> Written:
        return self.put_if_absent(target, self._find(source).data, now_ms=now_ms)

    def delete(self, doomed: Sequence[Doomed]) -> None:
        check_doomed(doomed)
        for each in doomed:
            if each.version_id is None:
                self.items.pop(each.key, None)

    # Multipart uploads

    def begin_upload(self, key: str, *, now_ms: int) -> Upload:
        self._upload_count += 1
        upload = Upload(key=check_key(key), id=f"{self._upload_count:08d}", begun_ms=now_ms)
        self.uploads[upload.id] = OpenUpload(upload)
        return upload

    def put_part(self, upload: Upload, number: int, data: bytes, *, now_ms: int) -> Part:
        found = self._find_upload(upload)
        if found is None:
            raise NoSuchObject(f"{upload.key} as upload {upload.id}")
        check_part_number(number)
        item = Item(data=data, etag=content_etag(data), crc32c=crc32c_of(data), modified_ms=now_ms)
        found.parts[number] = item
        return Part(number, item.etag, len(data), item.crc32c)

    def complete_upload(
        self, upload: Upload, parts: Sequence[Part], *, crc32c: int, now_ms: int
    ) -> Written:
        found = self._find_upload(upload)
        if found is None:
            return lost("404: there is no such upload")
        check_parts(parts, {number: item.etag for number, item in found.parts.items()})
        data = b"".join(found.parts[part.number].data for part in parts)
        if crc32c_of(data) != crc32c:
            raise StoreBadRequest(f"the parts of {upload.key} do not have CRC-32C {crc32c:08x}")
        written = self.put_if_absent(upload.key, data, now_ms=now_ms)
        if written.outcome is Outcome.WON:
            del self.uploads[upload.id]
        return written

    def abort_upload(self, upload: Upload) -> None:
        if self._find_upload(upload) is not None:
            del self.uploads[upload.id]

    def list_uploads(self, prefix: str) -> Sequence[Upload]:
        found = [
            each.upload for each in self.uploads.values() if each.upload.key.startswith(prefix)
        ]
        return sorted(found, key=lambda each: (each.key.encode(), each.id))

    def _find_upload(self, upload: Upload) -> OpenUpload | None:
        found = self.uploads.get(upload.id)
        return found if found is not None and found.upload.key == upload.key else None


# Checks that every adapter shares


def check_span(span: Span, *, size: int, key: str) -> None:
    if not 0 <= span.start < span.end <= size:
        raise StoreBadRequest(f"bytes {span.start} to {span.end} are not in {key} of {size} bytes")


def cut(data: bytes, span: Span, key: str) -> bytes:
    check_span(span, size=len(data), key=key)
    return data[span.start : span.end]


def check_tail(key: str, size: int) -> None:
    if size <= 0:
        raise StoreBadRequest(f"a tail of {size} bytes of {key}")


def check_doomed(doomed: Sequence[Doomed]) -> None:
    if len(doomed) > DELETE_COUNT_MAX:
        raise StoreBadRequest(f"{len(doomed)} objects to delete; {DELETE_COUNT_MAX} at most")
    for each in doomed:
        check_key(each.key)


def check_part_number(number: int) -> None:
    if not 1 <= number <= PART_NUMBER_MAX:
        raise StoreBadRequest(f"part {number} is not between 1 and {PART_NUMBER_MAX}")


def check_parts(parts: Sequence[Part], etags: dict[int, str]) -> None:
    """Raises `StoreBadRequest` unless the store has these parts, and they make an object."""
    if not parts:
        raise StoreBadRequest("an upload without parts cannot be completed")
    numbers = [part.number for part in parts]
    if numbers != sorted(set(numbers)):
        raise StoreBadRequest(f"parts must rise: {numbers[:10]}")
    for part in parts:
        if etags.get(part.number) != part.etag:
            raise StoreBadRequest(f"part {part.number} is not the one that was put")
    if any(part.size < PART_BYTES_MIN for part in parts[:-1]):
        raise StoreBadRequest(f"only the last part may be smaller than {PART_BYTES_MIN} bytes")
