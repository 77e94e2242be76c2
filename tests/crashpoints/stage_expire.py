"""Crash points of expiry and collection.

The story of `story.py`, on topics that keep a few kilobytes: every round makes garbage of what the
rounds before left, and deletes it two seconds later. Points are the calls of the chores alone; the
rest of the story has its own. Judged as there, and by what may be missing:

- what is gone lies below a `log_start` that HEAD had committed before;
- an object is deleted only while HEAD lists it as garbage, after its grace, and does not list it;
- a receipt speaks of objects that are gone, and every segment that is gone stands in one;
- a hold is kept, whatever expires around it.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any
from unittest.mock import patch

from tests.crashpoints import member as members
from tests.crashpoints.ledger import Ledger
from tests.crashpoints.member import PLACES, Member, Place
from tests.crashpoints.points import Shot
from tests.crashpoints.stages import EXPIRY
from tests.crashpoints.story import SEED, Story, small_pages
from tests.crashpoints.tale import Tale
from tests.hot.support import values_of
from tierlog.cold import chain, codec, publisher
from tierlog.cold.codec import decode_head
from tierlog.cold.expiry import covering
from tierlog.cold.head import Head, Hold, PageRef
from tierlog.cold.invariants import rows
from tierlog.cold.layout import RECEIPTS, SEGMENTS, parse_segment_key
from tierlog.cold.page import IndexPage, LeafPage
from tierlog.cold.receipt import decode_receipt
from tierlog.cold.tieredpartition import TieredPartition
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.sim import SimWorld
from tierlog.types import Offset

GRACE_MS = 2_000
SETTINGS = TierSettings(
    check_interval_ms=200, commit_segments_max=1, backoff_ms_max=4_000, garbage_grace_ms=GRACE_MS
)
TIERING = TopicTiering(local_retention_ms=0, retention_bytes=1_000)
HELD = Hold("case", Offset(2), Offset(4), "a case")
"""In the second partition, from its first publish on: what lies before it may go."""


class ExpiryLedger(Ledger):
    """What may be gone, and what must be told of it."""

    now_ms = staticmethod(lambda: 0)

    def __init__(self, bucket: Any) -> None:
        super().__init__(bucket)
        self._seen_deleted = self._seen_landed = 0
        self.found: list[str] = []

    def look(self) -> None:
        """At every call: deletions and receipts are judged at the moment they happen."""
        deleted, landed = self.bucket.deleted, self.bucket.landed
        for key in deleted[self._seen_deleted :]:
            self.found += self._deletion_problems(key)
        self._seen_deleted = len(deleted)
        for one in landed[self._seen_landed :]:
            if f"/{RECEIPTS}" in one.key:
                receipt = decode_receipt(one.item.data, key=one.key)
                prefix = one.key.partition(RECEIPTS)[0]
                self.found += [
                    f"{one.key} tells of {each.key}, which is there"
                    for each in receipt.objects
                    if prefix + each.key in self.bucket.shelf.items
                ]
            elif one.key.endswith("/HEAD"):
                self.found += self._garbage_problems(decode_head(one.item.data, key=one.key))
        self._seen_landed = len(landed)

    def _garbage_problems(self, head: Head) -> Iterator[str]:
        for one in head.garbage:
            name = parse_segment_key(one.key)
            if name is not None and name.last >= head.log_start:
                yield f"version {head.version} calls {one.key} garbage, and serves it"

    def _deletion_problems(self, key: str) -> Iterator[str]:
        place = next(one for one in PLACES if key.startswith(one.keys.prefix))
        head = self.head(place)
        assert head is not None, "something was published"
        relative = key.removeprefix(place.keys.prefix)
        garbage = {one.key: one.not_before_ms for one in head.garbage}
        for one in head.garbage:
            if one.segments_from >= 0:
                for landed in self.bucket.landed:
                    if landed.key == place.keys.full(one.key):
                        page = codec.decode_page(landed.item.data, key=one.key)
                        assert isinstance(page, LeafPage)
                        garbage |= {
                            each.key: one.not_before_ms
                            for each in page.entries
                            if each.base >= one.segments_from
                        }
        if head.holds and relative.startswith(SEGMENTS):
            name = parse_segment_key(relative)
            if name is not None and covering(head.holds, name.base, Offset(name.last + 1)):
                yield f"{key} was deleted, and is on hold"
        if relative not in garbage:
            yield f"{key} was deleted, and HEAD does not call it garbage"
        elif garbage[relative] > self.now_ms():
            yield f"{key} was deleted before its time"
        if relative in {row.key for row in rows(head)}:
            yield f"{key} was deleted, and HEAD lists it"

    def problems(self) -> Iterator[str]:
        self.look()
        yield from self.found
        yield from (f"{key} was written twice" for key in self.bucket.written_twice())
        for place in PLACES:
            try:
                yield from self._problems_of(place)
                yield from self._receipt_problems(place)
            except Exception as fault:  # noqa: BLE001  whatever it is, it cannot be read
                yield f"{place.keys.prefix}: {type(fault).__name__}: {fault}"

    def _problems_of(self, place: Place) -> Iterator[str]:
        head = self.head(place)
        assert head is not None, f"there is no {place.keys.head}"
        kept = self._acked[place]
        self._acked[place] = {at: one for at, one in kept.items() if at >= head.log_start}
        try:
            yield from super()._problems_of(place)
        finally:
            self._acked[place] = kept
        if any(hold.start < head.log_start for hold in head.holds):
            yield f"{place.keys.head} begins at {head.log_start}, in the middle of a hold"

    def _receipt_problems(self, place: Place) -> Iterator[str]:
        items = self.bucket.shelf.items
        told = {
            place.keys.full(each.key)
            for key in items
            if key.startswith(place.keys.full(RECEIPTS))
            for each in decode_receipt(items[key].data, key=key).objects
        }
        for key in self.bucket.deleted:
            if key.startswith(place.keys.full(SEGMENTS)) and key not in told:
                yield f"{key} was deleted, and no receipt tells of it"

    def content(self, place: Place) -> dict[int, bytes]:
        head = self.head(place)
        found: dict[int, bytes] = {}
        if head is None:
            return found
        anchor, entries = self._listed(place, head)
        chain.check(anchor, entries, key=place.keys.head)
        kept = [entry for entry in entries if entry.next_offset > head.garbage_end]
        offset = kept[0].base if kept else head.next_offset
        assert offset <= max(head.log_start, head.garbage_end), "nothing from the start on is gone"
        for entry in kept:
            assert entry.base == offset, f"behind {offset} comes {entry.base}"
            data = self._data(place.keys.full(entry.key))
            assert sha256(data).hexdigest() == entry.sha256, f"other bytes under {entry.key}"
            values = list(values_of(memoryview(data)[: entry.data_bytes]))
            found.update(enumerate(values, start=entry.base))
            offset = entry.next_offset
        assert offset == head.next_offset
        return found

    def _listed(self, place: Place, head: Head) -> tuple[str, list[Any]]:
        """With the chain's value before the first; pages below `garbage_end` may be gone."""
        leaves: list[PageRef] = []
        for ref in head.indexes:
            page = codec.open_page(ref, self._data(place.keys.full(ref.key)))
            assert isinstance(page, IndexPage), ref.key
            leaves += page.leaves
        leaves = [ref for ref in (*leaves, *head.leaves) if ref.next_offset > head.garbage_end]
        entries: list[Any] = []
        for ref in leaves:
            page = codec.open_page(ref, self._data(place.keys.full(ref.key)))
            assert isinstance(page, LeafPage), ref.key
            entries += page.entries
        anchor = leaves[0].chain_before if leaves else head.chain_anchor
        return anchor, [*entries, *head.entries]

    def drop_problems(self, member: Member) -> Iterator[str]:
        for place, log in member.logs.items():
            head = self.head(place)
            start = 0 if head is None else head.log_start
            gone = [one for one in member.appended[place] if start <= one < log.log_start]
            found = self.content(place) if gone else {}
            for offset in gone:
                if found.get(offset) != member.appended[place][offset]:
                    yield f"{member.role} dropped offset {offset} of {log.path}: it is not cold"


