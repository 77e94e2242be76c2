"""The settings of a node: the table.

Kafka's names wherever Kafka has the thing. Lines made by `default_of` are what topics start from
that say nothing themselves: their type, range and default are those of the topic setting, so the
two cannot drift apart. `NodeSettings()` is every default; a value out of its range is refused
however it came in. Nothing here changes while a node runs.
"""

from dataclasses import dataclass, replace
from typing import Any

from tierlog.config.address import Address, parse_address
from tierlog.config.definition import (
    INT_MAX,
    LONG_MAX,
    decimal,
    definitions_of,
    flag,
    line,
    long,
    text,
    unobeyed,
    whole,
)
from tierlog.config.errors import InvalidConfig
from tierlog.config.store import check_endpoint
from tierlog.config.topic import DAY_MS, MINUTE_MS, TopicConfig

OFF = "off"


def default_of(topic_setting: str) -> Any:
    """The line of the node setting that a topic setting starts from."""
    topic = definitions_of(TopicConfig)[topic_setting]
    assert topic.broker is not None
    documentation = f"Default of the topic setting {topic.name}. {topic.documentation}"
    return line(replace(topic, name=topic.broker, documentation=documentation, broker=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    # Who and where. These have options of their own: --node-id, --listen, --http and so on.
    node_id: int = whole("node.id", 1, "The number by which other nodes and clients know this one.")
    listen: str = text(
        "listen",
        "127.0.0.1:9092",
        "HOST:PORT on which Kafka clients are served; port 0 picks a free one.",
    )
    http: str = text(
        "http",
        "127.0.0.1:8080",
        "HOST:PORT of metrics, health and the HTTP API, or 'off'; port 0 picks a free one.",
    )
    advertise: str = text(
        "advertise",
        "",
        "HOST:PORT that clients are told to connect to. Not set: the address that each used.",
    )
    data: str = text("data", "./tierlog-data", "The directory of the active edge: local segments.")
    store: str = text(
        "store",
        "",
        "The object store: file:///path or s3://bucket/prefix. Not set: a folder beside the data.",
    )
    tierlog_new_cluster: bool = flag(
        "tierlog.new.cluster",
        False,
        "Start a new cluster although the store holds another one.",
    )
    listener_insecure: bool = flag(
        "listener.insecure",
        False,
        "Accept plaintext from other machines, although nobody is asked who they are.",
    )
    s3_endpoint: str = text(
        "s3.endpoint",
        "",
        "URL of an S3 service other than AWS, as http://127.0.0.1:9000 of MinIO.",
    )
    s3_region: str = text("s3.region", "", "Region of the bucket. Not set: the usual AWS chain.")
    tierlog_cache_bytes: int = long(
        "tierlog.cache.bytes",
        -1,
        "Disk space for chunks of cold segments; -1: a tenth of what is free at the start, at most "
        "10 GiB.",
        at_least=-1,
    )
    tierlog_cold_gets_per_second: int = long(
        "tierlog.cold.gets.per.second",
        LONG_MAX,
        "GETs for cold reads, of all clients together, over any long while. Reads wait for their "
        "turn; nothing is read ahead meanwhile.",
        at_least=1,
    )
    tierlog_cold_client_gets_per_second: int = long(
        "tierlog.cold.client.gets.per.second",
        LONG_MAX,
        "GETs for the cold reads of one client id, over any long while. Its reads wait for their "
        "turn, those of others do not.",
        at_least=1,
    )
    # S3 Standard, us-east-1: $0.0004 for 1,000 GETs; bytes within the region are free.
    tierlog_price_get_usd: float = decimal(
        "tierlog.price.get.usd",
        0.0000004,
        "What the store takes for a GET, in dollars. Only for what is told of costs.",
        at_least=0,
        at_most=1,
    )
    tierlog_price_get_gb_usd: float = decimal(
        "tierlog.price.get.gb.usd",
        0.0,
        "What it takes for 10^9 bytes that are read, retrieval and transfer, in dollars.",
        at_least=0,
        at_most=1000,
    )
    # Without limit, as in Kafka: an upload reads sealed segments only, two at a time.
    remote_log_manager_copy_max_bytes_per_second: int = long(
        "remote.log.manager.copy.max.bytes.per.second",
        LONG_MAX,
        "How fast segments are uploaded, all topics together, over any long while. Objects go out "
        "whole: the next one waits.",
        at_least=1,
    )
    # Spark jobs and auditors hold the manifest that they began with: a day is a long job.
    tierlog_garbage_grace_ms: int = long(
        "tierlog.garbage.grace.ms",
        DAY_MS,
        "How long objects stay in the store after nothing refers to them any more: those of "
        "expired segments and of deleted topics.",
    )
    # 128 MiB: what a usual segment has. Larger ones save no more requests.
    tierlog_merge_max_bytes: int = long(
        "tierlog.merge.max.bytes",
        128 << 20,
        "Small segments in the store are merged into objects of at most this size, or of their "
        "topic's segment.bytes if that is less; 0: they are not merged.",
        at_most=1 << 30,
    )
    # They wait until they have left the local disk, so there is no hurry.
    tierlog_merge_interval_ms: int = long(
        "tierlog.merge.interval.ms",
        10 * MINUTE_MS,
        "Time between two looks at whether a partition has small segments to merge.",
        at_least=1,
    )
    # A quarter: as often as it takes to notice decay before versions and copies are gone. Where the
    # store bills retrieval, every byte pays it once in this time.
    tierlog_scrub_byte_period_ms: int = long(
        "tierlog.scrub.byte.period.ms",
        90 * DAY_MS,
        "The scrubber reads every byte in the store once in this time. Lengthen it where the "
        "storage class bills retrieval.",
        at_least=60 * MINUTE_MS,
        at_most=100 * 365 * DAY_MS,
    )

    # Topics.
    auto_create_topics_enable: bool = flag(
        "auto.create.topics.enable", True, "Create a topic when a client first asks for it."
    )
    delete_topic_enable: bool = flag("delete.topic.enable", True, "Let clients delete topics.")
    num_partitions: int = whole(
        "num.partitions", 1, "Partitions of a topic that was created without a number.", at_least=1
    )
    # Each partition is a directory with open files and some 50 KB of memory; a node starts with
    # 10,000 of them. Without a bound, whoever may create topics could fill the node for good.
    tierlog_partitions_max: int = whole(
        "tierlog.partitions.max",
        20_000,
        "Partitions that this node holds, all topics together; more are refused.",
        at_least=1,
    )
    default_replication_factor: int = whole(
        "default.replication.factor",
        1,
        "Replicas of a topic that was created without a number.",
        at_least=1,
        at_most=2**15 - 1,
    )

    # Limits, so that a sender's mistakes cost the sender and nobody else.
    socket_request_max_bytes: int = whole(
        "socket.request.max.bytes",
        100 << 20,
        "The largest request that is read; a larger one closes its connection.",
        at_least=1024,
    )
    # 256 MiB: two requests of the largest size and room for everybody else.
    queued_max_request_bytes: int = long(
        "queued.max.request.bytes",
        256 << 20,
        "Request and response bytes in flight in this node before reading pauses.",
        at_least=1024,
    )
    # 32 MiB: thirty batches of the usual largest size; one larger request passes alone.
    tierlog_connection_inflight_max_bytes: int = long(
        "tierlog.connection.inflight.max.bytes",
        32 << 20,
        "Request and response bytes in flight on one connection before its reading pauses.",
        at_least=1024,
    )
    # 10,000 and not Kafka's two thousand million: memory must have a bound.
    max_connections: int = whole(
        "max.connections", 10_000, "Connections that this node holds at a time.", at_least=1
    )
    max_connections_per_ip: int = whole(
        "max.connections.per.ip",
        INT_MAX,
        "Connections that this node holds at a time from one address.",
        at_least=1,
    )
    connections_max_idle_ms: int = long(
        "connections.max.idle.ms",
        10 * MINUTE_MS,
        "A connection without requests for this long is closed.",
        at_least=1,
    )
    tierlog_handshake_timeout_ms: int = long(
        "tierlog.handshake.timeout.ms",
        10_000,
        "A connection must send its first whole request within this time.",
        at_least=1,
    )
    # Well below the 30 s that supervisors usually grant between SIGTERM and SIGKILL.
    tierlog_drain_timeout_ms: int = long(
        "tierlog.drain.timeout.ms",
        10_000,
        "How long a stopping node waits for requests in flight.",
    )
    fetch_max_bytes: int = whole(
        "fetch.max.bytes",
        55 << 20,
        "The most bytes in one fetch response, whatever the client asks for; the first batch is "
        "always whole.",
        at_least=1024,
    )
    max_incremental_fetch_session_cache_slots: int = unobeyed(
        whole(
            "max.incremental.fetch.session.cache.slots",
            1_000,
            "Incremental fetch sessions that this node remembers; 0 for none.",
        )
    )

    # Groups, by Kafka's names and defaults.
    group_initial_rebalance_delay_ms: int = whole(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long the first rebalance of an empty group waits for more members to come.",
    )
    group_min_session_timeout_ms: int = whole(
        "group.min.session.timeout.ms",
        6_000,
        "The shortest session timeout that a member of a group may ask for.",
    )
    group_max_session_timeout_ms: int = whole(
        "group.max.session.timeout.ms",
        30 * MINUTE_MS,
        "The longest session timeout that a member of a group may ask for.",
    )
    # 10,000 and not Kafka's two thousand million: a join is answered with all members.
    group_max_size: int = whole(
        "group.max.size", 10_000, "Members that one group takes; more are refused.", at_least=1
    )
    group_consumer_session_timeout_ms: int = whole(
        "group.consumer.session.timeout.ms",
        45_000,
        "A member of a consumer group (KIP-848) that is not heard of for this long is given up.",
        at_least=1,
    )
    group_consumer_heartbeat_interval_ms: int = whole(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "How often members of consumer groups (KIP-848) are told to beat.",
        at_least=1,
    )
    group_consumer_max_size: int = whole(
        "group.consumer.max.size",
        (1 << 31) - 1,
        "Members that one consumer group (KIP-848) takes; more are refused.",
        at_least=1,
    )
    group_consumer_assignors: str = text(
        "group.consumer.assignors",
        "uniform,range",
        "Ways to share partitions out in consumer groups (KIP-848); the first is for members that "
        "ask for none.",
        choices=("uniform,range", "range,uniform", "uniform", "range"),
    )
    offset_metadata_max_bytes: int = whole(
        "offset.metadata.max.bytes",
        4_096,
        "The longest text that may be committed beside an offset.",
    )
    offsets_retention_minutes: int = whole(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long the offsets of a group without members are kept.",
        at_least=1,
    )
    offsets_topic_num_partitions: int = whole(
        "offsets.topic.num.partitions",
        50,
        "Partitions of __consumer_offsets; counts when the topic is made.",
        at_least=1,
    )

    # The disk. Below a watermark the node slows producers down, then refuses; it never drops.
    tierlog_disk_free_min_bytes: int = long(
        "tierlog.disk.free.min.bytes",
        2 << 30,
        "Writes are refused while the disk has fewer free bytes than this.",
    )
    tierlog_disk_free_min_ratio: float = decimal(
        "tierlog.disk.free.min.ratio",
        0.05,
        "Writes are refused while a smaller share of the disk is free.",
        at_least=0.0,
        at_most=1.0,
    )
    tierlog_disk_free_throttle_factor: float = decimal(
        "tierlog.disk.free.throttle.factor",
        2.0,
        "Writes are slowed down below this many times the free space at which they are refused.",
        at_least=1.0,
        at_most=100.0,
    )
    log_retention_check_interval_ms: int = long(
        "log.retention.check.interval.ms",
        5 * MINUTE_MS,
        "Time between two looks for segments whose retention is over.",
        at_least=1,
    )
    # Compaction. Without a limit of its rate, as in Kafka: it never takes more than half a core.
    log_cleaner_backoff_ms: int = long(
        "log.cleaner.backoff.ms",
        15_000,
        "Time between two looks for compacted topics that are due, while there are none.",
        at_least=1,
    )
    log_cleaner_dedupe_buffer_size: int = long(
        "log.cleaner.dedupe.buffer.size",
        128 << 20,
        "Memory for the keys of the log that is being compacted, some 200 bytes each; a log with "
        "more of them is compacted in several rounds.",
        at_least=1024,
    )
    log_cleaner_io_max_bytes_per_second: float = decimal(
        "log.cleaner.io.max.bytes.per.second",
        float(LONG_MAX),
        "How many bytes a second compaction reads and writes, over any long while.",
        at_least=1.0,
        at_most=float(LONG_MAX),
    )
    producer_id_expiration_ms: int = whole(
        "producer.id.expiration.ms",
        DAY_MS,
        "How long the sequence numbers of a silent idempotent producer are remembered.",
        at_least=1,
    )

    # What topics start from.
    log_cleanup_policy: frozenset[str] = default_of("cleanup.policy")
    compression_type: str = default_of("compression.type")
    compression_gzip_level: int = default_of("compression.gzip.level")
    compression_lz4_level: int = default_of("compression.lz4.level")
    compression_zstd_level: int = default_of("compression.zstd.level")
    log_cleaner_delete_retention_ms: int = default_of("delete.retention.ms")
    log_segment_delete_delay_ms: int = default_of("file.delete.delay.ms")
    log_flush_interval_messages: int = default_of("flush.messages")
    log_flush_interval_ms: int = default_of("flush.ms")
    log_index_interval_bytes: int = default_of("index.interval.bytes")
    log_local_retention_ms: int = default_of("local.retention.ms")
    log_local_retention_bytes: int = default_of("local.retention.bytes")
    log_cleaner_max_compaction_lag_ms: int = default_of("max.compaction.lag.ms")
    message_max_bytes: int = default_of("max.message.bytes")
    log_message_timestamp_after_max_ms: int = default_of("message.timestamp.after.max.ms")
    log_message_timestamp_before_max_ms: int = default_of("message.timestamp.before.max.ms")
    log_message_timestamp_type: str = default_of("message.timestamp.type")
    log_cleaner_min_cleanable_ratio: float = default_of("min.cleanable.dirty.ratio")
    log_cleaner_min_compaction_lag_ms: int = default_of("min.compaction.lag.ms")
    min_insync_replicas: int = default_of("min.insync.replicas")
    log_preallocate: bool = default_of("preallocate")
    remote_log_storage_system_enable: bool = default_of("remote.storage.enable")
    log_retention_bytes: int = default_of("retention.bytes")
    log_retention_ms: int = default_of("retention.ms")
    log_segment_bytes: int = default_of("segment.bytes")
    log_index_size_max_bytes: int = default_of("segment.index.bytes")
    log_roll_jitter_ms: int = default_of("segment.jitter.ms")
    log_roll_ms: int = default_of("segment.ms")
    unclean_leader_election_enable: bool = default_of("unclean.leader.election.enable")

    def __post_init__(self) -> None:
        for definition in definitions_of(NodeSettings).values():
            definition.check(getattr(self, definition.attribute))
        self._check_together()

    @property
    def listen_address(self) -> Address:
        return parse_address(self.listen, name="listen")

    @property
    def http_address(self) -> Address | None:
        return None if self.http == OFF else parse_address(self.http, name="http")

    @property
    def advertise_address(self) -> Address | None:
        if not self.advertise:
            return None
        return parse_address(self.advertise, name="advertise", port_min=1)

    def disk_refuse_below(self, total_bytes: int) -> int:
        """Free bytes below which a disk of that size takes no more writes."""
        share = int(self.tierlog_disk_free_min_ratio * total_bytes)
        return max(self.tierlog_disk_free_min_bytes, share)

    def disk_throttle_below(self, total_bytes: int) -> int:
        """Free bytes below which writes to a disk of that size are slowed down."""
        return int(self.tierlog_disk_free_throttle_factor * self.disk_refuse_below(total_bytes))

    def store_floor(self, total_bytes: int) -> int:
        """Free bytes that a store in a folder leaves on a disk of that size.

        Half of what producers leave: when they are refused, uploads go on, and make room."""
        return self.disk_refuse_below(total_bytes) // 2

    def _check_together(self) -> None:
        advertise = self.advertise_address
        _ = self.listen_address, self.http_address  # Raise where they cannot be read.
        check_endpoint(self.s3_endpoint)
        if advertise is not None and advertise.is_everywhere:
            raise InvalidConfig(
                "advertise",
                f"advertise is {advertise}, which no client can connect to; name the address by "
                "which clients reach this node",
            )
        if self.default_replication_factor != 1:
            raise InvalidConfig(
                "default.replication.factor",
                f"default.replication.factor is {self.default_replication_factor}; this node is "
                "alone, and a topic has no more replicas than there are nodes: it must be 1",
            )
        session_ms = self.group_consumer_session_timeout_ms
        if self.group_consumer_heartbeat_interval_ms >= session_ms:
            raise InvalidConfig(
                "group.consumer.heartbeat.interval.ms",
                "group.consumer.heartbeat.interval.ms is "
                f"{self.group_consumer_heartbeat_interval_ms}; members must beat more than once in "
                f"a session, and group.consumer.session.timeout.ms is {session_ms}",
            )
        largest = self.socket_request_max_bytes
        if self.message_max_bytes > largest:
            raise InvalidConfig(
                "message.max.bytes",
                f"message.max.bytes is {self.message_max_bytes}; a batch must fit into a request, "
                f"and socket.request.max.bytes is {largest}",
            )
        if self.queued_max_request_bytes < largest:
            raise InvalidConfig(
                "queued.max.request.bytes",
                f"queued.max.request.bytes is {self.queued_max_request_bytes}; it must hold one "
                f"request, and socket.request.max.bytes is {largest}",
            )
