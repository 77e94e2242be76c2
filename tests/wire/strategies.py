"""Hypothesis strategies for messages, made from the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import strategies as st

from tests.wire.values import BITS
from tierlog.wire.layout import Layout, layout_of

if TYPE_CHECKING:
    from tierlog.wire.schema import Field, Message

M = TypeVar("M", bound="Message")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["x" * 126, "x" * 127, "ü" * 70]
)


def messages(kind: type[M], version: int) -> st.SearchStrategy[M]:
    """Any message that a version can carry."""
    return _struct(layout_of(kind, version, version in kind.flexible))


def _struct(layout: Layout) -> st.SearchStrategy[Any]:
    plain = {field.name: _value(layout, field) for field in layout.plain}
    tagged = {
        field.name: st.just(field.missing()) | _value(layout, field) for field in layout.tagged
    }
    return st.builds(layout.struct, **plain, **tagged)


def _value(layout: Layout, field: Field) -> st.SearchStrategy[Any]:
    made = _present(layout, field)
    if layout.version in field.nullable and field.tag is None:
        return st.none() | made
    return made


def _present(layout: Layout, field: Field) -> st.SearchStrategy[Any]:
    if field.kind in BITS:
        bits = BITS[field.kind]
        if field.kind.startswith("u"):
            return st.integers(0, (1 << bits) - 1)
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    if field.kind == "array":
        assert field.element is not None
        if field.struct is not None:
            return st.lists(_struct(layout.nested(field.struct)), max_size=3)
        return st.lists(_present(layout, field.element), max_size=4)
    if field.kind == "struct":
        assert field.struct is not None
        return _struct(layout.nested(field.struct))
    return {
        "boolean": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=16, max_size=16),
        "string": TEXT,
        "bytes": st.binary(max_size=200),
        "records": st.binary(max_size=200),
    }[field.kind]
