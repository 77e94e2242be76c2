"""Keys and values between bytes and text: what is printed reads back."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierlog.cli.formats import (
    Format,
    NotInFormat,
    compact,
    harmless,
    headers_of,
    json_bytes,
    json_fields,
    json_headers,
    read,
    read_json,
    shown,
    shown_headers,
)


def as_name(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")


EXACT = [Format.UTF8, Format.BASE64, Format.HEX]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Format.UTF8, "grüß"),
        (Format.BASE64, "Z3LDvMOf"),
        (Format.HEX, "6772c3bcc39f"),
        (Format.JSON, "grüß"),
    ],
)
def test_bytes_are_shown_in_the_format_asked_for(form: Format, text: str) -> None:
    assert shown("grüß".encode(), form) == text


def test_json_is_shown_on_one_line() -> None:
    assert shown(b'{\n "a": [1, 2]\n}', Format.JSON) == '{"a":[1,2]}'


def test_what_is_not_utf8_is_shown_with_its_bytes_and_null_as_null() -> None:
    assert shown(b"a\xffb", Format.UTF8) == "a\\xffb"
    assert shown(None, Format.HEX) == "null"


@pytest.mark.parametrize("form", EXACT)
@settings(max_examples=40)
@given(data=st.none() | st.binary())
def test_bytes_in_json_read_back_exactly(form: Format, data: bytes | None) -> None:
    line = compact({"offset": 1, **json_fields("value", data, form)}).encode()
    assert json_bytes("value", read_json(line), Format.UTF8) == data


@pytest.mark.parametrize("value", ["text", 7, None, [1, {"a": None}], True])
def test_json_values_in_json_read_back_as_the_same_value(value: object) -> None:
    data = json.dumps(value).encode()
    fields = json_fields("value", data, Format.JSON)
    assert fields == {"value": value}
    if value is not None:  # A null there means no value at all, as the protocol has it.
        again = json_bytes("value", fields, Format.JSON)
        assert again is not None
        assert json.loads(again) == value


@pytest.mark.parametrize("form", list(Format))
@pytest.mark.parametrize("data", [b'"\\ud800"', b'{"a":"\\udc80"}'])
def test_half_a_character_in_json_can_be_printed(form: Format, data: bytes) -> None:
    """JSON can name half of a surrogate pair. UTF-8 cannot write it."""
    assert shown(data, form).encode()
    line = compact(json_fields("value", data, form)).encode()
    if form is Format.JSON:
        assert json.loads(line)["value"] == json.loads(data)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"value": "a\ud800"}, "value holds \\ud800, half of a character"),
        ({"value_b64": "\udc80"}, "value_b64 holds \\udc80, half of a character"),
        ({"value_b64": None}, "value_b64 must be a string"),
        ({"value_hex": 12}, "value_hex must be a string"),
    ],
)
def test_text_that_is_no_text_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(NotInFormat) as caught:
        json_bytes("value", fields, Format.UTF8)
    assert str(caught.value) == complaint


def test_what_is_not_utf8_says_so_in_its_name() -> None:
    assert json_fields("key", b"\xff", Format.UTF8) == {"key_b64": "/w=="}
    assert json_fields("key", b"\xff", Format.JSON) == {"key_b64": "/w=="}
    assert json_fields("key", b"no json", Format.JSON) == {"key": "no json"}


@settings(max_examples=40)
@given(
    headers=st.lists(st.tuples(st.binary().map(as_name), st.none() | st.binary()), max_size=4).map(
        lambda found: tuple(found)
    )
)
def test_headers_keep_their_order_and_their_doubles(
    headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    line = compact({"headers": json_headers(headers)}).encode()
    assert headers_of(read_json(line)) == headers


def test_headers_may_be_a_plain_map() -> None:
    assert headers_of({"headers": {"a": "1", "b": None}}) == (("a", b"1"), ("b", None))
    assert headers_of({}) == ()


@pytest.mark.parametrize("headers", ["a=b", [1], [{"value": "x"}], {"a": "b"}.keys])
def test_headers_of_another_shape_are_refused(headers: object) -> None:
    with pytest.raises(NotInFormat, match="headers must be"):
        headers_of({"headers": headers})


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ({"key": "a", "valu": "x"}, "'valu' is unknown; did you mean value?"),
        ({"key": "a"}, 'there is no value; for none write "value": null'),
        ({"key": "a", "value": "x", "value_b64": "eA=="}, "use one of value and value_b64"),
    ],
)
def test_a_header_says_its_value(header: dict[str, str], complaint: str) -> None:
    with pytest.raises(NotInFormat) as caught:
        headers_of({"headers": [header]})
    assert str(caught.value) == complaint


def test_headers_are_shown_in_one_column() -> None:
    assert shown_headers((("a", b"1"), ("a", None))) == "a=1,a=null"


@pytest.mark.parametrize(
    ("form", "text", "complaint"),
    [
        (Format.BASE64, b"a", "is not base64"),
        (Format.BASE64, b"\xff!", "is not base64"),
        (Format.HEX, b"0x1", "is not hex"),
        (Format.JSON, b"{", "is not JSON"),
    ],
)
def test_what_is_not_in_its_format_is_refused(form: Format, text: bytes, complaint: str) -> None:
    with pytest.raises(NotInFormat, match=complaint):
        read(text, form)


def test_json_input_is_passed_through_as_written() -> None:
    assert read(b'{ "a": 1 }', Format.JSON) == b'{ "a": 1 }'


@pytest.mark.parametrize("line", [b"", b"[1]", b"7", b"{", b"\xff", b"[" * 100_000])
def test_json_input_must_be_objects(line: bytes) -> None:
    with pytest.raises(NotInFormat, match=r"not JSON|not a JSON object"):
        read_json(line)


def test_a_record_cannot_steer_the_terminal() -> None:
    assert harmless("a\x1b[2Jb\tc\r\x9b") == "a\\x1b[2Jb\tc\\x0d\\x9b"
