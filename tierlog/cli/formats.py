"""Keys and values between bytes and what people read and write. Pure.

Nothing is lost silently: in JSON, bytes that are not UTF-8 appear under a name that ends in `_b64`.
Reading takes back what writing gave: `consume --json | produce --input json` copies a topic.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

EXCERPT_MAX = 60

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
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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


def json_bytes(name: str, fields: Mapping[str, Any], form: Format) -> bytes | None:
    """The inverse of `json_fields`. What is absent is null."""
    if f"{name}_b64" in fields:
        return _from_base64(str(fields[f"{name}_b64"]).encode())
    if f"{name}_hex" in fields:
        return _from_hex(str(fields[f"{name}_hex"]).encode())
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, str) and form is not Format.JSON:
        return read(value.encode(), form)
    return compact(value).encode()


def headers_of(fields: Mapping[str, Any]) -> Headers:
    """From a list as `json_headers` writes it, or from a plain map."""
    given = fields.get("headers") or []
    if isinstance(given, Mapping):
        given = [{"key": name, "value": value} for name, value in given.items()]
    if not isinstance(given, Sequence) or not all(_is_header(each) for each in given):
        raise NotInFormat('headers must be a map, or a list of {"key": ..., "value": ...}')
    return tuple((_name(each), json_bytes("value", each, Format.UTF8)) for each in given)


def _is_header(each: object) -> bool:
    return isinstance(each, Mapping) and isinstance(each.get("key", each.get("key_b64")), str)


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
