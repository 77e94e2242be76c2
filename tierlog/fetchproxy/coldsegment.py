"""A segment object and what is known of it: names, places of chunks, the index once it is here."""

import hashlib
from typing import TYPE_CHECKING

from tierlog.cold.entry import Entry
from tierlog.fetchproxy import plan, segmentindex
from tierlog.fetchproxy.batches import Cut
from tierlog.fetchproxy.chunks import chunk_name, index_name
from tierlog.objectstore.port import Span
from tierlog.types import Position

if TYPE_CHECKING:
    from tierlog.fetchproxy.segmentindex import SegmentIndex

CUTS_MAX = 512
"""Remembered of one segment, some hundred bytes each: two readers of a default segment, with the
limits of Kafka's consumer, need 128 each."""


class ColdSegment:
    __slots__ = ("_chunks", "_cuts", "digest", "entry", "index", "index_file", "key")

    def __init__(self, key: str, entry: Entry) -> None:
        self.key = key
        self.entry = entry
        self.index: SegmentIndex | None = None
        # The content is in the name: a file of another object cannot be taken for this one.
        name = f"{key}\n{entry.sha256}".encode()
        self.digest = hashlib.sha256(name).hexdigest()[:32]
        self.index_file = index_name(self.digest, segmentindex.sections_span(entry).size)
        self._chunks: dict[int, tuple[Span, str]] = {}
        self._cuts: dict[tuple[Position, int], Cut] = {}

    def chunk(self, number: int, chunk_bytes: int) -> tuple[Span, str]:
        """Where it lies, and what its file is called."""
        found = self._chunks.get(number)
        if found is None:
            span = plan.chunk_span(
                number, chunk_bytes=chunk_bytes, data_bytes=self.entry.data_bytes
            )
            found = self._chunks[number] = span, chunk_name(self.digest, span)
        return found

    def cut_at(self, position: Position, bytes_max: int) -> Cut | None:
        """What an answer of at most `bytes_max` from `position` on was before, in one chunk or
        two."""
        return self._cuts.get((position, bytes_max))

    def remember(self, cut: Cut, bytes_max: int) -> None:
        """It was found in verified bytes, and those never change: the next reader need not look at
        the batches again."""
        if len(self._cuts) >= CUTS_MAX:
            self._cuts.clear()
        self._cuts[cut.start, bytes_max] = cut
