"""What must be true of the bucket and the disk at every step, whatever the clients see.

`WatchedBucket` tells the oracle of every write at the moment it lands. The oracle reads HEADs,
pages and objects with nothing but their formats, and holds them to this:
- T2: a HEAD follows from the one before it, its segments tile their offsets, and each object stands
  there with its hash, its batches whole and in order.
- T6: no key is ever written with other bytes; nothing that is referenced is deleted.
- U7: what is deleted was called garbage by a HEAD, and its time had come; a receipt tells only of
  what is gone, and of all that HEAD forgets.
- U10: the log start moves by DeleteRecords, or by retention over whole segments that are published.
- P2: an offset that was published keeps its bytes for ever.
- Every TABLE tiles what it covers with files that are there (`cold_table`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import NamedTuple

from crc32c import crc32c

from tests.simulation import cold_table
from tierlog.cold import chain
from tierlog.cold.clusterstate import ClusterState, decode_state
from tierlog.cold.codec import decode_head, decode_page, open_page
from tierlog.cold.entry import Entry
from tierlog.cold.errors import ColdCorrupt
from tierlog.cold.head import Head, PageRef, Writer
from tierlog.cold.layout import RECEIPTS, TOPIC_RECEIPTS
from tierlog.cold.page import IndexPage, LeafPage
from tierlog.cold.receipt import decode_receipt
from tierlog.cold.topicreceipt import decode
from tierlog.objectstore.port import Written
from tierlog.objectstore.shelf import Shelf
from tierlog.records.batch import iter_batches, validate_stored
from tierlog.sim.bucket import Landed, SimBucket
from tierlog.sim.world import SimWorld
from tierlog.table.codec import decode_table
from tierlog.table.manifest import Table

HEAD = "/HEAD"
STATE = "/cluster/STATE"
OFFSETS = "/cluster/OFFSETS"
"""Replaced like STATE; `tests.simulation.offsets` looks at what it says."""
PROBE = "probe/"


def topic_of(key: str) -> str:
    """The id of the topic that the object is of; empty if it is of none."""
    return key.partition("/t/")[2][:32]


class Where(NamedTuple):
    topic_id: str
    partition: int


class Broken(AssertionError):
    """An invariant does not hold."""


def require(holds: bool, sentence: str) -> None:
    if not holds:
        raise Broken(sentence)


class WatchedBucket(SimBucket):
    """Tells the oracle what lands."""

    oracle: "Oracle"

    def __init__(self, rng: Random, *, world: SimWorld) -> None:
        super().__init__(rng, world=world)
        self.broken: Broken | None = None
        self.oracle = Oracle(self.shelf)

    def record(self, kind: str, key: str, *, host: str, written: Written) -> None:
        before = len(self.landed)
        super().record(kind, key, host=host, written=written)
        if len(self.landed) > before and not key.startswith(PROBE):
            try:
                self.oracle.landed(self.landed[-1])
            except Broken as broken:
                # Not for the node to hear: it would take it for an answer of the store.
                self.broken = self.broken or broken


@dataclass(slots=True)
class Oracle:
    shelf: Shelf
    trusts: bool = True
    """Off while the store lies: then only what no lie can excuse is held against anybody."""
    heads: dict[Where, Head] = field(default_factory=dict)
    """What the bucket says now."""
    own: dict[tuple[Where, Writer], Head] = field(default_factory=dict)
    """The last HEAD of each writer."""
    versions: dict[Where, int] = field(default_factory=lambda: defaultdict(int))
    """The highest that ever stood there."""
    latest_ms: Callable[[], int] = lambda: 0
    """The latest that any clock has shown: they are set back at times, also between a decision and
    its publish."""
    tables: dict[str, Table] = field(default_factory=dict)
    """By key."""
    ends: dict[Where, int] = field(default_factory=lambda: defaultdict(int))
    """The highest end that was ever published."""
    trims: dict[Where, int] = field(default_factory=lambda: defaultdict(int))
    """The highest log start that anybody asked for."""
    expires: bool = False
    """Whether records expire in this seed."""
    retention_ms: dict[Where, int] = field(default_factory=dict)
    """Of places whose records expire, by time or by size; -1: not by time."""
    garbage: dict[str, int] = field(default_factory=dict)
    """Objects that a HEAD gave up, and the time before which they stay."""
    taken_along: dict[str, list[str]] = field(default_factory=dict)
    """The segments that go with a page that is garbage."""
    told: set[str] = field(default_factory=set)
    """Objects of which a receipt tells."""
    batches: dict[Where, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """Of everything that was ever published, by base offset."""
    hashes: dict[str, str] = field(default_factory=dict)
    """Of every object that was ever written and is not meant to be replaced."""
    quoted: dict[str, set[int]] = field(default_factory=dict)
    """The partitions that the receipt of a topic tells of, by its key."""
    checked: set[str] = field(default_factory=set)
    pages: dict[PageRef, tuple[bytes, LeafPage | IndexPage]] = field(default_factory=dict)
    """Those that were opened, with their bytes."""
    prefixes: dict[Where, str] = field(default_factory=dict)
    """Of partitions that have a HEAD."""
    publish_count: int = 0
    expiry_count: int = 0
    """How often retention moved a log start."""
    trim_count: int = 0
    """How often DeleteRecords did."""
    noted: set[str] = field(default_factory=set)
    """Topics that were ever noted as deleted in STATE."""
    waiting: set[str] = field(default_factory=set)
    """Those that are noted now."""

    def landed(self, write: Landed) -> None:
        key = write.key
        if key.endswith(STATE):
            self._state_landed(decode_state(write.item.data))
        if topic_of(key) in self.noted:
            return
        if key.endswith(HEAD):
            self._head_landed(write)
        elif RECEIPTS in key:
            for one in decode_receipt(write.item.data, key=key).objects:
                full = key.partition(RECEIPTS)[0] + one.key
                require(full not in self.shelf.items, f"{key} tells of {one.key}, which is there")
                self.told.add(full)
        elif key.endswith(cold_table.TABLE):
            self._table_landed(write)
        elif not key.endswith((STATE, OFFSETS)):
            self._object_landed(write)

    def _object_landed(self, write: Landed) -> None:
        key, found = write.key, sha256(write.item.data).hexdigest()
        is_other = self.hashes.setdefault(key, found) != found
        if TOPIC_RECEIPTS in key:
            is_other = self._is_other_receipt(write, is_other=is_other)
        require(not is_other, f"{key} was written twice, with other bytes")
        # Nothing of ours is ever wrong here: whoever repairs it was misled.
        is_over = write.kind in ("put", "put_if_match")
        require(not is_over or not self.trusts, f"{key} is sound, and was written over")

    def _is_other_receipt(self, write: Landed, *, is_other: bool) -> bool:
        """Two may sweep at once, and only the store's condition keeps the second receipt away. So a
        store that ignores it may show another one, but never one that quotes less."""
        quoted = {one.partition for one in decode(write.item.data, key=write.key).partitions}
        before = self.quoted.setdefault(write.key, quoted)
        return is_other and (self.trusts or not before <= quoted)

    def _table_landed(self, write: Landed) -> None:
        data, before = write.item.data, self.tables.get(write.key)
        table = decode_table(data, key=write.key)
        end = self.ends[Where(table.topic_id, table.partition)]
        if self.trusts:
            found = cold_table.faults(self.shelf, data, key=write.key, before=before, end=end)
            for sentence in found:
                require(False, sentence)
        self.tables[write.key] = table

    def _state_landed(self, state: ClusterState) -> None:
        """The note of a deletion goes once all is gone, of which the receipt is the proof."""
        for topic_id in self.waiting - state.deleted.keys():
            receipts = [key for key in self.shelf.items if key.endswith(f"-{topic_id}.json.gz")]
            require(bool(receipts), f"{topic_id} is forgotten, and there is no receipt")
        self.waiting = set(state.deleted)
        self.noted |= self.waiting

    def deleted(self, keys: list[str], *, now_ms: int) -> None:
        """T6. Of a topic whose deletion was noted in STATE, everything may go. `now_ms` is the
        latest that any clock has said."""
        keys = [key for key in keys if topic_of(key) not in self.noted]
        for where in [one for one in self.heads if one.topic_id in self.noted]:
            del self.heads[where]
        referenced = {key for head in self.heads.values() for key in self._referenced(head)}
        for at, table in self.tables.items():
            prefix = at.removesuffix(cold_table.TABLE) + "/"
            listed = cold_table.hashes(self.shelf, table, prefix)
            referenced |= {prefix + name for name in listed}
        for key in keys:
            require(key not in referenced, f"{key} was deleted, and is referred to")
            was_published = "seg/" in key and "seg/" + key.partition("seg/")[2] in self.checked
            sentence = f"{key} was published and deleted, and no HEAD called it garbage"
            require(not was_published or key in self.garbage, sentence)
            not_before_ms = self.garbage.get(key, 0)
            require(now_ms >= not_before_ms, f"{key} was deleted before {not_before_ms}: {now_ms}")

    def _head_landed(self, write: Landed) -> None:
        head = decode_head(write.item.data, key=write.key)
        where = Where(head.topic_id, head.partition)
        if not self.trusts and head.version < self.versions[where]:
            return  # A lying store let an old one land late: what it lists may be gone.
        self.versions[where] = head.version
        before = self.heads.get(where)
        if self.trusts:
            self._check_follows(head, before, write)
        # Where the store lies, a writer follows what it wrote itself, whoever wrote over it.
        known = before if self.trusts else self.own.get((where, head.writer), before)
        self._check_start(head, known, where)
        self.own[where, head.writer] = head
        if self.trusts and before is not None:
            self._check_forgotten(head, before)
        self.heads[where] = head
        self._note_garbage(head)
        self.publish_count += 1
        self.check(head)
        self.ends[where] = max(self.ends[where], head.next_offset)

    def _check_start(self, head: Head, before: Head | None, where: Where) -> None:
        """U10: by DeleteRecords, or by retention, whole segments that are published and old."""
        start = max(self.trims[where], before.log_start if before else 0)
        if head.log_start <= start:
            self.trim_count += before is not None and head.log_start > before.log_start
            return
        sentence = f"{where} moves its start to {head.log_start}; {start} was asked"
        require(where in self.retention_ms and before is not None, sentence)
        assert before is not None
        entries = [one for one in self._entries(before) if start < one.next_offset]
        gone = [one for one in entries if one.next_offset <= head.log_start]
        require(bool(gone) and gone[-1].next_offset == head.log_start, sentence)
        if (retention_ms := self.retention_ms[where]) >= 0:
            latest = max(one.max_timestamp for one in gone)
            now_ms = max(head.published_ms, self.latest_ms())
            require(latest < now_ms - retention_ms, f"{sentence}: it is too young")
        self.expiry_count += 1

    def _check_forgotten(self, head: Head, before: Head) -> None:
        """U7: HEAD forgets the garbage of which a receipt tells."""
        prefix, left = self._prefix(head), {one.key for one in head.garbage}
        for one in before.garbage:
            if one.why and one.key not in left:
                for key in self.taken_along.get(prefix + one.key, (prefix + one.key,)):
                    require(key in self.told, f"{key} is forgotten, and no receipt tells of it")

    def _note_garbage(self, head: Head) -> None:
        prefix = self._prefix(head)
        for one in head.garbage:
            self.garbage[prefix + one.key] = one.not_before_ms
            item = self.shelf.items.get(prefix + one.key)
            if one.segments_from >= 0 and item is not None:
                page = decode_page(item.data, key=one.key)
                assert isinstance(page, LeafPage)
                keys = [prefix + row.key for row in page.entries if row.base >= one.segments_from]
                self.taken_along[prefix + one.key] = keys
                self.garbage.update(dict.fromkeys(keys, one.not_before_ms))

    def _check_follows(self, head: Head, before: Head | None, write: Landed) -> None:
        key = write.key
        if before is None:
            require(write.kind != "put_if_match", f"{key} was replaced before it was there")
            return
        require(head.version == before.version + 1, f"{key}: {before.version} to {head.version}")
        require(
            head.next_offset >= before.next_offset and head.log_start >= before.log_start,
            f"{key} went back: [{before.log_start}, {before.next_offset}) "
            f"to [{head.log_start}, {head.next_offset})",
        )
        require(head.incarnation >= before.incarnation, f"{key}: an older life of the cluster")
        one, other = before.writer, head.writer
        require(
            other.leader_epoch > one.leader_epoch or other == one,
            f"{key}: written by {one.leader_epoch} {one.process}, then "
            f"by {other.leader_epoch} {other.process}",
        )

    # The manifest and its objects

    def check(self, head: Head, *, again: bool = False) -> None:
        """T2. Objects are opened once, or again."""
        prefix = self._prefix(head)
        end: int | None = None
        entries = list(self._entries(head))
        self._check_chain(head)
        first = entries[0].base if entries else head.next_offset
        require(
            first <= head.log_start or self._is_skipped(head, head.log_start, first),
            f"{prefix} starts at {head.log_start}, its first segment at {first}",
        )
        for entry in entries:
            require(
                end in (None, entry.base) or self._is_skipped(head, end, entry.base),
                f"{prefix}: offsets {end} to {entry.base} are in no segment",
            )
            if again or entry.key not in self.checked:
                self._check_object(prefix, entry, Where(head.topic_id, head.partition))
            end = entry.next_offset
        require(
            end in (None, head.next_offset) or self._is_skipped(head, end, head.next_offset),
            f"{prefix} ends at {end}, HEAD says {head.next_offset}",
        )

    def _check_chain(self, head: Head) -> None:
        """From the anchor on, through every page and every link: what a merge put there stands
        where its sources stood. Pages are whole, also where their first entries count no more."""
        prefix, before = self._prefix(head), head.chain_anchor
        try:
            for leaf in self._leaves(head):
                require(leaf.chain_before == before, f"{prefix}{leaf.key} breaks the chain")
                if leaf.next_offset > head.garbage_end:
                    page = self._page(prefix, leaf)
                    assert isinstance(page, LeafPage)
                    end = chain.check(before, page.entries, key=prefix + leaf.key)
                    require(end == leaf.chain_after, f"{prefix}{leaf.key} ends another chain")
                before = leaf.chain_after
            chain.check(before, head.entries, key=prefix)
        except ColdCorrupt as broken:
            raise Broken(str(broken)) from broken

    def _leaves(self, head: Head) -> Iterator[PageRef]:
        for index in head.indexes:
            page = self._page(self._prefix(head), index)
            assert isinstance(page, IndexPage)
            yield from page.leaves
        yield from head.leaves

    def check_all(self) -> None:
        for head in self.heads.values():
            self.check(head, again=True)

    def _is_skipped(self, head: Head, end: int | None, base: int) -> bool:
        return any(end is not None and one.start <= end < base <= one.end for one in head.skips)

    def _prefix(self, head: Head) -> str:
        """Where the HEAD lies; it is there."""
        where = Where(head.topic_id, head.partition)
        found = self.prefixes.get(where)
        if found is None or found + "HEAD" not in self.shelf.items:
            end = f"/{head.topic_id}/{head.partition}/HEAD"
            keys = [key for key in self.shelf.items if key.endswith(end)]
            require(len(keys) == 1, f"the HEAD of {where} is gone")
            found = self.prefixes[where] = keys[0].removesuffix("HEAD")
        return found

    def _entries(self, head: Head) -> Iterator[Entry]:
        prefix = self._prefix(head)
        for leaf in self._leaves(head):
            yield from self._leaf(prefix, leaf, head.garbage_end)
        yield from head.entries

    def _leaf(self, prefix: str, ref: PageRef, garbage_end: int) -> Sequence[Entry]:
        """Of those that are not garbage: neither they nor their page need be there."""
        if ref.next_offset <= garbage_end:
            return ()
        page = self._page(prefix, ref)
        assert isinstance(page, LeafPage)
        return [entry for entry in page.entries if entry.next_offset > garbage_end]

    def _page(self, prefix: str, ref: PageRef) -> LeafPage | IndexPage:
        item = self.shelf.items.get(prefix + ref.key)
        require(item is not None, f"{prefix}{ref.key} is referred to and not there")
        assert item is not None
        known = self.pages.get(ref)
        if known is None or known[0] is not item.data:  # The very bytes that were opened before.
            known = self.pages[ref] = item.data, open_page(ref, item.data)
        return known[1]

    def _referenced(self, head: Head) -> Iterator[str]:
        prefix = self._prefix(head)
        for page in (*head.indexes, *head.leaves):
            yield prefix + page.key
        for entry in self._entries(head):
            yield prefix + entry.key

    def _check_object(self, prefix: str, entry: Entry, where: Where) -> None:
        key = prefix + entry.key
        item = self.shelf.items.get(key)
        require(item is not None, f"{key} is published and not there")
        assert item is not None
        data = item.data
        require(len(data) == entry.size, f"{key} has {len(data)} bytes, {entry.size} published")
        is_right = sha256(data).hexdigest() == entry.sha256 and crc32c(data) == entry.crc32c
        require(is_right, f"{key} has another hash than was published")
        self._check_batches(key, memoryview(data)[: entry.data_bytes], entry, where)
        self.checked.add(entry.key)

    def _check_batches(self, key: str, data: memoryview, entry: Entry, where: Where) -> None:
        known = self.batches[where]
        end, first = -1, True
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_bytes]
            validate_stored(batch)
            base = header.base_offset
            require(base == entry.base if first else base >= end, f"{key}: {base} behind {end}")
            before = known.setdefault(base, bytes(batch))
            require(before == batch, f"{key}: offset {base} was published with other bytes")
            end, first = header.next_offset, False
        require(end <= entry.next_offset, f"{key} ends at {end}, its entry at {entry.next_offset}")

    # What readers compare with

    def require_same(self, where: Where, data: memoryview) -> None:
        """T1: what the broker serves is what the bucket has, byte for byte."""
        known = self.batches[where]
        for position, header in iter_batches(data):
            published = known.get(header.base_offset)
            served = data[position : position + header.size_bytes]
            if published is not None and published != served and header.record_count:
                raise Broken(f"{where}: offset {header.base_offset} is served with other bytes")
