"""One partition that this node leads: its log, its cold prefix and the rules of its topic.

Words of the offsets as in ARCHITECTURE: `log_start <= high_watermark <= log_end`; what is below
`log.log_start`, the local start, is served from the bucket. With one replica the high watermark is
the log's visible end; it never goes back. Every start of the node takes a new
leader epoch, so that whoever remembers an older one is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.broker.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    ReadOnly,
    RecordsRefused,
    TooManyRecords,
    TransactionsNotServed,
    UnknownLeaderEpoch,
)
from tierlog.fetchproxy.errors import ColdUnavailable
from tierlog.hot.epochs import LeaderEpochs
from tierlog.hot.errors import OffsetOutOfRange
from tierlog.hot.settings import LogSettings
from tierlog.records.batch import parse_header, validate_produced
from tierlog.records.limits import Limits
from tierlog.records.record import decode_records
from tierlog.records.timestamps import fill_max_timestamp
from tierlog.types import NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs

if TYPE_CHECKING:
    from tierlog.broker.errors import PartitionLate
    from tierlog.broker.topics import Topic
    from tierlog.cold.prefix import ColdPrefix
    from tierlog.config import TopicConfig
    from tierlog.hot import Appended, Log
    from tierlog.hot.epochs import EpochStart
    from tierlog.records.header import BatchHeader

TIMESTAMP_MAX = 2**63 - 1

UNFOLD_RECORDS_MAX = 20_000
"""Records of a batch that is taken apart on arrival: some 3 us each, while everybody waits. Clients
send 10,000 in a batch at most unless told otherwise."""
UNFOLD = Limits(bytes_max=4 << 20)
"""Four times the largest batch that clients make by default; some 20 ms."""
TRANSACTIONAL = 0x10
"""Bit of the batch attributes."""
_MAX_TIMESTAMP_AT = 35
_NEGATIVE = 0x80
"""Of the first byte of a number below zero."""


class Partition:
    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_size_max",
        "_wants_keys",
        "cold",
        "index",
        "late",
        "leader_epoch",
        "log",
        "topic",
    )

    def __init__(self, topic: Topic, index: int, log: Log, *, leader_epoch: LeaderEpoch) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.cold: ColdPrefix | None = None
        """What is in the bucket; None for a topic that is not tiered."""
        self.late: PartitionLate | None = None
        """Why there is no log yet; None once there is."""
        self.leader_epoch = leader_epoch
        self.configure(topic.config)

    def configure(self, config: TopicConfig) -> None:
        """Take on the topic's settings; they count from the next request on."""
        self._size_max = config.max_message_bytes
        checks_time = config.message_timestamp_type == "CreateTime"
        self._before_max_ms = (
            config.message_timestamp_before_max_ms if checks_time else TIMESTAMP_MAX
        )
        self._after_max_ms = config.message_timestamp_after_max_ms if checks_time else TIMESTAMP_MAX
        self._wants_keys = "compact" in config.cleanup_policy

    @property
    def high_watermark(self) -> Offset:
        return self.log.visible_end

    @property
    def log_start(self) -> Offset:
        """Of both tiers: what somebody deleted, here or in the bucket, is gone (U10). Where nothing
        is cold the local log begins it."""
        log, cold = self.log, self.cold
        if cold is None:
            return log.log_start
        local = log.trimmed_to if cold.log_start < cold.uploaded_end else log.log_start
        return max(cold.log_start, local)

    def check_offset(self, offset: int) -> None:
        """Raises `OffsetOutOfRange`; `ColdUnavailable` while it is unknown what the bucket has."""
        start, end = self.log_start, self.log.log_end
        if start <= offset <= end:
            return
        self.check_start()
        raise OffsetOutOfRange(offset, log_start=start, log_end=end)

    def check_cold(self, offset: int) -> None:
        """Raises `ColdUnavailable` where the log dropped what the bucket does not list any more: it
        is not for the consumer to take this for the end of its records."""
        if self.cold is not None and self.cold.uploaded_end <= offset:
            where = f"offset {offset} of {self.topic.name}-{self.index}"
            raise ColdUnavailable(where, "the bucket's manifest does not list it any more")

    def check_start(self) -> None:
        """Raises `ColdUnavailable` while it is unknown where the partition begins."""
        if self.cold is not None and self.cold.is_unknown:
            where = f"the beginning of {self.topic.name}-{self.index}"
            raise ColdUnavailable(where, "the store has not said yet what it holds of it")

    @property
    def older(self) -> ColdPrefix | None:
        """The cold prefix, if it holds records that the local log does not."""
        cold = self.cold
        if cold is None:
            return None
        return cold if self.log_start < min(self.log.log_start, cold.uploaded_end) else None

    @property
    def epochs(self) -> LeaderEpochs:
        """Over both tiers: the local log forgets those of what it dropped."""
        local, cold = self.log.epochs, self.cold
        if cold is None or not (older := older_epochs(cold.epochs, self.log.log_start)):
            return local
        last = older[-1].leader_epoch
        return LeaderEpochs([*older, *(one for one in local.entries if one.leader_epoch > last)])

    def append(self, batch: memoryview, now_ms: int) -> Appended:
        """Check one produced batch and write it. Raises what is wrong with it, and `ReadOnly` once
        somebody else publishes the partition."""
        if self.cold is not None:
            self.check_fence()
        before, after = self._before_max_ms, self._after_max_ms
        header = validate_produced(
            batch,
            self._size_max,
            # Times before 1970 cannot be: a bound below 0 is no bound.
            TimestampMs(now_ms - before) if before < now_ms else NO_TIMESTAMP,
            TimestampMs(now_ms + after),
        )
        if header.attributes & TRANSACTIONAL:
            raise TransactionsNotServed("this node serves no transactions yet")
        if header.max_timestamp < 0 and header.lacks_max_timestamp:
            check_may_unfold(header)
            header = self._with_max_timestamp(batch, now_ms)
        if self._wants_keys:
            check_may_unfold(header)
            check_keys(batch)
        return self.log.append(batch, header, leader_epoch=self.leader_epoch, now_ms=now_ms)

    def check_fence(self) -> None:
        """Raises `ReadOnly` once somebody else publishes the partition."""
        cold = self.cold
        if cold is not None and cold.fence is not None:
            raise ReadOnly(f"{self.topic.name}-{self.index} takes no more records: {cold.fence}")

    def _with_max_timestamp(self, batch: memoryview, now_ms: int) -> BatchHeader:
        """The client left the batch's largest timestamp to the broker."""
        latest = TimestampMs(min(now_ms + self._after_max_ms, TIMESTAMP_MAX))
        fill_max_timestamp(batch, timestamp_max=latest, limits=UNFOLD)
        return parse_header(batch)

    def must_unfold(self, batch: memoryview) -> bool:
        """Whether a batch is taken apart before it is written, which takes time."""
        return self._wants_keys or (
            len(batch) > _MAX_TIMESTAMP_AT and batch[_MAX_TIMESTAMP_AT] >= _NEGATIVE
        )

    def check_leader_epoch(self, known: int) -> None:
        """KIP-320: a client that knows another epoch must look at the metadata again."""
        if known == self.leader_epoch or known < 0:
            return
        where = f"{self.topic.name}-{self.index}"
        if known < self.leader_epoch:
            raise FencedLeaderEpoch(f"{where} is at leader epoch {self.leader_epoch}, not {known}")
        raise UnknownLeaderEpoch(f"{where} is at leader epoch {self.leader_epoch}, not {known} yet")

    def check_replicas(self, min_insync_replicas: int) -> None:
        if min_insync_replicas > 1:
            raise NotEnoughReplicas(
                f"{self.topic.name}-{self.index} has one replica; "
                f"min.insync.replicas asks for {min_insync_replicas}"
            )


