"""HTTP/1.1 heads, read strictly and written plainly (RFC 9112).

A head that two readers could understand differently is refused with a `Problem`: folded lines,
blanks around a name, control characters, a length that is no number. What was parsed here is plain
text afterwards; the path is decoded once and only compared.
"""

import re
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

from tierlog.http.problem import PROBLEM_TYPE, TITLES, Problem

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_TARGET: Final = re.compile(r"[!-~]+\Z")
_VERSION: Final = re.compile(r"HTTP/([0-9])\.([0-9])\Z")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*\Z")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

QUERY_FIELDS_MAX: Final = 100
HEADER: Final = "x-tierlog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    """Decoded."""
    query: dict[str, str] = field(default_factory=dict)
    """The last of each name counts."""
    headers: dict[str, str] = field(default_factory=dict)
    """Names in lower case; values of one name joined by commas."""
    keeps_alive: bool = True
    """Whether another request may follow on the same connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


def parse_head(head: bytes) -> Request:
    """A request from its head, the empty line at the end included. Raises `Problem`."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, minor = _request_line(first)
    headers = _fields(lines)
    if minor >= 1 and "host" not in headers:
        raise Problem(400, "a request by HTTP/1.1 names its Host")
    path, query = _split_target(target)
    return Request(
        method=method,
        path=path,
        query=query,
        headers=headers,
        keeps_alive=_keeps_alive(minor, headers) and not _has_body(headers),
    )


def _request_line(line: str) -> tuple[str, str, int]:
    parts = line.split(" ")
    if len(parts) != 3:
        raise Problem(400, "a request begins with a method, a target and a version")
    method, target, version = parts
    if not _TOKEN.match(method) or not _TARGET.match(target):
        raise Problem(400, "the method or the target holds characters that do not belong there")
    number = _VERSION.match(version)
    if number is None:
        raise Problem(400, "the request line does not end with a version of HTTP")
    if number[1] != "1":
        raise Problem(505, "this server speaks HTTP/1.1 and HTTP/1.0")
    return method, target, int(number[2])


def _fields(lines: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or not _TOKEN.match(name) or not _VALUE.match(value):
            raise Problem(400, f"header line {line[:100]!r} is not a name, a colon and a value")
        name = name.lower()
        if name in fields:
            if name in ("host", "content-length"):
                raise Problem(400, f"{name} is given twice")
            value = f"{fields[name]}, {value}"
        fields[name] = value
    return fields


def _keeps_alive(minor: int, headers: dict[str, str]) -> bool:
    options = {one.strip() for one in headers.get("connection", "").lower().split(",")}
    return "close" not in options and (minor >= 1 or "keep-alive" in options)


def _has_body(headers: dict[str, str]) -> bool:
    """Nothing here reads a body, so nothing behind one can be understood either."""
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Problem(400, f"content-length {length[:40]!r} is not a number")
    return "transfer-encoding" in headers or length.strip("0") != ""


def _split_target(target: str) -> tuple[str, dict[str, str]]:
    if target == "*":
        return target, {}
    if not target.startswith("/"):
        scheme, mark, rest = target.partition("://")
        if not mark or scheme.lower() != "http":
            raise Problem(400, "the target of a request begins with a slash")
        # Absolute form, as a proxy sends it: whom it names does not matter here.
        target = "/" + rest.partition("/")[2]
    path, _, query = target.partition("?")
    return _decoded(path), _query(query)


def _decoded(path: str) -> str:
    if _BAD_ESCAPE.search(path):
        raise Problem(400, "the path holds a percent sign without two hexadecimal digits")
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise Problem(400, "the path is not UTF-8") from None


def _query(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError as error:
        raise Problem(400, f"the query cannot be read: {error}") from None


def check_header(request: Request) -> None:
    """Raises `Problem` for what a page in a browser could send: it cannot add the header to a
    request to another site without asking first, which nobody here answers."""
    if HEADER not in request.headers:
        raise Problem(403, f"a request that changes something has the header {HEADER}")


def of_problem(problem: Problem) -> Response:
    return Response(
        status=problem.status,
        body=problem.to_bytes(),
        content_type=PROBLEM_TYPE,
        headers=problem.headers,
    )


def encode_response(
    response: Response, *, now_ms: int, keeps_alive: bool, without_body: bool = False
) -> bytes:
    """The whole response; for HEAD `without_body`, which tells the length all the same."""
    lines = [
        f"HTTP/1.1 {response.status} {TITLES[response.status]}",
        f"Date: {formatdate(now_ms / 1000, usegmt=True)}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        # Numbers of this moment, never to be guessed at as something else.
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *(f"{name}: {value}" for name, value in response.headers.items()),
        f"Connection: {'keep-alive' if keeps_alive else 'close'}",
    ]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head if without_body else head + response.body
