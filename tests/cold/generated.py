"""A manifest of a million segments: index pages are real, leaf pages made when they are read.

Making all of its entries would take minutes. A leaf that is appended to is a real one.
"""

import random
from dataclasses import replace

from tests.cold.makers import SEGMENT_BYTES, START_MS, TOPIC_ID, Bucket, a_head, an_entry
from tierlog.cold import chain, codec
from tierlog.cold.head import INDEX_REFS_MAX, LEAF_ENTRIES_MAX, Head, PageRef
from tierlog.cold.layout import page_key
from tierlog.cold.page import IndexPage, LeafPage, Page
from tierlog.types import Offset, TimestampMs


class Generated(Bucket):
    """A bucket whose `head` lists `segments` segments, a thousand records and a minute each."""

    def __init__(self, segments: int) -> None:
        super().__init__()
        self._made: dict[str, PageRef] = {}
        full, rest = divmod(segments, LEAF_ENTRIES_MAX)
        anchor = chain.genesis(TOPIC_ID, 7)
        leaves: list[PageRef] = []
        for number in range(full):
            leaves.append(self._leaf(number, leaves[-1].chain_after if leaves else anchor))
        indexes = [
            self._index(leaves[start : start + INDEX_REFS_MAX])
            for start in range(0, full, INDEX_REFS_MAX)
        ]
        base = Offset(full * LEAF_ENTRIES_MAX * 1000)
        head = replace(a_head(), indexes=tuple(indexes), next_offset=base)
        first = full * LEAF_ENTRIES_MAX
        self.head: Head = self.append(head, (an_entry(first + one) for one in range(rest)))

    def read(self, ref: PageRef) -> Page:
        if ref.key not in self._made:
            return super().read(ref)
        self.reads += 1
        first = ref.base // 1000
        made = [an_entry(first + number) for number in range(LEAF_ENTRIES_MAX)]
        return LeafPage(
            topic_id=TOPIC_ID,
            partition=7,
            chain_before=ref.chain_before,
            entries=chain.linked(ref.chain_before, made),
        )

    def _leaf(self, number: int, before: str) -> PageRef:
        """A reference as that of a real page would look."""
        rng = random.Random(number)
        first, end = number * LEAF_ENTRIES_MAX, (number + 1) * LEAF_ENTRIES_MAX
        last = an_entry(end - 1)
        ref = PageRef(
            key=page_key(first=Offset(first * 1000), attempt=rng.getrandbits(64)),
            sha256=rng.randbytes(32).hex(),
            size=70_000 + rng.randrange(1000),
            base=Offset(first * 1000),
            next_offset=Offset(end * 1000),
            segments=LEAF_ENTRIES_MAX,
            records=LEAF_ENTRIES_MAX * 1000,
            bytes=LEAF_ENTRIES_MAX * SEGMENT_BYTES + rng.randrange(1 << 22),
            min_timestamp=TimestampMs(START_MS + first * 60_000),
            max_timestamp=last.max_timestamp,
            max_append_ms=last.max_append_ms,
            chain_before=before,
            chain_after=rng.randbytes(32).hex(),
        )
        self._made[ref.key] = ref
        return ref

    def _index(self, leaves: list[PageRef]) -> PageRef:
        page = IndexPage(topic_id=TOPIC_ID, partition=7, leaves=tuple(leaves))
        data = codec.encode_page(page)
        key = page_key(first=page.leaves[0].base, attempt=self.mint())
        self.objects[key] = data
        return codec.refer(page, key=key, data=data)
