"""Publishes one partition: claims its HEAD, and replaces it commit by commit.

A leader claims before its first commit: it writes its (leader epoch, process) into HEAD, which ends
every older leader's commits, since each is conditional on the HEAD that it was made from. Claims
and commits rest on `Cell`: whatever the store answers, HEAD is read back, and its nonce, its writer
and the keys of its entries say what happened.

- Pages are written before the HEAD that refers to them; what a failed commit leaves is an orphan.
- The invariants of a manifest are checked before it is sent.
- A newer leader, a twin with the same epoch, or another incarnation of the cluster ends this
  publisher for good: every later call is refused without asking the store.
- The local copy is on disk before a commit is reported.
- HEAD never goes back: a store that shows none, an older one than was seen, or bytes that cannot be
  read, is not believed. `repair` puts back what is known here, unless a later leader, or a later
  life of the cluster, may have gone on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from tierlog.cold.cell import Cell, Seen, Wrong, write_once
from tierlog.cold.chain import genesis
from tierlog.cold.codec import decode_head, encode_head
from tierlog.cold.head import Head, Writer
from tierlog.cold.invariants import check
from tierlog.cold.layout import SEGMENTS, parse_segment_key
from tierlog.cold.refusals import (
    Fenced,
    FencedByNewer,
    FencedByTwin,
    ForeignIncarnation,
    ForeignObject,
    HeadForked,
    HeadGarbled,
    HeadLost,
    HeadUnreadable,
    SwapLost,
    name_of,
)
from tierlog.hot.log import FIRST_OFFSET
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from collections.abc import Collection

    from tierlog.cold.head import Incarnation, Policy
    from tierlog.cold.layout import PartitionKeys
    from tierlog.cold.localcopy import LocalCopies
    from tierlog.cold.page import NewPage
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore
    from tierlog.types import Offset

ROUNDS_MAX = 10
"""Rebases of one change. One or two happen after a write that landed late; ten in a row do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What HEAD says of the partition beside its content."""

    topic: str
    topic_id: str
    partition: int
    partition_count: int
    start: Offset = FIRST_OFFSET
    """Where a HEAD that does not exist yet begins: the log's start when it was first tiered."""
    policy: Policy | None = None
    """Of a HEAD that does not exist yet; later ones are told (`SetPolicy`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A HEAD to be: the publisher fills in version, nonce, writer, incarnation and time."""

    head: Head
    pages: tuple[NewPage, ...] = ()


Change: TypeAlias = Callable[[Head], Awaitable[Draft | None]]
"""What a commit makes of a HEAD; None: it is so already. May be called again, on a later HEAD."""