def older_epochs(epochs: LeaderEpochs, local_start: Offset) -> list[EpochStart]:
    """Those that began before the local log does."""
    return [entry for entry in epochs.entries if entry.start < local_start]


def check_may_unfold(header: BatchHeader) -> None:
    if header.record_count > UNFOLD_RECORDS_MAX:
        raise TooManyRecords(header.record_count, UNFOLD_RECORDS_MAX)


def check_keys(batch: memoryview) -> None:
    """Every record of a compacted topic needs a key: without one it could never be replaced."""
    keyless = [
        (number, "a record of a compacted topic needs a key")
        for number, record in enumerate(decode_records(batch, limits=UNFOLD))
        if record.key is None
    ]
    if keyless:
        raise RecordsRefused(f"{len(keyless)} records without a key", keyless)


def segment_ms(config: TopicConfig) -> int:
    """What is in the active segment is not compacted: it is sealed in time for that."""
    if "compact" in config.cleanup_policy:
        return min(config.segment_ms, config.max_compaction_lag_ms)
    return config.segment_ms


def log_settings(config: TopicConfig, *, producer_expiration_ms: int) -> LogSettings:
    """What the local log needs to know of a topic's settings."""
    return LogSettings(
        segment_bytes=config.segment_bytes,
        segment_ms=segment_ms(config),
        index_interval_bytes=config.index_interval_bytes,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        log_append_time=config.message_timestamp_type == "LogAppendTime",
        contiguous="compact" not in config.cleanup_policy,
        producer_expiration_ms=producer_expiration_ms,
    )
