"""Frames out of a byte stream."""

from __future__ import annotations

import pytest

from tierlog.wire.errors import BadFrame
from tierlog.wire.framing import FRAME_BYTES_MAX, frame_size, framed, split_frames


def stream(*bodies: bytes) -> bytes:
    return b"".join(b"".join(framed([body])) for body in bodies)


def test_complete_frames_are_found_and_the_rest_is_left() -> None:
    buffer = stream(b"one", b"two!") + b"\0\0\0\x09unfin"
    assert [buffer[start:end] for start, end in split_frames(buffer)] == [b"one", b"two!"]


@pytest.mark.parametrize("cut", range(12))
def test_a_cut_stream_gives_only_what_is_whole(cut: int) -> None:
    buffer = stream(b"four", b"body")[:cut]
    found = [buffer[start:end] for start, end in split_frames(memoryview(buffer))]
    assert found == ([b"four"] if cut >= 8 else [])


@pytest.mark.parametrize("size", [0, -1, -(1 << 31), FRAME_BYTES_MAX + 1, (1 << 31) - 1])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(BadFrame, match=str(size)):
        frame_size(size.to_bytes(4, "big", signed=True))


def test_the_largest_frame_is_allowed() -> None:
    assert frame_size(FRAME_BYTES_MAX.to_bytes(4, "big")) == FRAME_BYTES_MAX


def test_the_limit_is_the_callers() -> None:
    with pytest.raises(BadFrame):
        list(split_frames(stream(b"x" * 11), bytes_max=10))


@pytest.mark.parametrize(
    ("start", "word"),
    [
        (b"\x16\x03\x01\x02", "TLS"),
        (b"\x15\x03\x01\x00", "TLS"),
        *(
            (line[:4], "HTTP")
            for line in (
                b"GET / HTTP/1.1",
                b"HEAD / HTTP/1.1",
                b"POST / HTTP/1.1",
                b"PUT / HTTP/1.1",
                b"PATCH / HTTP/1.1",
                b"DELETE / HTTP/1.1",
                b"OPTIONS * HTTP/1.1",
                b"CONNECT host:443 HTTP/1.1",
                b"TRACE / HTTP/1.1",
            )
        ),
    ],
)
def test_strangers_are_recognised(start: bytes, word: str) -> None:
    with pytest.raises(BadFrame, match=word):
        frame_size(start)


def test_other_words_are_not_taken_for_http() -> None:
    with pytest.raises(BadFrame) as caught:
        frame_size(b"GEAR")
    assert "HTTP" not in str(caught.value)


def test_parts_are_framed_by_their_sum() -> None:
    assert b"".join(framed([b"ab", memoryview(b"cde")])) == b"\0\0\0\x05abcde"
