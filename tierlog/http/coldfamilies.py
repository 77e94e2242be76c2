"""The families of the cold tier: the store, the uploads, the topics. As `families`."""

from __future__ import annotations

from typing import Final

from tierlog.http.coldreadings import (
    backlog_of,
    by_request,
    by_tiered_topic,
    cold_bytes,
    cold_segments,
    failing_count,
    fenced_count,
    late_count,
    of_scrubber,
    of_tier,
)
from tierlog.http.family import Family
from tierlog.http.readings import once

STORE: Final = (
    Family(
        "tierlog_store_requests_total",
        "counter",
        "Requests to the object store, by kind. Each try counts.",
        by_request(lambda kind: kind.requests),
        ("kind",),
    ),
    Family(
        "tierlog_store_bytes_total",
        "counter",
        "Bytes of objects written or read, by kind of request.",
        by_request(lambda kind: kind.bytes),
        ("kind",),
    ),
    Family(
        "tierlog_store_errors_total",
        "counter",
        "Requests that were refused or had no clear answer, by kind. What is not there is no "
        "error.",
        by_request(lambda kind: kind.errors),
        ("kind",),
    ),
    Family(
        "tierlog_store_throttles_total",
        "counter",
        "Those of the errors by which the store asked for fewer requests.",
        by_request(lambda kind: kind.throttled),
        ("kind",),
    ),
    Family(
        "tierlog_store_lost_writes_total",
        "counter",
        "Conditional writes that somebody else had won. A few come from retries; many mean that "
        "two nodes write.",
        by_request(lambda kind: kind.lost),
        ("kind",),
    ),
    Family(
        "tierlog_store_seconds_total",
        "counter",
        "Time that requests took, by kind.",
        by_request(lambda kind: kind.seconds),
        ("kind",),
    ),
    Family(
        "tierlog_store_repetitions_refused_total",
        "counter",
        "Requests that failed and were not sent again, since too many had failed before.",
        once(lambda view: 0 if view.retry_quota is None else view.retry_quota.refused),
    ),
)

