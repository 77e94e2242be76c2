"""Every family of metrics that a node exposes: its name, what it means, where its numbers are.

Names end in their unit, those of counters in `_total`. Numbers are kept per topic, never per
partition: a node has many, and `/state` has them all. `docs/metrics.md` is made from this table.
"""

from __future__ import annotations

from typing import Final

from tierlog.http.cleanerfamilies import COMPACTION
from tierlog.http.coldfamilies import COLD_TIER, COLD_TOPICS, STORE
from tierlog.http.coldreadfamilies import COLD_READS
from tierlog.http.family import Family
from tierlog.http.groupfamilies import GROUPS
from tierlog.http.health import Phase
from tierlog.http.readings import (
    by_api,
    by_reason,
    by_topic,
    listening,
    log_bytes,
    once,
    refusals,
    segment_count,
    topic_total,
)
from tierlog.http.tablefamilies import TABLES

NODE: Final = (
    Family(
        "tierlog_build_info",
        "gauge",
        "Always 1; the label tells the version that runs.",
        lambda view: [((view.version,), 1)],
        ("version",),
    ),
    Family(
        "tierlog_node_info",
        "gauge",
        "Always 1; the labels tell which node of which cluster this is.",
        lambda view: [((str(view.node.node_id), view.node.cluster_id), 1)],
        ("node_id", "cluster_id"),
    ),
    Family(
        "tierlog_ready",
        "gauge",
        "1 while the node serves; 0 before, while it drains, and once its disk failed.",
        once(lambda view: view.phase is Phase.SERVING and view.fault is None),
    ),
    Family(
        "tierlog_log_directory_broken",
        "gauge",
        "1 after a write or fsync failed: nothing is accepted until a restart.",
        once(lambda view: view.node.directory.broken is not None),
    ),
    Family("tierlog_topics", "gauge", "Topics.", once(lambda view: len(view.node.topics))),
    Family(
        "tierlog_partitions",
        "gauge",
        "Partitions that this node leads.",
        once(lambda view: view.node.topics.partition_count()),
    ),
    Family(
        "tierlog_loop_lag_seconds",
        "histogram",
        "How late the event loop serves a timer, sampled ten times a second. Every request waits "
        "that long.",
        once(lambda view: view.node.stats.loop_lag),
    ),
)

REQUESTS: Final = (
    Family(
        "tierlog_requests_total",
        "counter",
        "Requests taken, by Kafka API.",
        by_api(lambda stats: stats.requests),
        ("api",),
    ),
    Family(
        "tierlog_request_errors_total",
        "counter",
        "Requests that could not be understood and ended their connection, by Kafka API.",
        by_api(lambda stats: stats.errors),
        ("api",),
    ),
    Family(
        "tierlog_request_seconds",
        "histogram",
        "From the request to its answer, by Kafka API. A fetch includes its long poll, a produce "
        "its wait for durability.",
        by_api(lambda stats: stats.seconds),
        ("api",),
    ),
    Family(
        "tierlog_pending_requests",
        "gauge",
        "Requests taken and not answered yet; long polls are among them.",
        listening(lambda listener: listener.pending_requests),
    ),
    Family(
        "tierlog_failed_requests_total",
        "counter",
        "Requests that failed by a fault of the node; its log names each.",
        listening(lambda listener: listener.traffic.failed_requests),
    ),
)

