"""Heads of requests: what is read, what is refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.http.message import Response, encode_response, parse_head
from tierlog.http.problem import Problem


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def test_a_request_is_read() -> None:
    request = parse_head(head("GET /a%20b?x=1&y=&x=2 HTTP/1.1", "Host: h", "ACCEPT:  a , b \t"))
    assert (request.method, request.path) == ("GET", "/a b")
    assert request.query == {"x": "2", "y": ""}
    assert request.headers == {"host": "h", "accept": "a , b"}
    assert request.keeps_alive


def test_headers_of_one_name_are_joined() -> None:
    request = parse_head(head("GET / HTTP/1.1", "Host: h", "Accept: a", "accept: b"))
    assert request.headers["accept"] == "a, b"


@pytest.mark.parametrize(
    ("lines", "keeps_alive"),
    [
        (["GET / HTTP/1.1", "Host: h"], True),
        (["GET / HTTP/1.1", "Host: h", "Connection: Close"], False),
        (["GET / HTTP/1.1", "Host: h", "Connection: x, close"], False),
        (["GET / HTTP/1.0"], False),
        (["GET / HTTP/1.0", "Connection: keep-alive"], True),
        (["POST / HTTP/1.1", "Host: h", "Content-Length: 5"], False),
        (["POST / HTTP/1.1", "Host: h", "Content-Length: 0"], True),
        (["POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked"], False),
    ],
)
def test_a_connection_goes_on_only_where_both_ends_know_it(
    lines: list[str], keeps_alive: bool
) -> None:
    assert parse_head(head(*lines)).keeps_alive is keeps_alive


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["GET /"], 400),
        (["GET  / HTTP/1.1", "Host: h"], 400),
        (["GET / HTTP/1.1 ", "Host: h"], 400),
        (["G\u00e4T / HTTP/1.1", "Host: h"], 400),
        (["GET /\x00 HTTP/1.1", "Host: h"], 400),
        (["GET / http/1.1", "Host: h"], 400),
        (["GET / HTTP/1.10", "Host: h"], 400),
        (["PRI * HTTP/2.0"], 505),
        (["GET / HTTP/1.1"], 400),
        (["GET / HTTP/1.1", "Host: h", "Host: g"], 400),
        (["GET / HTTP/1.1", "Host : h"], 400),
        (["GET / HTTP/1.1", "Host: h", " folded: x"], 400),
        (["GET / HTTP/1.1", "Host: h", "no colon"], 400),
        (["GET / HTTP/1.1", "Host: h", "X: a\x00b"], 400),
        (["GET / HTTP/1.1", "Host: h", "X: a\nY: b"], 400),
        (["GET / HTTP/1.1", "Host: h", "X: a\rY: b"], 400),
        (["GET / HTTP/1.1", "Host: h", "Content-Length: -1"], 400),
        (["GET / HTTP/1.1", "Host: h", "Content-Length: \u00b2"], 400),
        (["GET / HTTP/1.1", "Host: h", "Content-Length: 1", "Content-Length: 1"], 400),
        (["GET metrics HTTP/1.1", "Host: h"], 400),
        (["GET ftp://h/x HTTP/1.1", "Host: h"], 400),
        (["GET /%zz HTTP/1.1", "Host: h"], 400),
        (["GET /%ff HTTP/1.1", "Host: h"], 400),
        (["GET /?" + "a&" * 200 + " HTTP/1.1", "Host: h"], 400),
    ],
)
def test_a_head_that_cannot_be_right_is_refused(lines: list[str], status: int) -> None:
    with pytest.raises(Problem) as refused:
        parse_head(head(*lines))
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("target", "path"),
    [("http://node:8080/a?b=1", "/a"), ("HTTP://node", "/"), ("*", "*"), ("//x/../y", "//x/../y")],
)
def test_targets_are_taken_apart_and_never_resolved(target: str, path: str) -> None:
    assert parse_head(head(f"OPTIONS {target} HTTP/1.1", "Host: h")).path == path


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_problem(data: bytes) -> None:
    with suppress(Problem):
        assert parse_head(b"GET " + data + b"\r\n\r\n").method == "GET"


def test_a_response_tells_its_length_with_and_without_its_body() -> None:
    response = Response(body=b"12345", headers={"Allow": "GET"})
    whole = encode_response(response, now_ms=0, keeps_alive=True)
    bare = encode_response(response, now_ms=0, keeps_alive=True, without_body=True)
    assert whole == bare + b"12345"
    assert b"\r\nContent-Length: 5\r\n" in bare
    assert b"\r\nAllow: GET\r\n" in bare
    assert b"\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n" in bare
    assert bare.endswith(b"Connection: keep-alive\r\n\r\n")
