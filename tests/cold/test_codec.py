"""HEAD and pages as bytes: round trips, bounds, and bytes that are no such thing."""

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cold.makers import Bucket, a_head, an_entry, entries
from tierlog.cold import canonical, codec, tree
from tierlog.cold.errors import ColdCorrupt, InvariantBroken, NewerFormat
from tierlog.cold.head import Garbage, Head, Hold, Skip
from tierlog.types import Offset

SMALL = tree.Limits(entries_inline=3, leaf_entries=6, leaves_inline=1, index_leaves=3)


def a_full_head() -> tuple[Head, Bucket]:
    """With something in every field."""
    bucket = Bucket(limits=SMALL)
    head = a_head()
    for entry in entries(range(14)):
        head = bucket.append(head, [entry])
    assert head.entries
    assert head.leaves
    assert head.indexes
    assert head.garbage
    head = replace(
        head,
        holds=(Hold("h1", Offset(5), Offset(500), "a case"),),
        skips=(Skip(Offset(1), Offset(2), 3),),
        garbage=(*head.garbage, Garbage(an_entry(99).key, "v1", 5)),
    )
    return head, bucket


def remade(data: bytes, change: Any) -> bytes:
    value = json.loads(gzip.decompress(data))
    change(value)
    return gzip.compress(json.dumps(value).encode())


def test_a_head_comes_back() -> None:
    head, _ = a_full_head()
    assert codec.decode_head(codec.encode_head(head), key="HEAD") == head


def test_equal_heads_are_equal_bytes() -> None:
    one, two = a_full_head()[0], a_full_head()[0]
    assert codec.encode_head(one) == codec.encode_head(two)


def test_pages_come_back_by_their_references() -> None:
    head, bucket = a_full_head()
    leaf = codec.open_page(head.leaves[-1], bucket.objects[head.leaves[-1].key])
    index = codec.open_page(head.indexes[-1], bucket.objects[head.indexes[-1].key])
    assert codec.encode_page(leaf) == bucket.objects[head.leaves[-1].key]
    assert codec.encode_page(index) == bucket.objects[head.indexes[-1].key]


