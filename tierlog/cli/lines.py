"""A record as a line of output. Pure."""

from dataclasses import dataclass

from tierlog.cli.formats import (
    Format,
    compact,
    harmless,
    json_fields,
    json_headers,
    shown,
    shown_headers,
)
from tierlog.cli.times import show_time
from tierlog.records.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSettings:
    as_json: bool = False
    key_separator: str | None = None
    headers: bool = False
    meta: bool = False
    key_format: Format = Format.UTF8
    value_format: Format = Format.UTF8


def line_of(
    record: Record, *, topic: str, partition: int, settings: LineSettings, terminal: bool
) -> str:
    if settings.as_json:
        return _json_line(record, topic, partition, settings)
    line = "\t".join(_columns(record, partition, settings))
    return harmless(line) if terminal else line


def _json_line(record: Record, topic: str, partition: int, settings: LineSettings) -> str:
    return compact(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            **json_fields("key", record.key, settings.key_format),
            **json_fields("value", record.value, settings.value_format),
            "headers": json_headers(record.headers),
        }
    )


def _columns(record: Record, partition: int, settings: LineSettings) -> list[str]:
    columns = []
    if settings.meta:
        columns += [str(partition), str(record.offset), show_time(record.timestamp)]
    if settings.headers:
        columns.append(shown_headers(record.headers))
    value = shown(record.value, settings.value_format)
    if settings.key_separator is not None:
        value = f"{shown(record.key, settings.key_format)}{settings.key_separator}{value}"
    return [*columns, value]
