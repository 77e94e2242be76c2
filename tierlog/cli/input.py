"""A line of input as a record. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tierlog.cli.failure import usage
from tierlog.cli.formats import (
    RECORD_MEMBERS,
    Format,
    Headers,
    NotInFormat,
    check_members,
    headers_of,
    json_bytes,
    read,
    read_json,
)
from tierlog.client import NewRecord

LONG_MAX = 2**63 - 1
LINES, JSON = "lines", "json"


class ToSend(NamedTuple):
    record: NewRecord
    partition: int | None
    """None: the key decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSettings:
    read_as: str = LINES
    key: bytes | None = None
    key_separator: bytes | None = None
    headers: Headers = ()
    key_format: Format = Format.UTF8
    value_format: Format = Format.UTF8
    partition: int | None = None

    @classmethod
    def checked(
        cls,
        *,
        read_as: str,
        key: str | None,
        key_separator: str | None,
        headers: Sequence[str],
        key_format: Format,
        value_format: Format,
        partition: int | None,
    ) -> "InputSettings":
        """From the options as given; a usage error where they make no sense."""
        if read_as not in {LINES, JSON}:
            raise usage(f"--input {read_as} is neither lines nor json")
        if key is not None and key_separator is not None:
            raise usage("use one of --key and --key-separator")
        if read_as == JSON and key_separator is not None:
            raise usage("JSON input names its keys: leave --key-separator out")
        if key_separator == "":
            raise usage("--key-separator is empty")
        try:
            fixed = None if key is None else read(_bytes(key), key_format)
        except NotInFormat as error:
            raise usage(f"--key {error}") from None
        return cls(
            read_as=read_as,
            key=fixed,
            key_separator=None if key_separator is None else _bytes(key_separator),
            headers=tuple(_header(each) for each in headers),
            key_format=key_format,
            value_format=value_format,
            partition=partition,
        )

    def parse(self, line: bytes) -> ToSend:
        """Raises `NotInFormat`. The line comes without its newline."""
        if self.read_as == JSON:
            return self._from_json(read_json(line))
        key, value = self._split(line)
        record = NewRecord(read(value, self.value_format), key, self.headers)
        return ToSend(record, self.partition)

    def _split(self, line: bytes) -> tuple[bytes | None, bytes]:
        if self.key_separator is None:
            return self.key, line
        key, found, value = line.partition(self.key_separator)
        if not found:
            separator = self.key_separator.decode(errors="replace")
            raise NotInFormat(f"there is no '{separator}' between a key and a value")
        return read(key, self.key_format), value

    def _from_json(self, fields: dict[str, Any]) -> ToSend:
        check_members(fields, RECORD_MEMBERS, needs="value")
        key = json_bytes("key", fields, self.key_format)
        record = NewRecord(
            json_bytes("value", fields, self.value_format),
            self.key if key is None else key,
            headers_of(fields) + self.headers,
            _whole(fields, "timestamp"),
        )
        asked = _whole(fields, "partition")
        return ToSend(record, asked if self.partition is None else self.partition)


def _whole(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if value is None or (is_whole and 0 <= value <= LONG_MAX):
        return value
    raise NotInFormat(f"{name} must be a whole number")


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise usage(f"--header {text} is not of the form name=value")
    return name, _bytes(value)


def _bytes(text: str) -> bytes:
    """An argument as it was typed, odd bytes included."""
    return text.encode("utf-8", errors="surrogateescape")
