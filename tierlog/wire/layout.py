"""What one version of a schema class looks like on the wire.

Resolves class names in annotations, splits the fields of a version into plain, tagged and absent,
and says how many bytes the smallest possible instance takes, which bounds the length of arrays.
"""

import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from tierlog.wire.schema import Field, Struct

FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "boolean": "?",
    "uuid": "16s",
}
"""Kinds of fixed width and their `struct` codes."""

FIXED_BYTES: Final = {
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "boolean": 1,
    "uuid": 16,
}


NUMBERS: Final = FIXED.keys() - {"boolean", "uuid"}
"""Kinds whose arrays travel as one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One version of a class. Plain fields are in wire order, tagged ones by rising tag."""

    struct: type[Struct]
    version: int
    flexible: bool
    plain: tuple[Field, ...]
    tagged: tuple[Field, ...]
    absent: tuple[Field, ...]
    bytes_min: int

    def nested(self, struct: type[Struct]) -> "Layout":
        return layout_of(struct, self.version, self.flexible)


def resolved(cls: type[Struct], field: Field) -> Field:
    """The field with its struct class looked up in the module of the class that names it."""
    inner = field.element or field
    if inner.kind != "struct":
        return field
    annotation: str = cls.__annotations__[field.name]
    name = annotation.removesuffix(" | None").removeprefix("list[").removesuffix("]")
    struct = getattr(sys.modules[cls.__module__], name)
    assert isinstance(struct, type)
    assert issubclass(struct, Struct), f"{cls.__name__}.{field.name}: {name} is not a Struct"
    return replace(field, struct=struct)


@cache
def fields_of(cls: type[Struct]) -> tuple[Field, ...]:
    return tuple(resolved(cls, field) for field in cls.fields_as_written.values())


@cache
def layout_of(cls: type[Struct], version: int, flexible: bool) -> Layout:
    present = [field for field in fields_of(cls) if version in field.versions]
    plain = tuple(field for field in present if field.tag is None)
    tagged = sorted((field for field in present if field.tag is not None), key=_tag)
    assert flexible or not tagged, f"{cls.__name__} v{version} has tags but is not flexible"
    return Layout(
        struct=cls,
        version=version,
        flexible=flexible,
        plain=plain,
        tagged=tuple(tagged),
        absent=tuple(field for field in fields_of(cls) if version not in field.versions),
        bytes_min=sum(bytes_min(field, version, flexible) for field in plain) + flexible,
    )


def bytes_min(field: Field, version: int, flexible: bool) -> int:
    """The least that a value of this field takes."""
    if field.kind in FIXED_BYTES:
        return FIXED_BYTES[field.kind]
    if field.kind == "struct":
        if version in field.nullable:
            return 1
        assert field.struct is not None
        return layout_of(field.struct, version, flexible).bytes_min
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


def _tag(field: Field) -> int:
    assert field.tag is not None
    return field.tag
