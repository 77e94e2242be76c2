"""Settings of the cold tier, and what a topic says about its own tiering. Values."""

from dataclasses import dataclass

from tierlog.cold.head import Policy
from tierlog.hot.settings import require

NO_LIMIT = -1
DAY_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSettings:
    prefix: str = ""
    """Above the cluster's own, in the store."""
    check_interval_ms: int = 1_000
    """Between two looks at what is sealed: short beside the minutes that a segment fills in."""
    uploads_at_once: int = 2
    """Partitions that are uploaded side by side. Each takes a thread at times, and the threads are
    shared with the sync jobs of the hot log, which come first."""
    commit_segments_max: int = 8
    """Segments that one publish takes along where several wait: a backlog costs fewer requests."""
    single_put_bytes_max: int = 256 << 20
    """Larger objects are sent in parts (U2)."""
    part_bytes: int = 64 << 20
    garbage_grace_ms: int = DAY_MS
    """`tierlog.garbage.grace.ms`: objects that nothing refers to any more stay this long, for those
    who read by an older manifest."""
    sweep_retry_ms: int = 3_600_000
    """After a deleted topic could not be swept because somebody holds it, or the store keeps it."""
    orphan_interval_ms: int = 7 * DAY_MS
    """Between two looks at what a partition has in the bucket: a request for a thousand objects."""
    orphan_age_ms: int = DAY_MS
    """By the store's clock. Younger objects may be on their way into a manifest."""
    orphan_sighting_ms: int = 7 * DAY_MS
    """By this node's clock: an orphan is collected when it is seen again so much later."""
    upload_age_ms: int = DAY_MS
    """By both clocks: multipart uploads that are older were left behind."""
    backoff_ms_min: int = 1_000
    backoff_ms_max: int = 60_000
    """Between two tries while the store is away: an hour of outage costs sixty probes."""
    merge_bytes_max: int = 128 << 20
    """Small segments are merged into objects of so many bytes at most, or of the topic's
    `segment.bytes` if that is less. 0: they are never merged."""
    merge_interval_ms: int = 600_000
    """Between two looks for small segments of a partition. They wait to be gone from the local
    disk, so there is no hurry."""

    def __post_init__(self) -> None:
        require("check.interval.ms", self.check_interval_ms, at_least=1)
        require("uploads.at.once", self.uploads_at_once, at_least=1, at_most=64)
        require("commit.segments.max", self.commit_segments_max, at_least=1, at_most=32)
        require("single.put.bytes.max", self.single_put_bytes_max, at_least=0, at_most=5 << 30)
        require("part.bytes", self.part_bytes, at_least=5 << 20, at_most=5 << 30)
        require("tierlog.garbage.grace.ms", self.garbage_grace_ms, at_least=0)
        require("sweep.retry.ms", self.sweep_retry_ms, at_least=1)
        require("orphan.interval.ms", self.orphan_interval_ms, at_least=1)
        require("orphan.age.ms", self.orphan_age_ms, at_least=0)
        require("orphan.sighting.ms", self.orphan_sighting_ms, at_least=0)
        require("upload.age.ms", self.upload_age_ms, at_least=0)
        require("backoff.ms.min", self.backoff_ms_min, at_least=1)
        require("backoff.ms.max", self.backoff_ms_max, at_least=self.backoff_ms_min)
        require("merge.bytes.max", self.merge_bytes_max, at_least=0, at_most=1 << 30)
        require("merge.interval.ms", self.merge_interval_ms, at_least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTiering:
    """Kafka's -2 (as `retention.*`) is resolved by whoever makes this; -1 is no limit."""

    upload_lag_max_ms: int = 3_600_000
    """`tierlog.upload.lag.max.ms`: the active segment is sealed at the latest after this."""
    local_retention_ms: int = 600_000
    """Since the publish: the window in which a lying store is repaired from the local copy."""
    local_retention_bytes: int = NO_LIMIT
    """Beyond this, uploaded segments go at once: the topic chose to do without the window."""
    retention_ms: int = NO_LIMIT
    """`retention.ms`: by the records' timestamps, over both tiers."""
    retention_bytes: int = NO_LIMIT
    """`retention.bytes`: of the partition, over both tiers, each record counted once."""
    copies: bool = True
    """False by `remote.log.copy.disable`: nothing more is uploaded; what is cold stays readable,
    and goes from the disk as before."""
    table: bool = True
    """`tierlog.table.enable`: what is published is converted to Parquet, too."""

    @property
    def policy(self) -> Policy:
        """By which records expire, as HEAD names it."""
        return Policy(self.retention_ms, self.retention_bytes)

    def __post_init__(self) -> None:
        require("tierlog.upload.lag.max.ms", self.upload_lag_max_ms, at_least=1)
        require("local.retention.ms", self.local_retention_ms, at_least=NO_LIMIT)
        require("local.retention.bytes", self.local_retention_bytes, at_least=NO_LIMIT)
        require("retention.ms", self.retention_ms, at_least=NO_LIMIT)
        require("retention.bytes", self.retention_bytes, at_least=NO_LIMIT)
