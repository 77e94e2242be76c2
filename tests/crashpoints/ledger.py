"""What was acknowledged, and what the bucket must show for it.

A judge who looks at bytes alone: he decodes what lies in the bucket, and asks no publisher,
uploader or restore what they think they did.
"""

from __future__ import annotations

import itertools
from hashlib import sha256
from typing import TYPE_CHECKING

from tests.crashpoints.member import PLACES, Member, Place
from tests.hot.support import values_of
from tierlog.cold import chain, codec, invariants
from tierlog.cold.codec import decode_head
from tierlog.cold.page import IndexPage, LeafPage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.crashpoints.member import Role
    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head, PageRef
    from tierlog.sim.bucket import SimBucket


class Ledger:
    def __init__(self, bucket: SimBucket) -> None:
        self.bucket = bucket
        self._acked: dict[Place, dict[int, bytes]] = {place: {} for place in PLACES}
        self._tried: dict[Place, set[bytes]] = {place: set() for place in PLACES}

    def value(self, role: Role, place: Place, offset: int, *, size: int) -> bytes:
        """A value that is written at this place, by this life, and nowhere else."""
        name = f"{role.host}/{role.leader_epoch}/{PLACES.index(place)}/{offset};"
        self._tried[place].add(value := name.encode() + b"." * size)
        return value

    def acked(self, place: Place, offset: int, value: bytes) -> None:
        self._acked[place][offset] = value

    def cut(self) -> int:
        """A restore from the bucket alone: what was acknowledged and not published is lost, by its
        own words. How many records that is."""
        lost = 0
        for place, acked in self._acked.items():
            head = self.head(place)
            end = 0 if head is None else head.next_offset
            for offset in [one for one in acked if one >= end]:
                del acked[offset]
                lost += 1
        return lost

    def head(self, place: Place) -> Head | None:
        item = self.bucket.shelf.items.get(place.keys.head)
        return None if item is None else decode_head(item.data, key=place.keys.head)

    # Judging

    def problems(self) -> Iterator[str]:
        """Sentences about what is wrong with the bucket."""
        yield from (f"{key} was written twice" for key in self.bucket.written_twice())
        yield from (f"{key} was deleted" for key in self.bucket.deleted)
        for place in PLACES:
            try:
                yield from self._problems_of(place)
            except Exception as fault:  # noqa: BLE001  whatever it is, it cannot be read
                yield f"{place.keys.prefix}: {type(fault).__name__}: {fault}"

    def _problems_of(self, place: Place) -> Iterator[str]:
        key = place.keys.head
        heads = [decode_head(data, key=key) for data in self.bucket.versions(key)]
        if not heads:
            yield f"there is no {key}"
            return
        yield from _history_problems(key, heads)
        yield from self._reference_problems(place)
        found = self.content(place)
        for offset, value in self._acked[place].items():
            if found.get(offset) != value:
                yield f"{key}: offset {offset} is {found.get(offset)!r}, acknowledged was {value!r}"
        for offset, value in found.items():
            if value not in self._tried[place]:
                yield f"{key}: offset {offset} is {value!r}, which nobody wrote there"

    def _reference_problems(self, place: Place) -> Iterator[str]:
        """Whoever saw a HEAD found what it refers to: it was there before."""
        there: set[str] = set()
        for landed in self.bucket.landed:
            if landed.key == place.keys.head:
                head = decode_head(landed.item.data, key=landed.key)
                for row in invariants.rows(head):
                    if place.keys.full(row.key) not in there:
                        yield f"version {head.version} of {landed.key} lists {row.key}: not there"
            there.add(landed.key)

    def content(self, place: Place) -> dict[int, bytes]:
        """Every record in the bucket, from the manifest's first to its last. Raises at the first
        hash, chain value or offset that is wrong."""
        head = self.head(place)
        found: dict[int, bytes] = {}
        if head is None:
            return found
        entries = list(self._entries(place, head))
        end = chain.check(head.chain_anchor, entries, key=place.keys.head)
        assert not entries or end == entries[-1].chain, "the chain ends with its last entry"
        offset = 0
        for entry in entries:
            assert entry.base == offset, f"behind {offset} comes {entry.base}"
            data = self._data(place.keys.full(entry.key))
            assert sha256(data).hexdigest() == entry.sha256, f"other bytes under {entry.key}"
            values = list(values_of(memoryview(data)[: entry.data_bytes]))
            assert len(values) == entry.records == entry.next_offset - entry.base, entry.key
            found.update(enumerate(values, start=entry.base))
            offset = entry.next_offset
        assert (head.log_start, head.next_offset) == (0, offset), "drops are no deletions"
        return found

    def _entries(self, place: Place, head: Head) -> Iterator[Entry]:
        leaves: list[PageRef] = []
        for ref in head.indexes:
            page = codec.open_page(ref, self._data(place.keys.full(ref.key)))
            assert isinstance(page, IndexPage), ref.key
            leaves += page.leaves
        for ref in (*leaves, *head.leaves):
            page = codec.open_page(ref, self._data(place.keys.full(ref.key)))
            assert isinstance(page, LeafPage), ref.key
            yield from page.entries
        yield from head.entries

    def _data(self, key: str) -> bytes:
        assert key in self.bucket.shelf.items, f"{key} is missing"
        return self.bucket.shelf.items[key].data

    def drop_problems(self, member: Member) -> Iterator[str]:
        """What a node let go of is in the bucket, byte by byte."""
        for place, log in member.logs.items():
            gone = [one for one in member.appended[place] if one < log.log_start]
            found = self.content(place) if gone else {}
            for offset in gone:
                if found.get(offset) != member.appended[place][offset]:
                    yield f"{member.role} dropped offset {offset} of {log.path}: it is not cold"

    def early_drops(self, member: Member) -> Iterator[str]:
        """At this moment: what is not on the disk any more is listed in HEAD."""
        for place, log in member.logs.items():
            head = self.head(place)
            end = 0 if head is None else head.next_offset
            if log.log_start > end:
                yield f"{log.path} of {member.role} begins at {log.log_start}, HEAD ends at {end}"


def _history_problems(key: str, heads: Sequence[Head]) -> Iterator[str]:
    """Every HEAD that ever stood there, in order: nothing goes back, and nobody comes back."""
    past: set[object] = set()
    for before, head in itertools.pairwise(heads):
        name = f"version {head.version} of {key}"
        if head.version != before.version + 1:
            yield f"{name} follows {before.version}"
        if head.next_offset < before.next_offset or head.log_start < before.log_start:
            yield f"{name} takes back offsets"
        if head.writer == before.writer and head.incarnation == before.incarnation:
            continue
        past.add((before.writer, before.incarnation))
        if (head.writer, head.incarnation) in past:
            yield f"{name} is by {head.writer}, who was succeeded before"
        if head.writer.leader_epoch <= before.writer.leader_epoch:
            yield f"{name} is by {head.writer}, claimed from {before.writer}"
        if head.incarnation.number < before.incarnation.number:
            yield f"{name} is of the older life {head.incarnation}"
    for head in heads:
        invariants.check(head, previous=None)
