"""The schema language: what a class promises before a single byte is read."""

from __future__ import annotations

import pytest

from tests.wire.values import Values, every_message, every_version
from tierlog.wire.codec import decode_whole, encode
from tierlog.wire.errors import EncodeError
from tierlog.wire.layout import Layout, fields_of, layout_of
from tierlog.wire.schema import (
    EMPTY,
    REQUIRED,
    Message,
    Request,
    Struct,
    Versions,
    array,
    int8,
    int16,
    int32,
    string,
    struct,
)


class OrderRequest(Request, api_key=999, versions="0-3", flexible="2+"):
    """A message of this test only."""

    name: str = string()
    note: str | None = string("1+", nullable="2+", default="")
    lines: list[OrderLine] = array()
    codes: list[int] = array(int16, "1+", default=EMPTY, ignorable=True)
    origin: Origin | None = struct("2+", tag=0, default=None)
    urgency: int = int8("3+", tag=5, default=3)


class OrderLine(Struct):
    amount: int = int32()


class Origin(Struct):
    node: int = int32(default=-1)


def order(**more: object) -> OrderRequest:
    return OrderRequest(name="n", lines=[OrderLine(amount=1)], **more)  # type: ignore[arg-type]  # any field


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3+", [3, 99], [2]), ("2-5", [2, 5], [1, 6]), ("4", [4], [3, 5]), ("none", [], [0, 1])],
)
def test_version_ranges_read_as_kafka_writes_them(
    text: str, inside: list[int], outside: list[int]
) -> None:
    versions = Versions.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)
    assert str(versions) == text


def test_instances_are_compared_by_value() -> None:
    assert order() == order()
    assert order(note="x") != order()
    assert OrderLine(amount=1) != Origin(node=1)


def test_an_empty_default_is_a_new_list_each_time() -> None:
    first, second = order(), order()
    first.codes.append(1)
    assert second.codes == []


def test_a_missing_required_field_is_refused() -> None:
    with pytest.raises(TypeError, match="lines"):
        OrderRequest(name="n")  # type: ignore[call-arg]  # what is tested


def test_instances_have_no_room_for_misspelt_fields() -> None:
    with pytest.raises(AttributeError):
        order().nmae = "x"  # type: ignore[attr-defined]  # what is tested


def test_repr_names_every_field() -> None:
    assert repr(OrderLine(amount=3)) == "OrderLine(amount=3)"


def test_a_version_reads_defaults_for_fields_it_lacks() -> None:
    made = decode_whole(OrderRequest, 0, encode(order(), 0))
    assert (made.note, made.codes, made.origin, made.urgency) == ("", [], None, 3)


def test_a_value_that_the_version_cannot_carry_is_refused() -> None:
    with pytest.raises(EncodeError, match="note") as caught:
        encode(order(note="lost"), 0)
    assert caught.value.field == "note"


def test_an_ignorable_value_is_left_out() -> None:
    assert encode(order(codes=[1, 2]), 0) == encode(order(), 0)


def test_null_is_refused_where_the_version_has_none() -> None:
    assert decode_whole(OrderRequest, 2, encode(order(note=None), 2)).note is None
    with pytest.raises(EncodeError):
        encode(order(note=None), 1)


def test_a_tagged_field_is_sent_only_when_it_differs_from_its_default() -> None:
    plain = encode(order(), 3)
    assert encode(order(urgency=3), 3) == plain
    assert len(encode(order(urgency=4), 3)) == len(plain) + 3
    made = decode_whole(OrderRequest, 3, encode(order(urgency=4, origin=Origin(node=9)), 3))
    assert (made.urgency, made.origin) == (4, Origin(node=9))


@pytest.mark.parametrize("value", [1 << 31, "text", None])
def test_a_value_of_the_wrong_kind_is_refused_with_its_place(value: object) -> None:
    message = OrderRequest(name="n", lines=[OrderLine(amount=value)])  # type: ignore[arg-type]  # tested
    with pytest.raises(EncodeError) as caught:
        encode(message, 1)
    assert caught.value.field.startswith("lines[].amount")


def test_a_string_beyond_32767_bytes_is_refused() -> None:
    for version in (1, 2):
        long = order()
        long.name = "x" * 32_768
        with pytest.raises(EncodeError):
            encode(long, version)


@pytest.mark.parametrize("kind", every_message(), ids=lambda kind: kind.__name__)
def test_only_fields_of_every_version_go_without_default(kind: type[Message]) -> None:
    """Else a decoder would have nothing to put there."""
    for version in kind.versions:
        _check_defaults(layout_of(kind, version, version in kind.flexible))


def _check_defaults(layout: Layout) -> None:
    assert not [field.name for field in layout.absent if field.default is REQUIRED]
    assert not [field.name for field in layout.tagged if field.default is REQUIRED]
    for field in (*layout.plain, *layout.tagged):
        if field.struct is not None:
            _check_defaults(layout.nested(field.struct))


def test_tags_of_a_struct_are_distinct() -> None:
    for kind, version in every_version():
        tags = [field.tag for field in fields_of(kind) if version in field.versions]
        known = [tag for tag in tags if tag is not None]
        assert len(known) == len(set(known))


def test_every_message_round_trips_at_every_version() -> None:
    for kind, version in every_version():
        for seed in range(3):
            message = Values(seed).message(kind, version)
            assert decode_whole(kind, version, encode(message, version)) == message
