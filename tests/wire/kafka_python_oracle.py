"""kafka-python's protocol classes as an oracle: our messages as theirs, and their bytes.

Covers what it has classes for: no KIP-848 APIs, and a few it reads but cannot build.
"""

from __future__ import annotations

import uuid
import warnings
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tierlog.wire.layout import Layout, fields_of, layout_of
from tierlog.wire.schema import EMPTY

if TYPE_CHECKING:
    from tierlog.wire.schema import Field, Message, Struct

PACKAGES = ("admin", "consumer", "metadata", "producer", "sasl")


@cache
def class_of(kind: type[Message]) -> Any:
    """Their class for a message; LookupError when they have none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their import uses deprecated functions
        modules = [import_module(f"kafka.protocol.{package}") for package in PACKAGES]
    for module in modules:
        if hasattr(module, kind.__name__):
            return getattr(module, kind.__name__)
    raise LookupError(kind.__name__)


def write(message: Message, version: int) -> bytes:
    kind = type(message)
    layout = layout_of(kind, version, version in kind.flexible)
    theirs = _theirs(class_of(kind), layout, message)
    return bytes(theirs.encode(version=version))


def _theirs(cls: Any, layout: Layout, struct: Struct) -> Any:
    values = {}
    for field in fields_of(layout.struct):
        if layout.version not in field.versions:
            continue
        value = getattr(struct, field.name)
        if field.tag is not None and value == field.missing():
            continue
        values[_name(cls, field)] = _value(cls, field, layout, value)
    return cls(version=layout.version, **values)


def _name(cls: Any, field: Field) -> str:
    """Their name of a field; the operations somebody may do have lost their first word."""
    if field.name in cls._struct.fields:
        return field.name
    assert field.name.endswith("_authorized_operations")
    return "authorized_operations"


def _value(cls: Any, field: Field, layout: Layout, value: Any) -> Any:
    if value is None:
        return None
    if field.struct is not None:
        inner = cls._struct.fields[field.name].data_class
        if field.kind == "struct":
            return _theirs(inner, layout.nested(field.struct), value)
        return [_theirs(inner, layout.nested(field.struct), item) for item in value]
    if field.kind == "array":
        return list(value)
    if _is_bits(cls, field):
        return _bits(value)
    return uuid.UUID(bytes=value) if field.kind == "uuid" else value


def _is_bits(cls: Any, field: Field) -> bool:
    return bool(cls._struct.fields[_name(cls, field)]._type_str == "bitfield")


def _bits(value: int) -> set[int] | None:
    """Operations as a set; None for the number that means not asked for."""
    return None if value == -(1 << 31) else {bit for bit in range(32) if value >> bit & 1}


def same(message: Message, version: int, data: bytes) -> bool:
    """True when they read from the bytes what the message holds."""
    kind = type(message)
    layout = layout_of(kind, version, version in kind.flexible)
    return _same(layout, message, class_of(kind).decode(data, version=version))


def _same(layout: Layout, ours: Struct, theirs: Any) -> bool:
    present = [field for field in fields_of(layout.struct) if layout.version in field.versions]
    return all(
        _same_value(
            field, layout, getattr(ours, field.name), getattr(theirs, _name(type(theirs), field))
        )
        for field in present
    )


def _same_value(field: Field, layout: Layout, ours: Any, theirs: Any) -> bool:
    if ours is None and field.tag is not None and field.kind == "struct":
        return True  # not sent; they hold a default
    if field.kind == "uuid":
        return bool(ours == (theirs.bytes if theirs is not None else bytes(16)))
    if isinstance(ours, int) and not isinstance(theirs, (int, float)):
        return bool(_bits(ours) == theirs)
    if ours is None or theirs is None:
        # They hold a tagged array that was not sent as null.
        return ours is theirs or (field.default is EMPTY and not ours)
    if field.struct is not None:
        nested = layout.nested(field.struct)
        if field.kind == "struct":
            return _same(nested, ours, theirs)
        return len(ours) == len(theirs) and all(
            _same(nested, our, their) for our, their in zip(ours, theirs, strict=True)
        )
    return bool(ours == theirs)
