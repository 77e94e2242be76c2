"""The messages that cost most memory per byte: arrays of the smallest elements there are.

An element on the wire may be as small as two or three bytes while its object is hundreds; these
messages show the largest multiple of the frame that decoding can take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierlog.wire.layout import Layout, layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.wire.schema import Field, Message, Struct

ZEROES = {"boolean": False, "float64": 0.0, "uuid": bytes(16), "string": "", "bytes": b""}


def smallest(layout: Layout, path: tuple[str, ...] = (), count: int = 0) -> Struct:
    """The smallest instance, but for the array at the path, which has `count` such elements."""
    values = {
        field.name: _value(layout, field, path, count)
        for field in layout.plain
        if field.kind != "records"
    }
    values.update(
        (field.name, _value(layout, field, path, count))
        for field in layout.tagged
        if path[:1] == (field.name,)
    )
    return layout.struct(**values)


def _value(layout: Layout, field: Field, path: tuple[str, ...], count: int) -> Any:
    rest = path[1:] if path[:1] == (field.name,) else None
    if field.kind == "array":
        return _array(layout, field, rest, count)
    if field.kind == "struct":
        assert field.struct is not None
        if layout.version in field.nullable and rest is None:
            return None
        return smallest(layout.nested(field.struct), rest or (), count)
    return ZEROES.get(field.kind, 0)


def _array(layout: Layout, field: Field, rest: tuple[str, ...] | None, count: int) -> list[Any]:
    assert field.element is not None
    if rest is None:
        return []
    if field.struct is None:
        return [ZEROES.get(field.element.kind, 0)] * count
    nested = layout.nested(field.struct)
    if rest:
        return [smallest(nested, rest, count)]
    return [smallest(nested)] * count


def array_paths(layout: Layout, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every array in a message."""
    for field in (*layout.plain, *layout.tagged):
        path = (*before, field.name)
        if field.kind == "array":
            yield path
        if field.struct is not None:
            yield from array_paths(layout.nested(field.struct), path)


def with_one_large_array(kind: type[Message], version: int, count: int) -> Iterator[Struct]:
    layout = layout_of(kind, version, version in kind.flexible)
    for path in array_paths(layout):
        yield smallest(layout, path, count)