def test_a_page_whose_bytes_changed_is_refused() -> None:
    head, bucket = a_full_head()
    ref = head.leaves[-1]
    data = bytearray(bucket.objects[ref.key])
    data[len(data) // 2] ^= 1
    with pytest.raises(ColdCorrupt, match="SHA-256"):
        codec.open_page(ref, data)
    with pytest.raises(ColdCorrupt, match="bytes"):
        codec.open_page(ref, data[:-1])


def test_a_reference_that_says_something_else_than_its_page_is_refused() -> None:
    head, bucket = a_full_head()
    ref = head.leaves[-1]
    wrong = replace(ref, records=ref.records + 1)
    page = codec.open_page(wrong, bucket.objects[ref.key])
    codec.check_page(ref, page)
    with pytest.raises(ColdCorrupt, match="reference"):
        codec.check_page(wrong, page)
    with pytest.raises(ColdCorrupt, match="reference"):
        codec.open_page(replace(ref, base=Offset(ref.base + 1)), bucket.objects[ref.key])


def test_a_newer_format_is_refused_with_its_number() -> None:
    def newer(value: dict[str, object]) -> None:
        value["format"] = 2
        value["unheard_of"] = 1

    with pytest.raises(NewerFormat, match="format 2"):
        codec.decode_head(remade(codec.encode_head(a_head()), newer), key="HEAD")


def test_a_page_is_not_taken_for_a_head() -> None:
    head, bucket = a_full_head()
    with pytest.raises(ColdCorrupt, match="kind"):
        codec.decode_head(bucket.objects[head.leaves[-1].key], key="HEAD")


def test_a_bomb_is_not_unpacked() -> None:
    bomb = canonical.compress(b" " * (codec.PLAIN_BYTES_MAX + 1))
    assert len(bomb) < 100_000
    with pytest.raises(ColdCorrupt, match="unpacks to more"):
        codec.decode_head(bomb, key="HEAD")


@pytest.mark.parametrize(
    "plain",
    [b"", b"[", b"[" * 100_000, b"1" * 10_000, b'"x"', b"{}", b"\xff", b'{"format":1.0}', b"NaN"],
)
def test_what_is_no_manifest_is_corrupt(plain: bytes) -> None:
    with pytest.raises(ColdCorrupt):
        codec.decode_head(canonical.compress(plain), key="HEAD")


def test_a_head_that_no_reader_would_take_is_not_written() -> None:
    crowd = tuple(Garbage(f"seg/{number:0190d}", None, 5) for number in range(20_000))
    with pytest.raises(InvariantBroken, match="bounds"):
        codec.encode_head(replace(a_head(), garbage=crowd))


def test_a_cut_or_lengthened_object_is_corrupt() -> None:
    data = codec.encode_head(a_full_head()[0])
    for wrong in (b"", data[:-1], data[: len(data) // 2], data + b"x", data + data):
        with pytest.raises(ColdCorrupt):
            codec.decode_head(wrong, key="HEAD")


def test_an_unknown_field_is_refused_and_named() -> None:
    def add(value: dict[str, Any]) -> None:
        value["entries"][0]["surprise"] = 1

    data = remade(codec.encode_head(a_full_head()[0]), add)
    with pytest.raises(ColdCorrupt, match=r"entries\[0\].*surprise"):
        codec.decode_head(data, key="HEAD")


CHANGES: list[Callable[[dict[str, Any]], object]] = [
    lambda head: head["garbage"][0].update(key="../HEAD"),
    lambda head: head["garbage"][0].update(key="HEAD"),
    lambda head: head["entries"][0].update(key="seg/x"),
    lambda head: head["entries"][0].update(key=head["entries"][1]["key"]),
    lambda head: head["leaves"][0].update(key=head["indexes"][0]["key"]),
    lambda head: head["entries"][0]["sections"].reverse(),
    lambda head: head["entries"][0]["sections"].clear(),
    lambda head: head["entries"][0]["sections"][0].__setitem__(1, 4),
    lambda head: head["entries"][0]["sections"][1].__setitem__(1, 12),
    lambda head: head["entries"][0]["samples"].clear(),
    lambda head: head["entries"][0]["samples"][0].__setitem__(0, 1),
    lambda head: head["entries"][0]["samples"].reverse(),
    lambda head: head["entries"][0].update(size=head["entries"][0]["data_bytes"]),
    lambda head: head.update(topic="\ud800"),
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_values_that_contradict_each_other_are_refused(
    change: Callable[[dict[str, Any]], object],
) -> None:
    with pytest.raises(ColdCorrupt):
        codec.decode_head(remade(codec.encode_head(a_full_head()[0]), change), key="HEAD")


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    found = [path] if path else []
    if isinstance(value, dict):
        for name in value:
            found += places(value[name], (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            found += places(inner, (*path, number))
    return found


HEAD_BYTES = codec.encode_head(a_full_head()[0])
HEAD_PLACES = places(json.loads(gzip.decompress(HEAD_BYTES)))
strange: st.SearchStrategy[object] = st.sampled_from(
    [None, -2, 2**63, 1.5, "", "x" * 2000, [], [[]], [[1]], {}, True, [None]]
)


@given(st.sampled_from(HEAD_PLACES), strange)
def test_a_strange_value_anywhere_gives_a_head_or_a_clear_error(
    place: tuple[Any, ...], value: object
) -> None:
    def put(target: Any) -> None:
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = value

    with suppress(ColdCorrupt, NewerFormat):
        assert isinstance(codec.decode_head(remade(HEAD_BYTES, put), key="HEAD"), Head)


@given(st.sampled_from([place for place in HEAD_PLACES if isinstance(place[-1], str)]))
def test_a_field_that_is_missing_is_named(place: tuple[Any, ...]) -> None:
    def drop(target: Any) -> None:
        for step in place[:-1]:
            target = target[step]
        del target[place[-1]]

    with pytest.raises(ColdCorrupt, match=f"lacks {place[-1]}"):
        codec.decode_head(remade(HEAD_BYTES, drop), key="HEAD")


@given(st.integers(0, len(HEAD_BYTES) - 1), st.integers(1, 255))
def test_a_flipped_byte_of_a_head_is_not_believed(position: int, flip: int) -> None:
    data = bytearray(HEAD_BYTES)
    data[position] ^= flip
    try:
        found = codec.decode_head(data, key="HEAD")
    except (ColdCorrupt, NewerFormat):
        return
    # Some bytes of gzip's header carry nothing, nor may the last bits before its trailer.
    assert position < 10 or position == len(HEAD_BYTES) - 9
    assert sha256(codec.encode_head(found)).digest() == sha256(HEAD_BYTES).digest()