CONNECTIONS: Final = (
    Family(
        "tierlog_connections",
        "gauge",
        "Connections of Kafka clients.",
        listening(lambda listener: listener.traffic.open_count),
    ),
    Family(
        "tierlog_connections_accepted_total",
        "counter",
        "Connections that were let in.",
        listening(lambda listener: listener.traffic.accepted),
    ),
    Family(
        "tierlog_connections_refused_total",
        "counter",
        "Connections turned away: max.connections or max.connections.per.ip is reached, or there "
        "is no file for them.",
        by_reason(
            node_full=lambda listener: listener.traffic.refused_node_full,
            ip_full=lambda listener: listener.traffic.refused_ip_full,
            no_files=lambda listener: listener.traffic.refused_no_files,
        ),
        ("reason",),
    ),
    Family(
        "tierlog_connections_closed_total",
        "counter",
        "Connections that the node ended: a size that cannot be (TLS and HTTP included), a bad "
        "request, no first request in time, idle, or stuck: in the middle of a request, or with "
        "replies that are not read.",
        by_reason(
            bad_frame=lambda listener: listener.traffic.closed_bad_frame,
            bad_request=lambda listener: listener.traffic.closed_by_service,
            handshake=lambda listener: listener.traffic.closed_handshake,
            idle=lambda listener: listener.traffic.closed_idle,
            stalled=lambda listener: listener.traffic.closed_stalled,
        ),
        ("reason",),
    ),
    Family(
        "tierlog_received_bytes_total",
        "counter",
        "Bytes received from Kafka clients, requests whole.",
        listening(lambda listener: listener.traffic.bytes_in),
    ),
    Family(
        "tierlog_sent_bytes_total",
        "counter",
        "Bytes sent to Kafka clients, responses whole.",
        listening(lambda listener: listener.traffic.bytes_out),
    ),
    Family(
        "tierlog_failed_sends_total",
        "counter",
        "Responses that could not be sent: their peer was gone.",
        listening(lambda listener: listener.traffic.failed_sends),
    ),
    Family(
        "tierlog_in_flight_bytes",
        "gauge",
        "Requests not answered and responses not sent, over all connections.",
        listening(lambda listener: listener.in_flight_bytes),
    ),
    Family(
        "tierlog_in_flight_bytes_max",
        "gauge",
        "Bytes in flight beyond which no further request is read.",
        listening(lambda listener: listener.budget.bytes_max),
    ),
    Family(
        "tierlog_waiting_connections",
        "gauge",
        "Connections that are not read because the bytes in flight are used up.",
        listening(lambda listener: listener.budget.waiting_count),
    ),
    Family(
        "tierlog_read_pauses_total",
        "counter",
        "How often a connection was not read for a while: a budget was used up, or its peer did "
        "not read.",
        listening(lambda listener: listener.traffic.pauses),
    ),
)

RECORDS: Final = (
    Family(
        "tierlog_produced_bytes_total",
        "counter",
        "Bytes of batches appended, as they came; deleted topics included.",
        topic_total("bytes_in"),
    ),
    Family(
        "tierlog_produced_records_total",
        "counter",
        "Records appended; deleted topics included.",
        topic_total("records_in"),
    ),
    Family(
        "tierlog_fetched_bytes_total",
        "counter",
        "Bytes of batches given to consumers; deleted topics included.",
        topic_total("bytes_out"),
    ),
    Family(
        "tierlog_produce_refusals_total",
        "counter",
        "Batches whose producer was told an error, by what was wrong: too large, out of order, no "
        "room on the disk and so on.",
        refusals,
        ("reason",),
    ),
    Family(
        "tierlog_throttles_total",
        "counter",
        "Produce requests whose answer was held back because the disk fills up.",
        once(lambda view: view.node.stats.throttles),
    ),
    Family(
        "tierlog_throttled_seconds_total",
        "counter",
        "Time for which they were held back.",
        once(lambda view: view.node.stats.throttled_ms / 1000),
    ),
    Family(
        "tierlog_throttle_seconds",
        "gauge",
        "How long the answer to a produce is held back at present.",
        once(lambda view: view.node.space.throttle_ms / 1000),
    ),
)