COLD_TIER: Final = (
    Family(
        "tierlog_tier_ready",
        "gauge",
        "1 while the store passed its probe and answers; 0 while uploads wait for it, and without "
        "a store.",
        of_tier(lambda tier: tier.is_ready),
    ),
    Family(
        "tierlog_tier_refused",
        "gauge",
        "1 once nothing is uploaded or dropped until a restart: the store breaks its promises, or "
        "the bucket belongs to another life of the cluster.",
        of_tier(lambda tier: tier.refusal is not None),
    ),
    Family(
        "tierlog_tier_probes_total",
        "counter",
        "Tries to find out whether the store answers and keeps its promises.",
        of_tier(lambda tier: tier.stats.probe_count),
    ),
    Family(
        "tierlog_tier_failures_total",
        "counter",
        "Tries to upload, publish, drop or probe that did not succeed.",
        of_tier(lambda tier: tier.stats.failure_count),
    ),
    Family(
        "tierlog_tier_partitions",
        "gauge",
        "Partitions that are tiered.",
        of_tier(lambda tier: len(tier.partitions)),
    ),
    Family(
        "tierlog_tier_failing_partitions",
        "gauge",
        "Tiered partitions whose last try failed; `/state` has their errors.",
        of_tier(failing_count),
    ),
    Family(
        "tierlog_tier_fenced_partitions",
        "gauge",
        "Partitions that take no more records, since another process publishes them: two nodes "
        "run on copies of one data directory, or a newer leader has taken over. 0, always.",
        of_tier(fenced_count),
    ),
    Family(
        "tierlog_tier_late_partitions",
        "gauge",
        "Partitions that are not open: their log is gone, and the store has not said yet where "
        "it ended.",
        once(late_count),
    ),
    Family(
        "tierlog_tier_backlog_bytes",
        "gauge",
        "Bytes that are sealed and not in the store yet.",
        of_tier(lambda tier: backlog_of(tier).bytes),
    ),
    Family(
        "tierlog_tier_backlog_segments",
        "gauge",
        "Segments that are sealed and not in the store yet.",
        of_tier(lambda tier: backlog_of(tier).segments),
    ),
    Family(
        "tierlog_tier_upload_lag_seconds",
        "gauge",
        "Age of the oldest record that is not in the store, over all topics.",
        of_tier(lambda tier: backlog_of(tier).lag_ms / 1000),
    ),
    Family(
        "tierlog_tier_uploaded_bytes_total",
        "counter",
        "Bytes of segment objects that the store answered for.",
        of_tier(lambda tier: tier.stats.uploaded_bytes),
    ),
    Family(
        "tierlog_tier_uploaded_segments_total",
        "counter",
        "Segments that were uploaded.",
        of_tier(lambda tier: tier.stats.uploaded_segments),
    ),
    Family(
        "tierlog_tier_publishes_total",
        "counter",
        "Manifests published with new segments; one may take several.",
        of_tier(lambda tier: tier.stats.publish_count),
    ),
    Family(
        "tierlog_tier_dropped_bytes_total",
        "counter",
        "Bytes that left the local disk because the store has them.",
        of_tier(lambda tier: tier.stats.dropped_bytes),
    ),
    Family(
        "tierlog_tier_dropped_segments_total",
        "counter",
        "Segments that left the local disk because the store has them.",
        of_tier(lambda tier: tier.stats.dropped_segments),
    ),
    Family(
        "tierlog_tier_merged_segments_total",
        "counter",
        "Small segments in the store that went into larger objects.",
        of_tier(lambda tier: tier.stats.merged_segments),
    ),
    Family(
        "tierlog_tier_merged_objects_total",
        "counter",
        "The larger objects that they went into.",
        of_tier(lambda tier: tier.stats.merged_objects),
    ),
    Family(
        "tierlog_tier_merged_bytes_total",
        "counter",
        "Bytes of these objects: what merging has written beside the uploads.",
        of_tier(lambda tier: tier.stats.merged_bytes),
    ),
    Family(
        "tierlog_tier_merge_refusals_total",
        "counter",
        "Merges that were given up: the segments expired meanwhile, or are not as they were "
        "published.",
        of_tier(lambda tier: tier.stats.merge_refusals),
    ),
    Family(
        "tierlog_tier_lost_objects_total",
        "counter",
        "Times that a published object was missing or wrong in the store when its local copy was "
        "to go; the copy stays until the object is back. 0, always.",
        of_tier(lambda tier: tier.stats.lost_objects),
    ),
    Family(
        "tierlog_tier_put_back_objects_total",
        "counter",
        "Those of them that were sent again from the local copy, byte for byte.",
        of_tier(lambda tier: tier.stats.put_back_objects),
    ),
    Family(
        "tierlog_tier_expired_segments_total",
        "counter",
        "Segments whose records retention or DeleteRecords took, and whose objects go after "
        "their grace.",
        of_tier(lambda tier: tier.stats.expired_segments),
    ),
    Family(
        "tierlog_tier_expired_bytes_total",
        "counter",
        "Bytes of their objects.",
        of_tier(lambda tier: tier.stats.expired_bytes),
    ),
    Family(
        "tierlog_tier_collected_objects_total",
        "counter",
        "Objects that were deleted from the store after their grace: segments and pages.",
        of_tier(lambda tier: tier.stats.collected_objects),
    ),
    Family(
        "tierlog_tier_collected_bytes_total",
        "counter",
        "Bytes of the segments among them.",
        of_tier(lambda tier: tier.stats.collected_bytes),
    ),
    Family(
        "tierlog_tier_receipts_total",
        "counter",
        "Receipts written for deletions.",
        of_tier(lambda tier: tier.stats.receipt_count),
    ),
    Family(
        "tierlog_tier_deleted_topics_waiting",
        "gauge",
        "Deleted topics whose objects are still in the store: within tierlog.garbage.grace.ms, "
        "held, or kept by the store.",
        of_tier(lambda tier: len(tier.sweeper.waiting)),
    ),
    Family(
        "tierlog_tier_sweep_troubles",
        "gauge",
        "Those of them that could not be swept at the last try; `/state` says why.",
        of_tier(lambda tier: len(tier.sweeper.troubles)),
    ),
    Family(
        "tierlog_tier_swept_topics_total",
        "counter",
        "Deleted topics of which nothing is left in the store.",
        of_tier(lambda tier: tier.stats.swept_topics),
    ),
    Family(
        "tierlog_tier_swept_objects_total",
        "counter",
        "Objects of deleted topics that were deleted from the store.",
        of_tier(lambda tier: tier.stats.swept_objects),
    ),
    Family(
        "tierlog_tier_swept_bytes_total",
        "counter",
        "Bytes of those objects.",
        of_tier(lambda tier: tier.stats.swept_bytes),
    ),
    Family(
        "tierlog_tier_orphan_objects",
        "gauge",
        "Objects older than a day that no manifest knows, as of the last weekly look at each "
        "partition. They are collected when they are seen again a week later.",
        of_tier(lambda tier: tier.stats.orphan_objects),
    ),
    Family(
        "tierlog_tier_orphan_bytes",
        "gauge",
        "Bytes of those objects.",
        of_tier(lambda tier: tier.stats.orphan_bytes),
    ),
    Family(
        "tierlog_tier_unknown_topics",
        "gauge",
        "Topic ids with objects in the store that the cluster does not know. They are left alone.",
        of_tier(lambda tier: len(tier.orphans.unknown)),
    ),
    Family(
        "tierlog_tier_collected_orphans_total",
        "counter",
        "Orphans that were deleted from the store.",
        of_tier(lambda tier: tier.stats.collected_orphans),
    ),
    Family(
        "tierlog_tier_collected_orphan_bytes_total",
        "counter",
        "Bytes of those orphans.",
        of_tier(lambda tier: tier.stats.collected_orphan_bytes),
    ),
    Family(
        "tierlog_tier_aborted_uploads_total",
        "counter",
        "Multipart uploads that somebody left behind and that were aborted.",
        of_tier(lambda tier: tier.stats.aborted_uploads),
    ),
    Family(
        "tierlog_scrub_findings",
        "gauge",
        "Damages in the store that the scrubber knows of and could not repair; `/state` has them. "
        "0, always.",
        of_scrubber(lambda scrubber: len(scrubber.findings)),
    ),
    Family(
        "tierlog_scrub_damages_total",
        "counter",
        "Damages that the scrubber found and could not repair at once.",
        of_tier(lambda tier: tier.stats.scrub_findings),
    ),
    Family(
        "tierlog_scrub_repairs_total",
        "counter",
        "Objects, pages and manifests that the store had lost or damaged and the scrubber put "
        "back. 0, always.",
        of_tier(lambda tier: tier.stats.scrub_repairs),
    ),
    Family(
        "tierlog_scrub_manifests_total",
        "counter",
        "Manifests that were walked whole; each once a day.",
        of_tier(lambda tier: tier.stats.scrubbed_manifests),
    ),
    Family(
        "tierlog_scrub_objects_total",
        "counter",
        "Objects that the store was asked for; each once a week.",
        of_tier(lambda tier: tier.stats.scrubbed_objects),
    ),
    Family(
        "tierlog_scrub_bytes_total",
        "counter",
        "Bytes of objects that were read to their end and compared; each once in "
        "`tierlog.scrub.byte.period.ms`.",
        of_tier(lambda tier: tier.stats.scrubbed_bytes),
    ),
)

