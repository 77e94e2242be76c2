"""A segment object and what is known of it: names, places of chunks, the index once it is here."""

import hashlib
from typing import TYPE_CHECKING

from tierlog.cold.entry import Entry
from tierlog.fetchproxy import plan, segmentindex
from tierlog.fetchproxy.chunks import chunk_name, index_name
from tierlog.objectstore.port import Span

if TYPE_CHECKING:
    from tierlog.fetchproxy.segmentindex import SegmentIndex


class ColdSegment:
    __slots__ = ("_chunks", "digest", "entry", "index", "index_file", "key")

    def __init__(self, key: str, entry: Entry) -> None:
        self.key = key
        self.entry = entry
        self.index: SegmentIndex | None = None
        # The content is in the name: a file of another object cannot be taken for this one.
        name = f"{key}\n{entry.sha256}".encode()
        self.digest = hashlib.sha256(name).hexdigest()[:32]
        self.index_file = index_name(self.digest, segmentindex.sections_span(entry).size)
        self._chunks: dict[int, tuple[Span, str]] = {}

    def chunk(self, number: int, chunk_bytes: int) -> tuple[Span, str]:
        """Where it lies, and what its file is called."""
        found = self._chunks.get(number)
        if found is None:
            span = plan.chunk_span(
                number, chunk_bytes=chunk_bytes, data_bytes=self.entry.data_bytes
            )
            found = self._chunks[number] = span, chunk_name(self.digest, span)
        return found