TOPICS: Final = (
    Family(
        "tierlog_topic_produced_bytes_total",
        "counter",
        "Bytes of batches appended to the topic.",
        by_topic(lambda topic: topic.stats.bytes_in),
        ("topic",),
    ),
    Family(
        "tierlog_topic_produced_records_total",
        "counter",
        "Records appended to the topic.",
        by_topic(lambda topic: topic.stats.records_in),
        ("topic",),
    ),
    Family(
        "tierlog_topic_fetched_bytes_total",
        "counter",
        "Bytes of the topic's batches given to consumers.",
        by_topic(lambda topic: topic.stats.bytes_out),
        ("topic",),
    ),
    Family(
        "tierlog_topic_produce_requests_total",
        "counter",
        "Produce requests that named the topic.",
        by_topic(lambda topic: topic.stats.produces),
        ("topic",),
    ),
    Family(
        "tierlog_topic_produce_errors_total",
        "counter",
        "Batches for the topic whose producer was told an error.",
        by_topic(lambda topic: topic.stats.produce_errors),
        ("topic",),
    ),
    Family(
        "tierlog_topic_fetch_requests_total",
        "counter",
        "Fetch requests answered that named the topic.",
        by_topic(lambda topic: topic.stats.fetches),
        ("topic",),
    ),
    Family(
        "tierlog_topic_partitions",
        "gauge",
        "Partitions of the topic.",
        by_topic(lambda topic: len(topic.partitions)),
        ("topic",),
    ),
    Family(
        "tierlog_topic_segments",
        "gauge",
        "Segments of the topic on the local disk.",
        by_topic(segment_count),
        ("topic",),
    ),
    Family(
        "tierlog_topic_log_bytes",
        "gauge",
        "Bytes of the topic's batches on the local disk.",
        by_topic(log_bytes),
        ("topic",),
    ),
)

DISK: Final = (
    Family(
        "tierlog_disk_free_bytes",
        "gauge",
        "Room on the disk of the log directory, as last seen (twice a second).",
        once(lambda view: view.node.space.free_bytes),
    ),
    Family(
        "tierlog_disk_total_bytes",
        "gauge",
        "Size of the disk of the log directory.",
        once(lambda view: view.node.env.disk.total_bytes(view.node.directory.path)),
    ),
    Family(
        "tierlog_disk_throttle_below_bytes",
        "gauge",
        "With less room than this, producers are slowed down.",
        once(lambda view: view.node.space.marks.throttle_bytes),
    ),
    Family(
        "tierlog_disk_hours_left",
        "gauge",
        "Hours until producers are refused for want of room, at the rate of the last minutes: "
        "while the store is away that of the producers, else that of the disk. +Inf while it does "
        "not fill up.",
        once(lambda view: view.node.hours_left),
    ),
    Family(
        "tierlog_disk_filling_bytes_per_second",
        "gauge",
        "That rate.",
        once(lambda view: view.node.filling.rate(is_draining=view.node.is_draining)),
    ),
    Family(
        "tierlog_disk_refuse_below_bytes",
        "gauge",
        "With less room than this, producing is refused.",
        once(lambda view: view.node.space.refused_below),
    ),
    Family(
        "tierlog_open_log_files",
        "gauge",
        "Files of segments that are open.",
        once(lambda view: len(view.node.directory.pool)),
    ),
    Family(
        "tierlog_sync_seconds",
        "histogram",
        "How long a sync job blocked: the fsync of a log's files, and now and then its checkpoint.",
        once(lambda view: view.node.stats.syncs),
    ),
    Family(
        "tierlog_pending_syncs",
        "gauge",
        "Logs with appends that wait for their sync job to begin.",
        once(lambda view: view.node.directory.syncs.pending_count),
    ),
    Family(
        "tierlog_running_syncs",
        "gauge",
        "Sync jobs under way.",
        once(lambda view: view.node.directory.syncs.running_count),
    ),
)

SECTIONS: Final = {
    "Node": NODE,
    "Requests": REQUESTS,
    "Connections": CONNECTIONS,
    "Records": RECORDS,
    "Topics": TOPICS,
    "Disk": DISK,
    "Groups": GROUPS,
    "Compaction": COMPACTION,
    "Object store": STORE,
    "Cold tier": COLD_TIER,
    "Tables": TABLES,
    "Cold topics": COLD_TOPICS,
    "Cold reads": COLD_READS,
}
FAMILIES: Final = tuple(family for section in SECTIONS.values() for family in section)
