"""kio as an oracle: our messages as kio's entities, and kio's bytes.

kio speaks of the same fields in the same order, but wraps some numbers (error codes, durations,
dates, zero UUIDs as None), drops `_ms` from names, and holds tuples. Modules are imported one by
one: all of them together take seconds.
"""

from __future__ import annotations

import datetime
import io
import uuid
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from tierlog.wire.api_keys import ApiKey
from tierlog.wire.layout import Layout, fields_of, layout_of
from tierlog.wire.schema import Request

if TYPE_CHECKING:
    from tierlog.wire.schema import Field, Message, Struct


@cache
def entity_of(kind: type[Message], version: int) -> Any:
    """kio's class for one version of a message."""
    name = ApiKey(kind.api_key).name.lower()
    side = "request" if issubclass(kind, Request) else "response"
    return getattr(import_module(f"kio.schema.{name}.v{version}.{side}"), kind.__name__)


def as_entity(message: Message, version: int) -> Any:
    kind = type(message)
    layout = layout_of(kind, version, version in kind.flexible)
    return _entity(entity_of(kind, version), layout, message)


def write(entity: Any) -> bytes:
    with io.BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def read(entity_type: Any, data: bytes) -> Any:
    made, size = entity_reader(entity_type)(data, 0)
    assert size == len(data)
    return made


def _entity(entity_type: Any, layout: Layout, struct: Struct) -> Any:
    ours = [field for field in fields_of(layout.struct) if layout.version in field.versions]
    theirs = dataclass_fields(entity_type)
    assert [f.name for f in theirs] == [
        _name(f.name, g.name) for f, g in zip(ours, theirs, strict=True)
    ]
    values = {}
    for our, their in zip(ours, theirs, strict=True):
        value = getattr(struct, our.name)
        if our.tag is not None and our.kind == "struct" and value is None:
            continue  # not sent; kio holds a struct of defaults instead
        values[their.name] = _value(our, their, layout, value)
    return entity_type(**values)


def _name(ours: str, theirs: str) -> str:
    """Our name in kio's spelling."""
    return theirs if ours == f"{theirs}_ms" else ours


def _value(our: Field, their: Any, layout: Layout, value: Any) -> Any:
    if value is None:
        return None
    if our.struct is not None:
        inner = _inner_entity(their.type)
        if our.kind == "struct":
            return _entity(inner, layout.nested(our.struct), value)
        return tuple(_entity(inner, layout.nested(our.struct), item) for item in value)
    if our.kind == "array":
        return tuple(_scalar(their.metadata["kafka_type"], item) for item in value)
    return _scalar(their.metadata["kafka_type"], value)


def _scalar(kafka_type: str, value: Any) -> Any:
    match kafka_type:
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "datetime_i64":
            made = datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
            return None if value == -1 else made
        case "uuid":
            return uuid.UUID(bytes=value) if any(value) else None
    return value


@cache
def _inner_entity(annotation: Any) -> Any:
    """The entity class inside `tuple[X, ...] | None`."""
    while not is_dataclass(annotation):
        annotation = next(a for a in get_args(annotation) if a not in (type(None), Ellipsis))
    return annotation
