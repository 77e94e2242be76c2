"""Keys and values between bytes and what people read and write. Pure.

Nothing is lost silently: in JSON, bytes that are not UTF-8 appear under a name that ends in `_b64`.
Reading takes back what writing gave: `consume --json | produce --input json` copies a topic.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeAlias

EXCERPT_MAX = 60
BACKSLASHES = "backslashreplace"

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Format(StrEnum):
    UTF8 = "utf8"
    BASE64 = "base64"
    HEX = "hex"
    JSON = "json"


class NotInFormat(ValueError):
    """What was written is not what the format says."""


# Writing


def shown(data: bytes | None, form: Format) -> str:
    """For a line of text. A missing key or value is `null`; odd bytes appear as \\xNN."""
    if data is None:
        return "null"
    if form is Format.BASE64:
        return base64.b64encode(data).decode()
    if form is Format.HEX:
        return data.hex()
    if form is Format.JSON and (parsed := _parsed(data)) is not _NOT_JSON:
        return compact(parsed)
    return data.decode("utf-8", errors="backslashreplace")


def json_fields(name: str, data: bytes | None, form: Format) -> dict[str, Any]:
    """The member of a JSON object that holds the bytes, under a name that says how."""
    if data is None:
        return {name: None}
    if form is Format.BASE64:
        return {f"{name}_b64": base64.b64encode(data).decode()}
    if form is Format.HEX:
        return {f"{name}_hex": data.hex()}
    if form is Format.JSON and (parsed := _parsed(data)) is not _NOT_JSON:
        return {name: parsed}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return json_fields(name, data, Format.BASE64)


def json_headers(headers: Headers) -> list[dict[str, Any]]:
    """A list and not a map: a name may come twice, and order counts."""
    return [
        {**json_fields("key", _raw(name), Format.UTF8), **json_fields("value", data, Format.UTF8)}
        for name, data in headers
    ]


def shown_headers(headers: Headers) -> str:
    return ",".join(
        f"{shown(_raw(name), Format.UTF8)}={shown(data, Format.UTF8)}" for name, data in headers
    )


def compact(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not text.isascii() and _HALF.search(text):  # JSON can name what UTF-8 cannot write.
        return json.dumps(value, separators=(",", ":"))
    return text


_HALF = re.compile("[\ud800-\udfff]")
"""Half of a pair of surrogates: a character only together with the other half."""


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """For a terminal: a record must not be able to steer it."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


# Reading


def read(text: bytes, form: Format) -> bytes:
    """The bytes that a piece of an input line means."""
    if form is Format.BASE64:
        return _from_base64(text)
    if form is Format.HEX:
        return _from_hex(text)
    if form is Format.JSON and _parsed(text) is _NOT_JSON:
        raise NotInFormat(f"'{_excerpt(text)}' is not JSON")
    return text


def read_json(line: bytes) -> dict[str, Any]:
    """A line of JSON input: an object."""
    parsed = _parsed(line)
    if parsed is _NOT_JSON:
        raise NotInFormat("not JSON")
    if not isinstance(parsed, dict):
        raise NotInFormat("not a JSON object with key, value and headers")
    return parsed


def names_of(name: str) -> tuple[str, ...]:
    """The members under which `json_fields` may put it."""
    return (name, f"{name}_b64", f"{name}_hex")


RECORD_MEMBERS = (
    *names_of("value"),
    *names_of("key"),
    "headers",
    "timestamp",
    "partition",
    "offset",
    "topic",
)
HEADER_MEMBERS = (*names_of("value"), *names_of("key"))


def check_members(fields: Mapping[str, Any], known: Sequence[str], *, needs: str) -> None:
    """A misspelt `value` must not become a null, which deletes where a topic is compacted."""
    for each in fields:
        if each not in known:
            close = get_close_matches(each, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise NotInFormat(f"'{_excerpt(each.encode(errors=BACKSLASHES))}' is unknown; {hint}")
    for name in ("key", "value"):
        given = [each for each in names_of(name) if each in fields]
        if len(given) > 1:
            raise NotInFormat(f"use one of {' and '.join(given)}")
        if name == needs and not given:
            raise NotInFormat(f'there is no {name}; for none write "{name}": null')


def json_bytes(name: str, fields: Mapping[str, Any], form: Format) -> bytes | None:
    """The inverse of `json_fields`. What is absent is null."""
    _, in_base64, in_hex = names_of(name)
    if in_base64 in fields:
        return _from_base64(_text(in_base64, fields))
    if in_hex in fields:
        return _from_hex(_text(in_hex, fields))
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, str) and form is not Format.JSON:
        return read(_text(name, fields), form)
    return compact(value).encode()


def _text(member: str, fields: Mapping[str, Any]) -> bytes:
    text = fields[member]
    if not isinstance(text, str):
        raise NotInFormat(f"{member} must be a string")
    if found := _HALF.search(text):
        raise NotInFormat(f"{member} holds \\u{ord(found[0]):04x}, half of a character")
    return text.encode()


def headers_of(fields: Mapping[str, Any]) -> Headers:
    """From a list as `json_headers` writes it, or from a plain map."""
    given = fields.get("headers") or []
    if isinstance(given, Mapping):
        given = [{"key": name, "value": value} for name, value in given.items()]
    if not isinstance(given, Sequence) or not all(_is_header(each) for each in given):
        raise NotInFormat('headers must be a map, or a list of {"key": ..., "value": ...}')
    for each in given:
        check_members(each, HEADER_MEMBERS, needs="value")
    return tuple((_name(each), json_bytes("value", each, Format.UTF8)) for each in given)


def _is_header(each: object) -> bool:
    return isinstance(each, Mapping) and any(
        isinstance(each.get(name), str) for name in names_of("key")
    )


def _name(header: Mapping[str, Any]) -> str:
    raw = json_bytes("key", header, Format.UTF8)
    assert raw is not None
    return raw.decode("utf-8", errors="surrogateescape")


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        raise NotInFormat(f"'{_excerpt(text)}' is not base64") from None


def _from_hex(text: bytes) -> bytes:
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError:
        raise NotInFormat(f"'{_excerpt(text)}' is not hex") from None


_NOT_JSON = object()


def _parsed(data: bytes) -> Any:
    """The value, or `_NOT_JSON`: None is a value."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _raw(name: str) -> bytes:
    """A header's name as it came: odd bytes are kept as surrogate escapes."""
    return name.encode("utf-8", errors="surrogateescape")


def _excerpt(text: bytes) -> str:
    """For a sentence: printable and short."""
    clean = text.decode(errors="backslashreplace")
    return clean if len(clean) <= EXCERPT_MAX else f"{clean[:EXCERPT_MAX]}..."
