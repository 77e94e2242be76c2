"""Lines of whatever is read, in pieces of whatever size."""

import os
import time
from collections.abc import Sequence

import pytest

from tierlog.cli.reader import LineReader


async def lines_of(chunks: Sequence[bytes]) -> list[bytes]:
    """What comes out when the input arrives in these pieces."""
    source, sink = os.pipe()
    os.close(sink)
    reader = LineReader(source)
    await reader._next()  # The end of the empty pipe.
    for chunk in (*chunks, b""):
        reader._chunks.put_nowait(chunk)
    found = [line async for line in reader.lines()]
    os.close(source)
    assert reader.taken_bytes == len(b"".join(chunks))
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("text", [b"", b"a", b"a\n", b"\n\n", b"one\n\ntwo\nthree", b"\na\n\nb\n"])
async def test_lines_are_the_same_however_the_input_is_cut(text: bytes, size: int) -> None:
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    expected = text.split(b"\n")
    assert await lines_of(chunks) == (expected if expected[-1] else expected[:-1])


async def test_a_line_of_many_chunks_is_not_copied_again_with_each() -> None:
    """64 MB in 4,096 chunks: some 50 ms, or a quarter of a minute where each chunk copies all."""
    chunk = bytes(1 << 14)
    began = time.process_time()
    (line,) = await lines_of([chunk] * 4096)
    assert len(line) == 64 << 20
    assert time.process_time() - began < 3


async def test_lines_come_from_a_pipe_as_they_are_written() -> None:
    source, sink = os.pipe()
    reader = LineReader(source)
    lines = reader.lines()
    os.write(sink, b"first\nsec")
    assert await anext(lines) == b"first"
    with os.fdopen(sink, "wb") as file:
        file.write(b"ond\n")
    assert [line async for line in lines] == [b"second"]
    os.close(source)
