"""Reading and writing single objects: what is asked of the transport, and what its answers mean.

Blocking; meant for threads. A range is compared with what was asked for: the status, the place, the
length and the ETag, since a store, or something before it, may ignore a header.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from crc32c import crc32c

from tierlog.objectstore.errors import (
    ObjectChanged,
    StoreBadRequest,
    StoreLies,
    StoreUnavailable,
)
from tierlog.objectstore.port import Body, Got, Outcome, Part, Span, Stat, Upload, Written
from tierlog.objectstore.s3.checksums import from_header, to_header
from tierlog.objectstore.s3.deadline import Deadline
from tierlog.objectstore.s3.door import Said, said_in
from tierlog.objectstore.s3.transport import Answer, Transport
from tierlog.types import Position

# Of an empty object MinIO says "bytes 0--1/0".
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(?:\d+|-1)/(\d+)")

WHOLE_BYTES_MAX = 1 << 30
"""Of an object that is read whole. Manifests are; segments are read in ranges."""

_WITH_CHECKSUM = {"x-amz-checksum-mode": "ENABLED"}


class Objects:
    """Keys are whole here, the store's prefix included; errors and stats carry them as they are."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(
        self,
        deadline: Deadline,
        key: str,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        headers = {"range": f"bytes={span.start}-{span.end - 1}"} if span else dict(_WITH_CHECKSUM)
        if etag is not None:
            headers["if-match"] = quoted(etag)
        answer = self._transport.send(
            "GET",
            key,
            headers=headers,
            query=_version(version_id),
            deadline=deadline,
            bytes_max=span.size if span else WHOLE_BYTES_MAX,
        )
        self._check_answered(key, answer, etag=etag)
        got = _got(key, answer)
        if span is None:
            _check_whole(got)
        else:
            _check_range(key, answer, got, span)
        return got

    def get_tail(self, deadline: Deadline, key: str, size: int) -> Got:
        headers = {"range": f"bytes=-{size}"}
        answer = self._transport.send(
            "GET", key, headers=headers, deadline=deadline, bytes_max=size
        )
        if answer.status == 416:
            return self.get(deadline, key)  # An empty object has no last bytes.
        self._check_answered(key, answer, etag=None)
        got = _got(key, answer)
        end = Position(got.stat.size)
        _check_range(key, answer, got, Span(Position(max(0, end - size)), end))
        return got

    def head(self, deadline: Deadline, key: str, version_id: str | None = None) -> Stat:
        answer = self._transport.send(
            "HEAD", key, headers=_WITH_CHECKSUM, query=_version(version_id), deadline=deadline
        )
        if answer.status == 404:
            self._check_missing(deadline, key, version_id)
            # It has come meanwhile.
            answer = self._transport.send(
                "HEAD", key, headers=_WITH_CHECKSUM, query=_version(version_id), deadline=deadline
            )
        self._check_answered(key, answer, etag=None)
        return _stat(key, answer, _length(key, answer))

    def _check_missing(self, deadline: Deadline, key: str, version_id: str | None) -> None:
        """Raises what a refused HEAD meant, which has no words of its own: a bucket that is missing
        is not an object that is. By a GET of one byte; an empty object has none (416)."""
        headers = {"range": "bytes=0-0"}
        answer = self._transport.send(
            "GET", key, headers=headers, query=_version(version_id), deadline=deadline, bytes_max=1
        )
        if answer.status not in {200, 206, 416}:
            refusal = self._transport.door.refusal(key, _said(answer))
            refusal.also_asked = ("get",)
            raise refusal

    def put(
        self, deadline: Deadline, key: str, body: Body, condition: Mapping[str, str]
    ) -> Written:
        """Raises `StoreUnavailable` where nobody answered; the caller knows what that means."""
        headers = {**condition, "x-amz-checksum-crc32c": to_header(body.crc32c)}
        answer = self._transport.send("PUT", key, headers=headers, body=body, deadline=deadline)
        if answer.status != 200:
            return self._transport.door.outcome(key, _said(answer))
        if not (etag := _etag(answer.headers)):
            return Written(outcome=Outcome.AMBIGUOUS, detail="200, but without an ETag")
        version_id = _version_of(answer.headers)
        return Written(outcome=Outcome.WON, etag=etag, version_id=version_id)

    def put_part(
        self, deadline: Deadline, key: str, upload: Upload, number: int, body: Body
    ) -> Part:
        answer = self._transport.send(
            "PUT",
            key,
            headers={"x-amz-checksum-crc32c": to_header(body.crc32c)},
            query={"partNumber": str(number), "uploadId": upload.id},
            body=body,
            deadline=deadline,
        )
        if answer.status != 200:
            raise self._transport.door.refusal(key, _said(answer))
        return Part(number, _etag(answer.headers), body.size, body.crc32c)

    def _check_answered(self, key: str, answer: Answer, *, etag: str | None) -> None:
        if answer.status == 412:
            raise ObjectChanged(key, wanted=etag or "", found="another")
        if answer.status not in {200, 206}:
            raise self._transport.door.refusal(key, _said(answer))
        found = _etag(answer.headers)
        if etag is not None and found != bare(etag):
            raise ObjectChanged(key, wanted=etag, found=found)


