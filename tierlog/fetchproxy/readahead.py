"""How far ahead of a reader to download. Pure policy.

A reader is known by the place where its last answer ended: who asks for that offset is the reader
coming back. At its first return the window opens to one chunk, and it doubles with every chunk that
is read, up to the limit. Nothing is fetched unless a reader comes: one that stalls is at most its
window ahead of itself, and when it comes back late it starts anew with one chunk.
"""

from collections import OrderedDict

from tierlog.cold.entry import Entry
from tierlog.fetchproxy.clients import Reader
from tierlog.fetchproxy.flights import Allowance
from tierlog.types import Offset, Position

STREAMS_MAX = 4096
"""Remembered readers; some hundred bytes each."""


class Window:
    __slots__ = ("_chunk_bytes", "_consumed", "_max", "_stall_s", "last_s", "size")

    def __init__(self, *, chunk_bytes: int, bytes_max: int, stall_s: float, now_s: float) -> None:
        self.size = 0
        """Bytes ahead of the reader that should be here or on their way."""
        self._chunk_bytes = chunk_bytes
        self._max = bytes_max
        self._stall_s = stall_s
        self.last_s = now_s
        """When the reader was last heard of."""
        self._consumed = 0

    def came_back(self, now_s: float) -> None:
        """The reader asks for what follows its last answer."""
        if self.size == 0 or now_s - self.last_s > self._stall_s:
            self.size = min(self._chunk_bytes, self._max)
            self._consumed = 0
        self.last_s = now_s

    def answered(self, size: int, now_s: float) -> None:
        """The reader got `size` bytes."""
        self.last_s = now_s
        self._consumed += size
        if self.size and self._consumed >= self._chunk_bytes:
            self.size = min(2 * self.size, self._max)
            self._consumed = 0


class Stream:
    """A reader that reads on, and where its next answer begins."""

    __slots__ = (
        "ahead_done",
        "allowance",
        "entry",
        "is_ahead_running",
        "key",
        "offset",
        "path",
        "position",
        "reader",
        "window",
    )

    def __init__(self, reader: Reader, path: str, window: Window, allowance: Allowance) -> None:
        self.reader = reader
        self.path = path
        """Of the partition."""
        self.window = window
        self.allowance = allowance
        self.key = ""
        self.entry: Entry | None = None
        """The segment that it is in, or has just read to the end."""
        self.offset = Offset(-1)
        self.position = Position(0)
        self.is_ahead_running = False
        self.ahead_done: tuple[str, int, int] | None = None
        """Segment, chunk and window for which everything ahead is here or on its way."""


class Streams:
    def __init__(self) -> None:
        self._streams: OrderedDict[tuple[str, Offset], Stream] = OrderedDict()

    def find(self, path: str, offset: Offset) -> Stream | None:
        return self._streams.get((path, offset))

    def begin(self, reader: Reader, path: str, window: Window, allowance: Allowance) -> Stream:
        return Stream(reader, path, window, allowance)

    def move(
        self, stream: Stream, *, key: str, entry: Entry, position: Position, offset: Offset
    ) -> None:
        """Its answer ended at `offset`. Of two that end at the same place one is remembered."""
        if self._streams.get((stream.path, stream.offset)) is stream:
            del self._streams[stream.path, stream.offset]
        stream.key, stream.entry, stream.position, stream.offset = key, entry, position, offset
        self._streams[stream.path, offset] = stream
        self._streams.move_to_end((stream.path, offset))
        while len(self._streams) > STREAMS_MAX:
            self._streams.popitem(last=False)

    def count_since(self, moment_s: float) -> tuple[int, int]:
        """Readers and clients that were heard of since then; the last of them is the last in
        order."""
        count = 0
        accounts = set()
        for stream in reversed(self._streams.values()):
            if stream.window.last_s < moment_s:
                break
            count += 1
            accounts.add(id(stream.reader.account))
        return count, len(accounts)

    def __len__(self) -> int:
        return len(self._streams)