class ExpiryStory(Story):
    def __init__(self, world: SimWorld, shot: Shot | None) -> None:
        super().__init__(world, shot)
        self.ledger: ExpiryLedger = ExpiryLedger(self.bucket)
        self.ledger.now_ms = world.env("judge").clock.now_ms

    def _look_for_early_drops(self) -> None:
        super()._look_for_early_drops()
        self.ledger.look()


def _is_done(one: TieredPartition, now_ms: int) -> bool:
    """Also nothing to expire, and no garbage that waits for its time."""
    is_cold = one.prefix.uploaded_end >= one.log.log_end and one.task is None
    if not is_cold or one.dropper.due(now_ms):
        return False
    head = one.prefix.head
    return head is None or (
        not any(garbage.why for garbage in head.garbage)
        and all(chore.due_from_ms > now_ms for chore in one.chores)
    )


def _with_a_hold(first_head: Any, place: Any, *args: Any) -> Head:
    head: Head = first_head(place, *args)
    return replace(head, holds=(HELD,), policy_version=1) if place.partition == 1 else head


def expiring() -> ExitStack:
    stack = ExitStack()
    stack.enter_context(small_pages())
    stack.enter_context(
        patch.multiple(members, SETTINGS=SETTINGS, TIERING=TIERING, _is_done=_is_done)
    )
    held = partial(_with_a_hold, publisher.first_head)
    stack.enter_context(patch.object(publisher, "first_head", held))
    return stack


def tell(shot: Shot | None, *, seed: int = SEED) -> ExpiryStory:
    world = SimWorld(seed, seconds_max=3600)
    story = ExpiryStory(world, shot)
    with expiring():
        try:
            world.run(story.tell())
        except Exception as fault:  # noqa: BLE001  whatever it is, it is a finding
            story.problems += story.ledger.found
            story.problems.append(f"{type(fault).__name__}: {fault}")
    return story


TALE = Tale("expire", EXPIRY, tell)