class Publisher:
    def __init__(
        self,
        store: ObjectStore,
        keys: PartitionKeys,
        env: Env,
        *,
        place: Place,
        writer: Writer,
        incarnation: Incarnation,
        copies: LocalCopies | None = None,
        ancestors: Collection[Incarnation] = (),
        check_life: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`ancestors`: earlier lives of the cluster, whose HEADs a restore may claim. `check_life`
        raises `ForeignIncarnation` where STATE belongs to another life; it is asked before a HEAD
        is put back, which cannot tell any more."""
        self.writer = writer
        self.incarnation = incarnation
        self.place = place
        self.keys = keys
        self.head: Head | None = None
        """The last one known: published, read or found in the local copy."""
        self.fence: Fenced | ForeignIncarnation | None = None
        """Why this publisher has ended."""
        self.end_at_fence: Offset | None = None
        """Where the HEAD ended that was known when the fence was met: what lies behind was
        published by others, perhaps of other records. None while there is no fence."""
        self.on_fence: Callable[[Fenced | ForeignIncarnation], None] = lambda _: None
        """Told as soon as the fence is met."""
        self.is_claimed = False
        self._store = store
        self._env = env
        self._copies = copies
        self._ancestors = frozenset(ancestors)
        self._check_life = check_life
        self._cell = Cell(
            store,
            keys.head,
            env,
            encode=encode_head,
            decode=partial(decode_head, key=keys.head),
            of=name_of(place),
        )
        self._seen: Seen[Head] | None = None
        """What the next swap is conditional on; may be stale, which the swap finds out."""
        self._saved_version = -1
        self._turn = asyncio.Lock()

    # What others call

    async def load(self) -> Head | None:
        """The local copy, for a start without the store."""
        if self._copies is not None and self.head is None:
            self.head = await self._copies.load(self.place.topic_id, self.place.partition)
            self._saved_version = -1 if self.head is None else self.head.version
        return self.head

    async def refresh(self) -> Head | None:
        """Read HEAD back from the store, whoever wrote it; None if nobody did yet.

        A newer writer is noted in `fence` and not raised: what it published is just as cold, if
        perhaps not what the local log has (`end_at_fence`).
        """
        async with self._turn:
            await self.load()
            seen = await self._look()
            try:
                self._judge(seen)
            except Fenced:
                assert seen is not None, "nobody fences from nowhere"
                self._judge_history(seen.value)
            if seen is not None:
                await self._adopt(seen)
            return self.head

    async def claim(self) -> Head:
        """Make this process the only one that may publish. Once is enough; commits do it, too."""
        async with self._turn:
            return await self._claim()

    async def create(self, draft: Draft, *, instead_of: Wrong | None = None) -> Head:
        """Claim with a first HEAD that lists something already: a rebuilt one. Whole, or not at
        all. Raises `SwapLost` if there is a HEAD, or another than `instead_of`."""
        async with self._turn:
            self._refuse_if_fenced()
            value = self._stamp(draft.head, draft.head, self._new_nonce())
            check(value, previous=None)
            await self._write_pages(draft)
            await self._swap(instead_of, value)
            self.is_claimed = True
            return value

    async def wrong(self) -> Wrong | None:
        """What stands in HEAD's place and cannot be read; None: there is a HEAD, or nothing."""
        found = await self._cell.look()
        return found if isinstance(found, Wrong) else None

    async def commit(self, change: Change) -> Head:
        """Publish. Returns the HEAD that holds the change, durable in the store and copied here.

        After `SwapUncertain` or `StoreUnavailable` the change may be published all the same: repeat
        it, and let it answer None where it finds itself done.
        """
        async with self._turn:
            await self._claim()
            nonce = self._new_nonce()
            for _ in range(ROUNDS_MAX):
                head = await self._commit_once(change, nonce)
                if head is not None:
                    return head
            raise SwapLost(self.keys.head, of=name_of(self.place))

    async def repair(self) -> Head:
        """Put the HEAD that this node knows back, where the store lost it (`HeadLost`).

        Only for a topic that is not deleted, and only forward: what the store has now is replaced
        under its own condition, and the version goes on from the highest that was seen. Raises
        `Fenced` and `ForeignIncarnation` where it may have been a successor's.
        """
        async with self._turn:
            self._refuse_if_fenced()
            await self.load()
            seen = await self._cell.look()
            try:
                self._judge(seen)
            except HeadLost:
                assert self.head is not None, "only what was known can be lost"
                await self._require_latest(self.head)
                await self._require_listed(self.head)
                value = self._stamp(self.head, self.head, self._new_nonce())
                check(value, previous=self.head)
                await self._swap(seen, value)
                self.is_claimed = True
            return await self._claim()

    async def _require_latest(self, head: Head) -> None:
        """What is lost cannot tell whose it was. STATE tells of a later life of the cluster, and
        segments behind the known end of a later leader; one that published nothing loses nothing
        either."""
        if self._check_life is not None:
            await self._check_life()
        behind = self.keys.full(f"{SEGMENTS}{head.next_offset:020d}")
        async for page in self._store.list(self.keys.full(SEGMENTS), after=behind):
            for stat in page:
                name = parse_segment_key(self.keys.relative(stat.key) or "")
                if name is not None and name.leader_epoch > self.writer.leader_epoch:
                    found = Writer(name.leader_epoch, "of another process")
                    of = name_of(self.place)
                    raise FencedByNewer(self.keys.head, mine=self.writer, found=found, of=of)
            return

    async def _require_listed(self, head: Head) -> None:
        """A store that lost HEAD may have lost more, or be another one: what HEAD lists itself must
        be there before it is put back. Raises `NoSuchObject`."""
        keys = [one.key for one in head.entries]
        keys += (one.key for one in (*head.leaves, *head.indexes))
        for key in keys:
            await self._store.head(self.keys.full(key))

    # Claims

    async def _claim(self) -> Head:
        self._refuse_if_fenced()
        await self.load()
        nonce = self._new_nonce()
        for _ in range(0 if self.is_claimed else ROUNDS_MAX):
            seen = await self._read_judged()
            try:
                await self._claim_from(seen, nonce)
            except SwapLost:
                continue
            self.is_claimed = True
            break
        if not self.is_claimed:
            raise SwapLost(self.keys.head, of=name_of(self.place))
        assert self.head is not None, "claimed"
        return self.head

    async def _claim_from(self, seen: Seen[Head] | None, nonce: str) -> None:
        if seen is not None and seen.value.writer == self.writer:
            # An earlier try of this very process landed, whatever it was told.
            await self._adopt(seen)
        else:
            head = seen.value if seen is not None else self._first()
            value = self._stamp(head, head, nonce)
            check(value, previous=None if seen is None else head)
            await self._swap(seen, value)

    def _first(self) -> Head:
        return first_head(self.place, self.writer, self.incarnation)

    # Commits

    async def _commit_once(self, change: Change, nonce: str) -> Head | None:
        """None: somebody else's write came first, and this one is not in."""
        seen = self._seen or await self._read_judged()
        if seen is None:
            raise self._lost(None)
        try:
            draft = await change(seen.value)
        except NoSuchObject:
            # A page of this HEAD is gone. If a successor collected it, here is how we hear of him.
            self._seen = await self._read_judged()
            if self._seen is None or self._seen.etag == seen.etag:
                raise
            return None
        if draft is None:
            await self._adopt(seen)
            return seen.value
        value = self._stamp(draft.head, seen.value, nonce)
        check(value, previous=seen.value)
        await self._write_pages(draft)
        try:
            await self._swap(seen, value)
        except SwapLost:
            return None
        return value

    async def _write_pages(self, draft: Draft) -> None:
        """Before HEAD: whoever sees it must find what it refers to."""
        for page in draft.pages:
            key = self.keys.full(page.key)
            await write_once(self._store, key, page.data, self._env.rng)

    async def _swap(self, seen: Seen[Head] | Wrong | None, value: Head) -> None:
        # Unknown until the answer is in, also if this task is cancelled meanwhile.
        self._seen = None
        await self._adopt(await self._cell.swap(seen, value))

    async def _adopt(self, seen: Seen[Head]) -> None:
        self._seen = seen
        self.head = seen.value
        if self._copies is not None and self._saved_version != seen.value.version:
            await self._copies.save(seen.value)
            self._saved_version = seen.value.version

    def _stamp(self, head: Head, before: Head, nonce: str) -> Head:
        return replace(
            head,
            version=before.version + 1,
            nonce=nonce,
            writer=self.writer,
            incarnation=self.incarnation,
            topic=self.place.topic,
            partition_count=self.place.partition_count,
            published_ms=self._env.clock.now_ms(),
        )

    def _new_nonce(self) -> str:
        return self._env.rng.randbytes(16).hex()

    # Who may, and what is believed

    def _refuse_if_fenced(self) -> None:
        if self.fence is not None:
            raise self.fence

    async def _read_judged(self) -> Seen[Head] | None:
        seen = await self._look()
        self._judge(seen)
        return seen

    async def _look(self) -> Seen[Head] | None:
        found = await self._cell.look()
        if isinstance(found, Wrong):
            raise self._garbled(found)
        return found

    def _garbled(self, found: Wrong) -> HeadGarbled | HeadUnreadable:
        key, why, of = self.keys.head, found.fault.reason, name_of(self.place)
        if self.head is None:
            return HeadUnreadable(key, why=why, of=of)
        return HeadGarbled(key, known_version=self.head.version, why=why, of=of)

    def _judge(self, seen: Seen[Head] | Wrong | None) -> None:
        """Raises unless the HEAD is ours to replace and follows from the one that is known.

        Who wrote it comes first: a successor's HEAD is never repaired away.
        """
        if isinstance(seen, Wrong):
            raise self._garbled(seen)
        if seen is None:
            if self.head is not None:
                raise self._lost(None)
            return
        self._judge_place(seen.value)
        try:
            self._judge_incarnation(seen.value)
            self._judge_writer(seen.value)
        except (Fenced, ForeignIncarnation) as fence:
            if self.fence is None:
                self.end_at_fence = self.place.start if self.head is None else self.head.next_offset
                self.on_fence(fence)
            self.fence = fence
            self.is_claimed = False
            raise
        self._judge_history(seen.value)
        check(seen.value, previous=None)

    def _judge_place(self, found: Head) -> None:
        place = self.place
        if (found.topic_id, found.partition) != (place.topic_id, place.partition):
            raise ForeignObject(
                self.keys.head, says=f"{found.topic_id}/{found.partition}", of=name_of(self.place)
            )

    def _judge_incarnation(self, found: Head) -> None:
        if found.incarnation != self.incarnation and found.incarnation not in self._ancestors:
            raise ForeignIncarnation(
                self.keys.head,
                mine=self.incarnation,
                found=found.incarnation,
                of=name_of(self.place),
            )

    def _judge_writer(self, found: Head) -> None:
        mine, other = self.writer, found.writer
        if other.leader_epoch > mine.leader_epoch:
            raise FencedByNewer(self.keys.head, mine=mine, found=other, of=name_of(self.place))
        if other.leader_epoch == mine.leader_epoch and other.process != mine.process:
            raise FencedByTwin(self.keys.head, mine=mine, found=other, of=name_of(self.place))

    def _judge_history(self, found: Head) -> None:
        known = self.head
        if known is None:
            return
        if found.version < known.version:
            raise self._lost(found.version)
        if found.version == known.version and found.nonce != known.nonce:
            raise HeadForked(
                self.keys.head, what=f"two of version {found.version}", of=name_of(self.place)
            )
        if self.is_claimed and found.writer != self.writer:
            raise HeadForked(
                self.keys.head, what=f"written by {found.writer}", of=name_of(self.place)
            )
        if found.next_offset < known.next_offset or found.log_start < known.log_start:
            raise HeadForked(
                self.keys.head,
                what=f"[{known.log_start}, {known.next_offset}) was published, "
                f"it says [{found.log_start}, {found.next_offset})",
                of=name_of(self.place),
            )

    def _lost(self, found_version: int | None) -> HeadLost:
        known = -1 if self.head is None else self.head.version
        return HeadLost(
            self.keys.head, known_version=known, found_version=found_version, of=name_of(self.place)
        )


def first_head(place: Place, writer: Writer, incarnation: Incarnation) -> Head:
    """What is there before anything was published."""
    return Head(
        version=0,
        nonce="",
        incarnation=incarnation,
        writer=writer,
        topic=place.topic,
        topic_id=place.topic_id,
        partition=place.partition,
        partition_count=place.partition_count,
        log_start=place.start,
        next_offset=place.start,
        chain_anchor=genesis(place.topic_id, place.partition),
        policy=place.policy,
    )
