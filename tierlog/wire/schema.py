"""The schema language: a Kafka message is an ordinary typed class.

    class ListOffsetsRequest(Request, api_key=2, versions="1-11", flexible="6+"):
        replica_id: int = int32()
        isolation_level: int = int8("2+", default=0)
        topics: list[ListOffsetsTopic] = array()
        timeout_ms: int = int32("10+", default=0, ignorable=True)

The annotation is what mypy checks and what the program holds; the specifier is what travels. One
class carries the fields of all versions, and the version is an argument of encode and decode.

- The first argument of a specifier is the range of versions that have the field, all by default.
- `default` is what a decoder puts where the version lacks the field; a field without one exists in
  every version and must be given. `EMPTY` is a new empty list each time.
- `nullable` is the range of versions in which None may travel; True is all of them.
- `tag` makes it a tagged field (KIP-482), sent when it differs from its default. A tagged struct
  has the default None: not sent.
- Encoding a value other than the default at a version that lacks the field is an error, since the
  receiver would not learn of it, unless the field is `ignorable`.

Nothing is compiled when a class is made: constructors at the first call, codecs at the first use
of a version (`compiler`). Classes may be named before they are defined, so a file can open with
the request and end with the leaves.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias, dataclass_transform

REQUIRED: Final[Any] = type("Required", (), {"__repr__": lambda self: "REQUIRED"})()
EMPTY: Final[Any] = type("Empty", (), {"__repr__": lambda self: "EMPTY"})()
NO_UUID: Final = bytes(16)
"""Kafka's zero UUID: no topic id known."""

VERSION_MAX = 0x7FFF


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends inclusive as Kafka writes them; empty if last < first."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read `3+`, `2-5`, `4`, or `none`."""
        if text == "none":
            return NEVER
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> typing.Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def covers(self, other: Versions) -> bool:
        return self.first <= other.first and other.last <= self.last

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == VERSION_MAX:
            return f"{self.first}+"
        return f"{self.first}-{self.last}" if self.last > self.first else str(self.first)


ALWAYS = Versions(0, VERSION_MAX)
NEVER = Versions(0, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What one field of a class is on the wire."""

    name: str = ""
    kind: str
    """int8 .. float64, boolean, string, bytes, records, uuid, struct or array."""
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    ignorable: bool
    element: Field | None = None
    """What an array holds; its name is empty."""
    struct: type[Struct] | None = None
    """The class of a struct, or of an array's structs; known once the class is resolved."""

    def missing(self) -> Any:
        """The value where a version lacks the field."""
        return [] if self.default is EMPTY else self.default


Specifier: TypeAlias = typing.Callable[..., Any]


def _field(
    kind: str,
    versions: str,
    *,
    default: Any,
    nullable: str | bool = False,
    tag: int | None = None,
    ignorable: bool = False,
    element: Field | None = None,
) -> Field:
    if isinstance(nullable, bool):
        nullable = str(ALWAYS if nullable else NEVER)
    return Field(
        kind=kind,
        versions=Versions.parse(versions),
        nullable=Versions.parse(nullable),
        tag=tag,
        default=default,
        ignorable=ignorable,
        element=element,
    )


def _fixed(kind: str) -> Specifier:
    """A specifier for a fixed-width kind: it has no null."""

    def specify(
        versions: str = "0+",
        *,
        default: Any = REQUIRED,
        tag: int | None = None,
        ignorable: bool = False,
    ) -> Any:
        return _field(kind, versions, default=default, tag=tag, ignorable=ignorable)

    specify.__name__ = kind
    return specify


def _sized(kind: str) -> Specifier:
    """A specifier for a kind with a length, which may be null."""

    def specify(
        versions: str = "0+",
        *,
        default: Any = REQUIRED,
        nullable: str | bool = False,
        tag: int | None = None,
        ignorable: bool = False,
    ) -> Any:
        return _field(
            kind, versions, default=default, nullable=nullable, tag=tag, ignorable=ignorable
        )

    specify.__name__ = kind
    return specify


int8 = _fixed("int8")
int16 = _fixed("int16")
uint16 = _fixed("uint16")
int32 = _fixed("int32")
uint32 = _fixed("uint32")
int64 = _fixed("int64")
float64 = _fixed("float64")
boolean = _fixed("boolean")
uuid = _fixed("uuid")
"""Sixteen plain bytes. A `uuid.UUID` costs more to make than the rest of a small message."""
string = _sized("string")
bytes_ = _sized("bytes")
"""Small opaque bytes, copied out of the buffer when read: they outlive the request."""
records_ = _sized("records")
"""Record batches: a view into the buffer when read, a part of its own when written."""
struct = _sized("struct")
"""A struct by the class in the annotation."""


def array(
    of: Specifier = struct,
    versions: str = "0+",
    *,
    default: Any = REQUIRED,
    nullable: str | bool = False,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """An array of structs by the class in the annotation, or `of` a primitive kind."""
    return _field(
        "array",
        versions,
        default=default,
        nullable=nullable,
        tag=tag,
        ignorable=ignorable,
        element=of(),
    )


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        int8, int16, uint16, int32, uint32, int64, float64, boolean, uuid, string, bytes_, records_,
        struct, array,
    ),
)  # fmt: skip
class SchemaType(type):
    """Makes a slotted class of a schema and keeps the fields aside."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
    ) -> SchemaType:
        fields = {key: value for key, value in body.items() if isinstance(value, Field)}
        for key in fields:
            del body[key]
        body["__slots__"] = tuple(fields)
        body["fields_as_written"] = {key: replace(f, name=key) for key, f in fields.items()}
        return super().__new__(mcs, name, bases, body, **options)


class Struct(metaclass=SchemaType):
    """A group of fields: made by keyword, compared by value, slotted, mutable."""

    fields_as_written: ClassVar[dict[str, Field]]

    def __init__(self, **values: Any) -> None:
        # The first construction of a class compiles its constructor in place of this one.
        from tierlog.wire.constructor import constructor_of

        made = constructor_of(type(self))
        type.__setattr__(type(self), "__init__", made)
        made(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name) for name in type(self).fields_as_written
        )

    __hash__ = None  # type: ignore[assignment]  # how Python spells "not hashable"

    def __repr__(self) -> str:
        values = ", ".join(
            f"{name}={getattr(self, name)!r}" for name in type(self).fields_as_written
        )
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A whole request or response."""

    api_key: ClassVar[int] = -1
    versions: ClassVar[Versions] = NEVER
    flexible: ClassVar[Versions] = NEVER

    def __init_subclass__(
        cls, *, api_key: int = -1, versions: str = "none", flexible: str = "none"
    ) -> None:
        cls.api_key = api_key
        cls.versions = Versions.parse(versions)
        cls.flexible = Versions.parse(flexible)


class Request(Message):
    """What a client sends."""


class Response(Message):
    """What a server answers."""
