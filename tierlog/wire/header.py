"""Request and response headers, and whole requests and responses with them.

Request header v1: API key, version, correlation id, client id; v2, used by flexible versions, adds
a tag section. The client id keeps its old two-byte length in v2. Response header v0 is the
correlation id alone, v1 adds a tag section; ApiVersions is answered with v0 in every version,
since its sender does not know yet what the server speaks.

A frame here is what stands behind the size prefix (`framing`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tierlog.wire import primitives
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type, response_type
from tierlog.wire.codec import decode_whole
from tierlog.wire.compiler import writer
from tierlog.wire.errors import (
    BadLength,
    BadString,
    DecodeError,
    EncodeError,
    TooManyElements,
    Truncated,
    UnknownApi,
    UnsupportedVersion,
)
from tierlog.wire.quirks import SURPLUS_BYTES, asks_for_all_topics_wrongly

if TYPE_CHECKING:
    from tierlog.types import Bytes
    from tierlog.wire.schema import Request, Response

HEADER_TAGS_MAX: Final = 16
"""No client sends one, and the protocol defines none yet. An unknown tag is stepped over, but a
frame full of them would cost a second before its body is looked at."""
HEADER_TAG_BYTES_MAX: Final = 4096
"""Room for tokens and trace ids, should such tags come."""

_REQUEST: Final = struct.Struct(">hhih")
_SIZE_AND_ID: Final = struct.Struct(">ii")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """Who asks for what. The number stays a number: a client may name an API nobody knows."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(frame: Bytes) -> tuple[RequestHeader, int]:
    """The header of a request and the position of its body.

    The tag section is read only for an API and version that are known here; others raise
    UnknownApi or UnsupportedVersion, which carry the correlation id to answer under.
    """
    try:
        api_key, version, correlation_id, length = _REQUEST.unpack_from(frame)
    except struct.error:
        raise Truncated(f"a request header in {len(frame)} bytes") from None
    position = _REQUEST.size
    client_id, position = _client_id(frame, position, length)
    header = RequestHeader(
        api_key=api_key,
        api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    if _flexible_request(header):
        position = _skip_header_tags(frame, position)
    return header, position


def decode_request(frame: Bytes) -> tuple[RequestHeader, Request]:
    """A whole request. `records` are views into the frame. Raises only WireError."""
    header, position = read_request_header(frame)
    api, version = ApiKey(header.api_key), header.api_version
    if api is ApiKey.METADATA and asks_for_all_topics_wrongly(frame, position, version):
        position += SURPLUS_BYTES
    return header, decode_whole(request_type(api), version, frame, position)


def encode_request(
    message: Request, version: int, *, correlation_id: int, client_id: str | None
) -> list[Bytes]:
    """A whole request with its size prefix, as parts."""
    parts = writer(type(message), version)(message)
    try:
        head = _request_head(message.api_key, version, correlation_id, client_id)
        if version in message.flexible:
            head += b"\0"
        size = len(head) + sum(map(len, parts))
        return [struct.pack(">i", size) + head + parts[0], *parts[1:]]
    except (struct.error, UnicodeEncodeError) as fault:
        raise _bad_header(fault, type(message).__name__, version) from None


def _request_head(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    if client_id is None:
        return _REQUEST.pack(api_key, version, correlation_id, -1)
    client = client_id.encode()
    if len(client) > primitives.STRING_BYTES_MAX:
        raise EncodeError(f"a client id of {len(client)} bytes")
    return _REQUEST.pack(api_key, version, correlation_id, len(client)) + client


def encode_response(message: Response, version: int, *, correlation_id: int) -> list[Bytes]:
    """A whole response with its size prefix, as parts for one gathering write."""
    return framed_response(
        writer(type(message), version)(message),
        correlation_id=correlation_id,
        flexible=_flexible_response(message.api_key, version in message.flexible),
    )


def framed_response(parts: list[Bytes], *, correlation_id: int, flexible: bool) -> list[Bytes]:
    """Put size and header before the parts of a body. Changes the list and returns it."""
    size = 4 + flexible + sum(map(len, parts))
    try:
        head = _SIZE_AND_ID.pack(size, correlation_id)
    except struct.error as fault:
        raise EncodeError(f"header: {size} bytes under id {correlation_id}: {fault}") from None
    parts[0] = head + b"\0" + parts[0] if flexible else head + parts[0]
    return parts


def decode_response(api: ApiKey, version: int, frame: Bytes) -> tuple[int, Response]:
    """The correlation id and the body of a response. Raises only WireError."""
    kind = response_type(api)
    if version not in kind.versions:
        raise UnsupportedVersion(message=kind.__name__, version=version, api_key=api)
    if len(frame) < 4:
        raise Truncated(f"a response header in {len(frame)} bytes")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    position = 4
    if _flexible_response(api, version in kind.flexible):
        position = _skip_header_tags(frame, position)
    return correlation_id, decode_whole(kind, version, frame, position)


def _bad_header(fault: Exception, message: str, version: int) -> EncodeError:
    return EncodeError(str(fault), message=message, version=version, field="header")


def _flexible_response(api_key: int, flexible: bool) -> bool:
    return flexible and api_key != ApiKey.API_VERSIONS


def _flexible_request(header: RequestHeader) -> bool:
    try:
        kind = request_type(ApiKey(header.api_key))
    except ValueError:
        raise UnknownApi(api_key=header.api_key, correlation_id=header.correlation_id) from None
    if header.api_version not in kind.versions:
        raise UnsupportedVersion(
            message=kind.__name__,
            version=header.api_version,
            api_key=header.api_key,
            correlation_id=header.correlation_id,
        )
    return header.api_version in kind.flexible


def _client_id(frame: Bytes, position: int, length: int) -> tuple[str | None, int]:
    if length < 0:
        if length < -1:
            raise BadLength(f"a client id of length {length}", field="client_id", position=8)
        return None, position
    end = position + length
    if end > len(frame):
        raise Truncated("the client id reaches beyond the frame", field="client_id", position=8)
    try:
        return str(frame[position:end], "utf-8"), end
    except UnicodeDecodeError:
        raise BadString("not UTF-8", field="client_id", position=position) from None


def _skip_header_tags(frame: Bytes, position: int) -> int:
    try:
        first = frame[position]
        if first == 0:
            return position + 1
        if first > HEADER_TAGS_MAX:
            raise TooManyElements(f"more than {HEADER_TAGS_MAX} tags", position=position)
        end, _ = primitives.skip_tags(frame, position + 1, first, HEADER_TAGS_MAX)
    except IndexError:
        raise Truncated("the header ends in its tags", position=position) from None
    except DecodeError as error:
        error.field = error.field or "header tags"
        raise
    if end - position > HEADER_TAG_BYTES_MAX:
        sentence = f"{end - position} bytes, at most {HEADER_TAG_BYTES_MAX}"
        raise BadLength(sentence, field="header tags", position=position)
    return end