COLD_TOPICS: Final = (
    Family(
        "tierlog_topic_upload_lag_seconds",
        "gauge",
        "Age of the oldest record that is not in the store, the largest of the topic's "
        "partitions. Rises up to segment.ms or tierlog.upload.lag.max.ms in the best of times.",
        by_tiered_topic(lambda tiered: max(one.status.lag_ms for one in tiered) / 1000),
        ("topic",),
    ),
    Family(
        "tierlog_topic_upload_backlog_bytes",
        "gauge",
        "Bytes of the topic that are sealed and not in the store yet.",
        by_tiered_topic(lambda tiered: sum(one.status.backlog_bytes for one in tiered)),
        ("topic",),
    ),
    Family(
        "tierlog_topic_upload_backlog_segments",
        "gauge",
        "Segments of the topic that are sealed and not in the store yet.",
        by_tiered_topic(lambda tiered: sum(one.status.backlog_segments for one in tiered)),
        ("topic",),
    ),
    Family(
        "tierlog_topic_cold_bytes",
        "gauge",
        "Bytes of the topic's segment objects in the store, as its manifests say.",
        by_tiered_topic(cold_bytes),
        ("topic",),
    ),
    Family(
        "tierlog_topic_cold_segments",
        "gauge",
        "Segments of the topic in the store, as its manifests say.",
        by_tiered_topic(cold_segments),
        ("topic",),
    ),
)
