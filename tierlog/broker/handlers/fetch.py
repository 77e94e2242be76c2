"""Fetch, v4-v18. v7 has sessions, v9 leader epochs, v10 zstd, v12 is flexible and tells of
divergence, v13 names topics by id, v15 moves the replica id into a tag, v16 points to leaders.

Batches leave as they lie in the log, as views of its pages: whole ones only, the first even if it
exceeds the limits (pitfalls 10 and 11). Sessions are declined with session id 0, which keeps
clients on full fetches (pitfall 9). What the local disk damaged comes from the bucket, if that has
it. Consumers see what is below the high watermark; without transactions that is the last stable
offset as well.

With less than `min_bytes` to give, the answer waits until there is more, `max_wait_ms` has passed,
or something is wrong with a partition. What counts is what could be given, as in Kafka: up to the
limit of the partition, however the borders of batches fall; and at the end of a sealed segment, or
where no partition could add anything, nobody waits.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from tierlog.broker.awaited import Awaited
from tierlog.broker.codes import code_of
from tierlog.broker.coldreads import ColdReads
from tierlog.broker.errors import NotLeader
from tierlog.broker.fetchroute import READ_COMMITTED, may_block, replica_id, route_of
from tierlog.broker.limits import REQUEST_ELEMENTS_MAX
from tierlog.broker.request import Answer, MayBlock, Parts
from tierlog.errors import TierlogError
from tierlog.fetchproxy.proxy import ColdRead
from tierlog.hot.errors import DamagedOffsets
from tierlog.records.record import encode_batch
from tierlog.types import Bytes, LeaderEpoch, Offset
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.codec import decode_whole
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.fetch import FetchWriter, partition_tags
from tierlog.wire.fetchopening import FetchOpenings
from tierlog.wire.header import framed_response
from tierlog.wire.messages.fetch import FetchPartition, FetchRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tierlog.broker.call import Call
    from tierlog.broker.partition import Partition
    from tierlog.hot import Log

API: Final = ApiKey.FETCH
VERSIONS: Final = (4, 18)
FLEXIBLE_FROM: Final = 12
IDS_FROM: Final = 13
COLD_WAIT_MS_MIN: Final = 100
"""Opening a cached chunk takes a few milliseconds, on a busy disk some tens."""
READING_S_MAX: Final = 0.03
"""Time that one fetch gets for its reads, since the first of old bytes is slow; partitions that it
does not get to have their turn in the next fetch."""


class Read(NamedTuple):
    """What one partition gives."""

    partition: int
    code: int = 0
    high_watermark: int = -1
    log_start: int = -1
    records: Bytes = b""
    more: Bytes = b""
    """What goes on where `records` ends, in another buffer."""
    tags: bytes = b"\0"
    may_block: bool = False


def answer(frame: memoryview, position: int, call: Call) -> Answer:
    request = decode_whole(
        FetchRequest, call.version, frame, position, elements_max=REQUEST_ELEMENTS_MAX
    )
    if request.session_id != 0 and request.session_epoch > 0:
        return refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, call)
    if len(request.topics) == 1 and len(request.topics[0].partitions) == 1:
        parts = answer_one(frame, position, request, call)
        if parts is not None:
            return parts
    fetch = PendingFetch(request, call)
    fetch.read_all()
    wait_ms = 0 if fetch.is_ready else fetch.wait_ms()
    if wait_ms <= 0 or fetch.has_enough():
        return fetch.encoded()
    return fetch.begin(wait_ms)


def answer_one(frame: memoryview, position: int, request: FetchRequest, call: Call) -> Parts | None:
    """The common fetch, one partition that has enough to give, in few steps; None where anything is
    unusual: the long road finds it again. Requests that ask on from there take even fewer."""
    route = route_of(request, call.node, call.version)
    if route is None:
        return None
    peer = call.peer
    if peer.fetches is None:
        peer.fetches = FetchOpenings()
    peer.fetches.remember(frame, position, call.version, route.key, route)
    return route.answer(request.topics[0].partitions[0].fetch_offset, call.correlation_id)


def refused(code: ErrorCode, call: Call) -> Parts:
    parts = FetchWriter(call.version, topic_count=0, error_code=code).finish()
    flexible = call.version >= FLEXIBLE_FROM
    return framed_response(parts, correlation_id=call.correlation_id, flexible=flexible)


def covering_gap(log: Log, offset: Offset, end: Offset) -> Bytes:
    """An empty batch over offsets that a recovery left unused at the end of the log.

    Without it a reader that wants to get to the end would wait there until somebody writes.
    """
    return encode_batch(
        (), base_offset=offset, last_offset=Offset(end - 1), leader_epoch=log.epochs.latest
    )


class PendingFetch:
    """One fetch, from the first look to its answer.

    While it waits, only the partitions that something happened to are looked at again, and none is
    read; the answer is made from a fresh look at all of them.
    """

    __slots__ = (
        "_answer",
        "_awaited",
        "_bytes_max",
        "_call",
        "_cold",
        "_full_count",
        "_has_error",
        "_min_bytes",
        "_monotonic",
        "_read_until_s",
        "_reads",
        "_request",
        "_size",
        "_timer",
        "_topics",
        "_woken",
    )

    def __init__(self, request: FetchRequest, call: Call) -> None:
        self._request = request
        self._call = call
        self._monotonic = call.node.env.clock.monotonic
        self._bytes_max = min(max(request.max_bytes, 0), call.node.settings.fetch_max_bytes)
        self._topics = [
            (topic.topic_id if call.version >= IDS_FROM else topic.topic, topic.partitions)
            for topic in request.topics
        ]
        # More than fits the answer cannot be waited for.
        self._min_bytes = min(request.min_bytes, self._bytes_max)
        self._awaited: list[Awaited] = []
        self._woken: dict[Awaited, None] = {}
        self._cold = ColdReads(call, bytes_max=self._bytes_max)

    # Reading

    @property
    def is_ready(self) -> bool:
        return self._has_error or self._size >= self._min_bytes or not self._reads

    @property
    def repeats_itself(self) -> bool:
        """Whether a partition stands in it twice. No client does that, and such a fetch does not
        wait: it would look at all of it again whenever something is appended."""
        count = sum(len(partitions) for _, partitions in self._topics)
        return count > 1 and count > len(
            {(key, ask.partition) for key, partitions in self._topics for ask in partitions}
        )

    def read_all(self) -> None:
        """Look at every partition, in the order of the request, until the bytes are used up."""
        self._has_error = False
        self._size = 0
        self._read_until_s = self._monotonic() + READING_S_MAX
        self._reads = [
            (key, [self._read(key, ask) for ask in partitions]) for key, partitions in self._topics
        ]

    def _read(self, key: str | bytes, ask: FetchPartition) -> Read:
        try:
            partition = self._find(key, ask)
        except TierlogError as error:
            self._has_error = True
            return Read(ask.partition, code_of(error))
        log = partition.log
        try:
            diverging = self._divergence(partition, ask)
            if diverging is not None:
                self._has_error = True
                return Read(ask.partition, 0, log.visible_end, partition.log_start, tags=diverging)
            return self._read_log(partition, key, ask)
        except TierlogError as error:
            self._has_error = True
            return Read(ask.partition, code_of(error), log.visible_end, partition.log_start)

    def _find(self, key: str | bytes, ask: FetchPartition) -> Partition:
        partition = self._call.node.topics.find(key).partition(ask.partition)
        partition.check_leader_epoch(ask.current_leader_epoch)
        if replica_id(self._request, self._call.version) >= 0:
            raise NotLeader("this node has no followers")
        return partition

    def _divergence(self, partition: Partition, ask: FetchPartition) -> bytes | None:
        """KIP-595: what the reader has beyond the end of its epoch here, it must give up."""
        if ask.last_fetched_epoch < 0:
            return None
        epochs, end = partition.epochs, partition.log.log_end
        ended = epochs.end_of(LeaderEpoch(ask.last_fetched_epoch), log_end=end)
        if ended is None or (
            ended.leader_epoch == ask.last_fetched_epoch and ended.start >= ask.fetch_offset
        ):
            return None
        return partition_tags(diverging_epoch=(ended.leader_epoch, ended.start))

    def _read_log(self, partition: Partition, key: str | bytes, ask: FetchPartition) -> Read:
        log, log_start = partition.log, partition.log_start
        end = log.visible_end
        offset = ask.fetch_offset
        if not log_start <= offset <= log.log_end:
            partition.check_offset(offset)
        if offset >= end:  # Up to the log end it is there, and will be visible.
            return Read(ask.partition, 0, end, log_start)
        limit = min(ask.partition_max_bytes, self._bytes_max - self._size)
        is_first = self._size == 0
        if not is_first and (limit <= 0 or self._monotonic() > self._read_until_s):
            return Read(ask.partition, 0, end, log_start)
        found = self._found(partition, key, ask, bytes_max=max(limit, 0))
        if found is None:  # On its way.
            return Read(ask.partition, 0, end, log_start)
        records, more = (found.records, found.more) if isinstance(found, ColdRead) else (found, b"")
        size = len(records) + len(more)
        if size > limit and not is_first:
            # Only the first partition with data may exceed the limit, so that a reader always
            # gets on; the others have their turn in the next fetch.
            return Read(ask.partition, 0, end, log_start)
        self._size += size
        blocks = found.may_block if isinstance(found, ColdRead) else may_block(log, offset, size)
        return Read(ask.partition, 0, end, log_start, records, more, may_block=blocks)

    def _found(
        self, partition: Partition, key: str | bytes, ask: FetchPartition, *, bytes_max: int
    ) -> Bytes | ColdRead | None:
        """From the log, or from the bucket what was dropped here or is damaged here and not there.
        None while that is on its way."""
        log, offset = partition.log, Offset(ask.fetch_offset)
        if offset < log.log_start:
            partition.check_cold(offset)
        else:
            end = log.visible_end
            try:
                records = log.view(offset, bytes_max=bytes_max, end=end)
            except DamagedOffsets:
                if partition.cold is None or not partition.cold.covers(offset):
                    raise
            else:
                return records if len(records) else covering_gap(log, offset, end)
        return self._cold.read(partition, key, ask, bytes_max=bytes_max)

    # Waiting

    def wait_ms(self) -> int:
        """How long to wait for more than there is now. With nothing but cold records to come, long
        enough for those that are in the cache, be it against the reader's wish: it would ask in
        vain for ever."""
        asked = 0 if self.repeats_itself else self._request.max_wait_ms
        if self._size == 0 and self._cold.is_waiting:
            return max(asked, COLD_WAIT_MS_MIN)
        return asked

    def has_enough(self) -> bool:
        """Measure every partition: whether what could be given is enough, or cannot get more.

        No error was found a moment ago; a topic without partitions was not looked for.
        """
        topics = self._call.node.topics
        self._awaited = [
            Awaited(self._wake, key, ask, topics.find(key).partition(ask.partition).log)
            for key, partitions in self._topics
            for ask in partitions
            if not self._cold.awaits(key, ask)
        ]
        self._size = self._full_count = 0
        return self._measure(self._awaited)

    def _measure(self, changed: Iterable[Awaited]) -> bool:
        for one in changed:
            self._size -= one.size
            self._full_count -= one.is_full
            try:
                self._find(one.key, one.ask)
                is_due = one.look()
            except TierlogError:
                return True  # Reading finds it again and tells.
            if is_due:
                return True
            self._size += one.size
            self._full_count += one.is_full
        if self._size >= self._min_bytes:
            return True
        return self._full_count == len(self._awaited) and not self._cold.is_waiting

    def begin(self, wait_ms: int) -> asyncio.Future[Parts | None]:
        """Wait for more."""
        loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Parts | None] = loop.create_future()
        self._timer = loop.call_later(wait_ms / 1000, self._finish)
        self._reads = []
        for one in self._awaited:
            one.log.watch(one)
        self._cold.watch(self._look_at_cold)
        self._answer.add_done_callback(self._end)
        self._call.node.long_polls.add(self._finish)
        return self._answer

    def _wake(self, one: Awaited) -> None:
        """Something happened to one of the logs; look once, after all of it has happened."""
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._look_again)
        self._woken[one] = None

    def _look_again(self) -> None:
        woken, self._woken = self._woken, {}
        if not self._answer.done() and self._measure(woken):
            self._finish()

    def _look_at_cold(self) -> None:
        """Something arrived from the bucket. Less than `min_bytes` of it waits on, as usual."""
        if self._answer.done():
            return
        self.read_all()
        if self.is_ready or not self._cold.is_waiting:
            self._answer.set_result(self.encoded())
        else:
            self._reads = []
            self._cold.watch(self._look_at_cold)

    def _finish(self) -> None:
        """There is enough, or the time is up: give what there is."""
        if not self._answer.done():
            self.read_all()
            self._answer.set_result(self.encoded())

    def _end(self, _: asyncio.Future[Parts | None]) -> None:
        """Answered, or its peer went away."""
        self._timer.cancel()
        self._cold.end()
        self._call.node.long_polls.discard(self._finish)
        for one in self._awaited:
            one.log.unwatch(one)
        self._awaited = []

    # Answering

    def encoded(self) -> Parts:
        call = self._call
        version = call.version
        aborted: list[tuple[int, int]] | None = (
            [] if self._request.isolation_level == READ_COMMITTED else None
        )
        writer = FetchWriter(version, topic_count=len(self._reads))
        blocks = False
        for key, reads in self._reads:
            writer.topic(key, partition_count=len(reads))
            sent = 0
            for read in reads:
                sent += len(read.records) + len(read.more)
                blocks = blocks or read.may_block
                writer.partition(
                    read.partition,
                    error_code=read.code,
                    high_watermark=read.high_watermark,
                    last_stable_offset=read.high_watermark,
                    log_start_offset=read.log_start,
                    aborted=aborted,
                    records=read.records,
                    more=read.more,
                    tags=read.tags,
                )
            self._count(key, sent)
        flexible = version >= FLEXIBLE_FROM
        parts = framed_response(
            writer.finish(), correlation_id=call.correlation_id, flexible=flexible
        )
        return MayBlock(parts) if blocks else parts

    def _count(self, key: str | bytes, sent: int) -> None:
        topics = self._call.node.topics
        topic = topics.by_name.get(key) if isinstance(key, str) else topics.by_id.get(key)
        if topic is not None:
            topic.stats.fetches += 1
            topic.stats.bytes_out += sent
