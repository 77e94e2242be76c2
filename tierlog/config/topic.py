"""The settings of a topic: the table.

Every topic setting of Kafka 4, under Kafka's name and with Kafka's default unless the reason for
another stands behind it, and those of our own below `tierlog.`. A `TopicConfig` holds effective
values: what the topic says, else what the node says, else what this table says, with the rules of
`rules.py` applied. `-1` means without limit wherever a limit is meant.
"""

from dataclasses import dataclass

from tierlog.config.definition import LONG_MAX, decimal, flag, long, names, text, unobeyed, whole

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    cleanup_policy: frozenset[str] = names(
        "cleanup.policy",
        frozenset({"delete"}),
        "What happens to old records: 'delete' drops them by retention, 'compact' keeps the last "
        "one of every key, both do both, and an empty list keeps everything.",
        choices=("compact", "delete"),
        broker="log.cleanup.policy",
    )
    compression_type: str = unobeyed(
        text(
            "compression.type",
            "producer",
            "The codec that producers are expected to use. Batches are stored as they were sent: "
            "the broker never recompresses.",
            choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            broker="compression.type",
        )
    )
    compression_gzip_level: int = unobeyed(
        whole(
            "compression.gzip.level",
            -1,
            "Level for gzip where the broker compresses; -1 is the codec's own default.",
            at_least=-1,
            at_most=9,
            broker="compression.gzip.level",
        )
    )
    compression_lz4_level: int = unobeyed(
        whole(
            "compression.lz4.level",
            9,
            "Level for lz4 where the broker compresses.",
            at_least=1,
            at_most=17,
            broker="compression.lz4.level",
        )
    )
    compression_zstd_level: int = unobeyed(
        whole(
            "compression.zstd.level",
            3,
            "Level for zstd where the broker compresses.",
            at_least=-131072,
            at_most=22,
            broker="compression.zstd.level",
        )
    )
    delete_retention_ms: int = long(
        "delete.retention.ms",
        DAY_MS,
        "How long a compacted topic keeps the tombstone of a deleted key, counted from the first "
        "compaction that meets it: whoever reads the topic from its beginning within this time "
        "sees the deletion.",
        broker="log.cleaner.delete.retention.ms",
    )
    file_delete_delay_ms: int = unobeyed(
        long(
            "file.delete.delay.ms",
            MINUTE_MS,
            "How long a file waits between being dropped from the log and being removed.",
            broker="log.segment.delete.delay.ms",
        )
    )
    # 1 and not Kafka's "never": no acknowledged record is lost when the power fails, and group
    # commit makes that affordable.
    flush_messages: int = long(
        "flush.messages",
        1,
        "1: acks=all and consumers wait for fsync. Larger: the page cache counts as durable, as "
        "is usual in Kafka.",
        at_least=1,
        broker="log.flush.interval.messages",
    )
    flush_ms: int = long(
        "flush.ms",
        LONG_MAX,
        "The longest time that a record waits until its fsync is asked for, where flush.messages "
        "is above 1. Looked at twice a second.",
        broker="log.flush.interval.ms",
    )
    follower_replication_throttled_replicas: frozenset[str] = unobeyed(
        names(
            "follower.replication.throttled.replicas",
            frozenset(),
            "Replicas (partition:broker, or *) whose fetching is throttled while they catch up.",
        )
    )
    leader_replication_throttled_replicas: frozenset[str] = unobeyed(
        names(
            "leader.replication.throttled.replicas",
            frozenset(),
            "Replicas (partition:broker, or *) that the leader throttles while they catch up.",
        )
    )
    index_interval_bytes: int = whole(
        "index.interval.bytes",
        4096,
        "Log bytes between two entries of the offset index.",
        at_most=1 << 30,
        broker="log.index.interval.bytes",
    )
    # Ten minutes: consumers of the tail read the disk, and the disk holds little.
    local_retention_ms: int = long(
        "local.retention.ms",
        10 * MINUTE_MS,
        "How long an uploaded segment stays on the local disk as well; -1 for as long as it "
        "lives, -2 for the value of retention.ms.",
        at_least=-2,
        broker="log.local.retention.ms",
    )
    local_retention_bytes: int = long(
        "local.retention.bytes",
        -1,
        "How many bytes of a partition may stay on the local disk once uploaded; -1 without "
        "limit, -2 for the value of retention.bytes.",
        at_least=-2,
        broker="log.local.retention.bytes",
    )
    max_compaction_lag_ms: int = long(
        "max.compaction.lag.ms",
        LONG_MAX,
        "The longest time that a record stays uncompacted: its segment is sealed in time, and "
        "compacted whatever min.cleanable.dirty.ratio says.",
        at_least=1,
        broker="log.cleaner.max.compaction.lag.ms",
    )
    max_message_bytes: int = whole(
        "max.message.bytes",
        1_048_588,
        "The largest batch that a producer may send, after compression.",
        broker="message.max.bytes",
    )
    message_timestamp_after_max_ms: int = long(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        "How far a record's timestamp may lie after the broker's clock.",
        broker="log.message.timestamp.after.max.ms",
    )
    message_timestamp_before_max_ms: int = long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "How far a record's timestamp may lie before the broker's clock.",
        broker="log.message.timestamp.before.max.ms",
    )
    message_timestamp_type: str = text(
        "message.timestamp.type",
        "CreateTime",
        "Whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        broker="log.message.timestamp.type",
    )
    min_cleanable_dirty_ratio: float = decimal(
        "min.cleanable.dirty.ratio",
        0.5,
        "The share of a compacted log that must be uncompacted before it is compacted again.",
        at_least=0.0,
        at_most=1.0,
        broker="log.cleaner.min.cleanable.ratio",
    )
    min_compaction_lag_ms: int = long(
        "min.compaction.lag.ms",
        0,
        "The shortest time that a record stays uncompacted, by its timestamp.",
        broker="log.cleaner.min.compaction.lag.ms",
    )
    min_insync_replicas: int = whole(
        "min.insync.replicas",
        1,
        "How many replicas must be in sync for a write with acks=all to be taken.",
        at_least=1,
        broker="min.insync.replicas",
    )
    preallocate: bool = unobeyed(
        flag(
            "preallocate",
            False,
            "Reserve the disk space of a segment when it is created.",
            broker="log.preallocate",
        )
    )
    remote_log_copy_disable: bool = flag(
        "remote.log.copy.disable",
        False,
        "Stop uploading new segments, which then stay on the local disk until retention.* takes "
        "them; what is in the object store stays readable and expires first. Uploads go on when "
        "it is false again.",
    )
    remote_log_delete_on_disable: bool = unobeyed(
        flag(
            "remote.log.delete.on.disable",
            False,
            "Whether turning tiering off would delete what is in the object store.",
        )
    )
    # True and not Kafka's false: object storage is the home of the data.
    remote_storage_enable: bool = flag(
        "remote.storage.enable",
        True,
        "Keep the topic in the object store, with the local disk as its active edge. False for "
        "compacted topics. Cannot be turned off while a topic lives.",
        broker="remote.log.storage.system.enable",
    )
    retention_bytes: int = long(
        "retention.bytes",
        -1,
        "How many bytes of a partition are kept, over both tiers; -1 without limit.",
        at_least=-1,
        broker="log.retention.bytes",
    )
    retention_ms: int = long(
        "retention.ms",
        7 * DAY_MS,
        "How long a record is kept by its timestamp, over both tiers; -1 for ever.",
        at_least=-1,
        broker="log.retention.ms",
    )
    # 128 MiB and not Kafka's 1 GiB: small enough that the disk holds little, large enough that
    # requests to the store stay cheap. At most 1 GiB: positions in the indexes are 32 bits.
    segment_bytes: int = whole(
        "segment.bytes",
        128 << 20,
        "Size at which a segment is sealed and a new one started.",
        at_least=1024,
        at_most=1 << 30,
        broker="log.segment.bytes",
    )
    segment_index_bytes: int = unobeyed(
        whole(
            "segment.index.bytes",
            10 << 20,
            "Size of the offset index at which a segment is sealed.",
            at_least=4,
            broker="log.index.size.max.bytes",
        )
    )
    segment_jitter_ms: int = unobeyed(
        long(
            "segment.jitter.ms",
            0,
            "At most by how much segment.ms is shortened, so that not all partitions roll at once.",
            broker="log.roll.jitter.ms",
        )
    )
    # One hour and not Kafka's seven days: a slow topic reaches the object store on the same day.
    segment_ms: int = long(
        "segment.ms",
        HOUR_MS,
        "Time since its first record after which a segment is sealed, also when nothing arrives.",
        at_least=1,
        broker="log.roll.ms",
    )
    unclean_leader_election_enable: bool = unobeyed(
        flag(
            "unclean.leader.election.enable",
            False,
            "Let a replica lead that is not in sync, at the price of acknowledged records.",
            broker="unclean.leader.election.enable",
        )
    )
    # False, as the stricter rules refuse things that ordinary clients do.
    tierlog_compliance: bool = flag(
        "tierlog.compliance",
        False,
        "Stricter rules: fsync before every answer, broker timestamps, no compaction, retention "
        "that may grow but never shrink, ten minutes on the disk after the upload.",
    )
    # A label and nothing more: `tierlog cost actual` adds up by it, too.
    tierlog_owner: str = text(
        "tierlog.owner", "nobody", "Who pays for the topic: a team, a cost centre; any words."
    )
    tierlog_table_enable: bool = flag(
        "tierlog.table.enable",
        True,
        "Keep a Parquet table of the topic in the object store. False where tiering is off.",
    )
    # One hour: what a lost machine may delay, not lose; shorter makes smaller objects.
    tierlog_upload_lag_max_ms: int = long(
        "tierlog.upload.lag.max.ms",
        HOUR_MS,
        "A record is sealed and uploaded at the latest this long after it arrived.",
        at_least=1,
    )
