"""Random messages of any schema and version, with the corners that codecs stumble over.

Seeded by the caller. Draws null and empty, tagged fields set and left out, lengths on both sides
of one varint byte (127, 128) and of two (16,383), integers at their ends, text beyond ASCII.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type, response_type
from tierlog.wire.layout import Layout, layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.wire.schema import Field, Message, Struct

M = TypeVar("M", bound="Message")

BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
ERROR_CODE_LAST = 133
TIMES_MS = (-1, 0, 1, 1_600_000_000_123)  # what foreign codecs can hold as a date
TEXTS = ("", "a", "topic", "grüße", "日本", "😀", "é" * 63, "x" * 126, "x" * 127, "ü" * 64)


def every_message() -> list[type[Message]]:
    """All requests and responses that have a schema."""
    return [kind for api in ApiKey for kind in (request_type(api), response_type(api))]


def every_version() -> Iterator[tuple[type[Message], int]]:
    return ((kind, version) for kind in every_message() for version in kind.versions)


class Values:
    """Draws values. `size` is the usual number of elements in an array."""

    def __init__(self, seed: int, *, size: int = 2) -> None:
        self._random = Random(seed)
        self._size = size

    def message(self, kind: type[M], version: int) -> M:
        made = self._struct(layout_of(kind, version, version in kind.flexible))
        assert isinstance(made, kind)
        return made

    def _struct(self, layout: Layout) -> Struct:
        values = {field.name: self._value(layout, field) for field in layout.plain}
        for field in layout.tagged:
            if self._random.random() < 0.5:
                values[field.name] = self._value(layout, field)
        return layout.struct(**values)

    def _value(self, layout: Layout, field: Field) -> Any:
        draw = self._random.random()
        if layout.version in field.nullable and field.name and draw < 0.2:
            return None
        if field.kind == "array":
            assert field.element is not None
            return [self._element(layout, field) for _ in range(self._count(field))]
        return self._scalar(layout, field)

    def _element(self, layout: Layout, field: Field) -> Any:
        if field.struct is not None:
            return self._struct(layout.nested(field.struct))
        assert field.element is not None
        return self._scalar(layout, field.element)

    def _count(self, field: Field) -> int:
        draw = self._random.random()
        if draw < 0.2:
            return 0
        if draw > 0.97 and field.struct is None:
            return self._random.choice((126, 127, 128, 300))
        return self._random.randint(1, self._size)

    def _scalar(self, layout: Layout, field: Field) -> Any:
        random = self._random
        if field.kind in BITS:
            return self._integer(field)
        if field.kind == "boolean":
            return random.random() < 0.5
        if field.kind == "float64":
            return random.choice((0.0, -1.5, 1e300, random.random()))
        if field.kind == "uuid":
            return random.choice((bytes(16), random.randbytes(16), random.randbytes(16)))
        if field.kind == "string":
            return self._text()
        if field.kind in ("bytes", "records"):
            return random.randbytes(random.choice((0, 1, 100, 126, 127, 128, 500)))
        assert field.kind == "struct"
        assert field.struct is not None
        return self._struct(layout.nested(field.struct))

    def _text(self) -> str:
        if self._random.random() < 0.005:
            return "z" * self._random.choice((16_382, 16_383, 32_767))
        return self._random.choice(TEXTS) + self._random.choice(("", "-1", "-2"))

    def _integer(self, field: Field) -> int:
        random = self._random
        if field.name.endswith("error_code"):
            return random.randint(-1, ERROR_CODE_LAST)
        if field.name.endswith("_ms") and field.kind == "int64":
            return random.choice(
                TIMES_MS if field.name != "transaction_start_time_ms" else TIMES_MS[1:]
            )
        bits = BITS[field.kind]
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        if field.kind.startswith("u"):
            low, high = 0, (1 << bits) - 1
        return random.choice((low, high, 0, 1, 1, 7, random.randint(low, high)))