def quoted(etag: str) -> str:
    """As HTTP wants it; we keep ETags bare."""
    return f'"{bare(etag)}"'


def bare(etag: str) -> str:
    return etag.strip('"')


def _version(version_id: str | None) -> dict[str, str] | None:
    return None if version_id is None else {"versionId": version_id}


def _said(answer: Answer) -> Said:
    region = answer.headers.get("x-amz-bucket-region", "")
    return said_in(answer.status, bytes(answer.data[:4096]), region=region)


def _check_whole(got: Got) -> None:
    wanted = got.stat.crc32c
    if wanted is not None and crc32c(got.data) != wanted:
        raise StoreUnavailable(f"{got.stat.key} arrived with other bytes than the store keeps")


def _check_range(key: str, answer: Answer, got: Got, span: Span) -> None:
    if span.end > got.stat.size:
        raise StoreBadRequest(f"{key} has {got.stat.size} bytes: {span} is not inside")
    # SeaweedFS and others answer 200 where the range is all there is.
    start = _first_byte(answer) if answer.status == 206 else 0
    if start != span.start or len(got.data) != span.size:
        raise StoreLies(
            f"{key}: asked for {span}, the store sent {len(got.data)} bytes from {start} on: "
            "something between here and the store ignores or changes ranges; remove it"
        )


def _first_byte(answer: Answer) -> int:
    return int(_content_range(answer).group(1))


def _content_range(answer: Answer) -> re.Match[str]:
    text = answer.headers.get("content-range", "")
    found = _CONTENT_RANGE.fullmatch(text)
    if found is None:
        raise StoreLies(f"the store answered a range without saying which: '{text}'")
    return found


def _got(key: str, answer: Answer) -> Got:
    whole = int(_content_range(answer).group(2)) if answer.status == 206 else len(answer.data)
    return Got(data=answer.data, stat=_stat(key, answer, whole), crcs=answer.crcs)


def _length(key: str, answer: Answer) -> int:
    said = answer.headers.get("content-length", "")
    if not said.isdecimal():
        raise StoreUnavailable(f"{key} has a length of '{said}', says the store")
    return int(said)


def _stat(key: str, answer: Answer, size: int) -> Stat:
    headers = answer.headers
    return Stat(
        key=key,
        size=size,
        etag=_etag(headers),
        version_id=_version_of(headers),
        crc32c=from_header(headers.get("x-amz-checksum-crc32c")),
        modified_ms=_modified_ms(headers.get("last-modified")),
        # S3 leaves the header out for the class that most objects have.
        storage_class=headers.get("x-amz-storage-class", "STANDARD"),
    )


def _etag(headers: Mapping[str, str]) -> str:
    return bare(headers.get("etag", ""))


def _version_of(headers: Mapping[str, str]) -> str | None:
    return headers.get("x-amz-version-id")


def _modified_ms(text: str | None) -> int:
    try:
        return int(parsedate_to_datetime(text or "").timestamp() * 1000)
    except ValueError:
        return -1
