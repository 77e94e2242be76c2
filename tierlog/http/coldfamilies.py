"""The families of the cold tier: the store, the uploads, the topics, the reads. As `families`."""

from __future__ import annotations

from typing import Final

from tierlog.http.coldreadings import (
    by_client,
    by_request,
    by_tiered_topic,
    cold_bytes,
    cold_gets,
    cold_segments,
    failing_count,
    of_proxy,
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

COLD_READS: Final = (
    Family(
        "tierlog_cold_reads_total",
        "counter",
        "Reads of records that are only in the store, answered with records.",
        of_proxy(lambda proxy: proxy.stats.reads),
    ),
    Family(
        "tierlog_cold_reads_at_once_total",
        "counter",
        "Those of them that waited for nothing.",
        of_proxy(lambda proxy: proxy.stats.reads_at_once),
    ),
    Family(
        "tierlog_cold_read_bytes_total",
        "counter",
        "Bytes of batches that they gave.",
        of_proxy(lambda proxy: proxy.stats.read_bytes),
    ),
    Family(
        "tierlog_cold_chunk_hits_total",
        "counter",
        "Chunks that a read found in the cache.",
        of_proxy(lambda proxy: proxy.stats.chunk_hits),
    ),
    Family(
        "tierlog_cold_chunk_misses_total",
        "counter",
        "Chunks that a read waited for.",
        of_proxy(lambda proxy: proxy.stats.chunk_misses),
    ),
    Family(
        "tierlog_cold_gets_total",
        "counter",
        "GETs for cold reads, by what they fetched: a chunk, the first blocks for a new reader, "
        "or an index.",
        cold_gets,
        ("what",),
    ),
    Family(
        "tierlog_cold_readahead_gets_total",
        "counter",
        "Those of the GETs of chunks that nobody waited for yet.",
        of_proxy(lambda proxy: proxy.stats.ahead_gets),
    ),
    Family(
        "tierlog_cold_get_bytes_total",
        "counter",
        "Bytes that the GETs for cold reads brought.",
        of_proxy(lambda proxy: proxy.stats.get_bytes),
    ),
    Family(
        "tierlog_cold_get_errors_total",
        "counter",
        "GETs for cold reads that failed.",
        of_proxy(lambda proxy: proxy.stats.get_errors),
    ),
    Family(
        "tierlog_cold_corrupt_total",
        "counter",
        "Answers of the store that failed their checksum. None was served.",
        of_proxy(lambda proxy: proxy.stats.corrupt),
    ),
    Family(
        "tierlog_cold_reads_shared_total",
        "counter",
        "Reads that had the answer of another one for the same place.",
        of_proxy(lambda proxy: proxy.stats.reads_shared),
    ),
    Family(
        "tierlog_cold_reads_refused_total",
        "counter",
        "Reads that were put off since too many were under way.",
        of_proxy(lambda proxy: proxy.stats.reads_refused),
    ),
    Family(
        "tierlog_cold_reads_failed_total",
        "counter",
        "Reads that were answered with an error: the store does not give the bytes, or wrong ones.",
        of_proxy(lambda proxy: proxy.stats.reads_failed),
    ),
    Family(
        "tierlog_cold_reads_planned_anew_total",
        "counter",
        "Reads whose segment had been merged or had expired when its object was asked for.",
        of_proxy(lambda proxy: proxy.stats.planned_anew),
    ),
    Family(
        "tierlog_cold_gets_late_total",
        "counter",
        "GETs that waited for tierlog.cold.gets.per.second.",
        of_proxy(lambda proxy: proxy.stats.gets_late),
    ),
    Family(
        "tierlog_cold_wasted_bytes_total",
        "counter",
        "Bytes of chunks that left the cache before anybody had read of them.",
        of_proxy(lambda proxy: proxy.stats.wasted_bytes),
    ),
    Family(
        "tierlog_cold_unread_bytes",
        "gauge",
        "Bytes of chunks that are on their way to a reader, or here and not read to their end.",
        of_proxy(lambda proxy: proxy.loader.unread_bytes),
    ),
    Family(
        "tierlog_cold_not_cached_total",
        "counter",
        "Chunks that were served and not kept: no room, or they came faster than the disk writes.",
        of_proxy(lambda proxy: proxy.stats.not_cached),
    ),
    Family(
        "tierlog_cache_shared_bytes",
        "gauge",
        "Those of the cached bytes that several readers used: no replay evicts them.",
        of_proxy(lambda proxy: proxy.cache.ledger.shared_bytes),
    ),
    Family(
        "tierlog_cold_client_read_bytes_total",
        "counter",
        "Bytes of cold batches by client id; whoever is beyond the last hundred is `other`, and "
        "what a client counted moves there when it makes room.",
        by_client(lambda _, account: account.read_bytes),
        ("client",),
    ),
    Family(
        "tierlog_cold_client_gets_total",
        "counter",
        "GETs that began for a client.",
        by_client(lambda _, account: account.gets),
        ("client",),
    ),
    Family(
        "tierlog_cold_client_get_bytes_total",
        "counter",
        "Bytes that those GETs brought.",
        by_client(lambda _, account: account.get_bytes),
        ("client",),
    ),
    Family(
        "tierlog_cold_client_hits_total",
        "counter",
        "A client's reads that found their chunk here.",
        by_client(lambda _, account: account.hits),
        ("client",),
    ),
    Family(
        "tierlog_cold_client_wasted_bytes_total",
        "counter",
        "Bytes that were fetched for a client, and left before anybody had read of them.",
        by_client(lambda _, account: account.wasted_bytes),
        ("client",),
    ),
    Family(
        "tierlog_cold_client_usd_total",
        "counter",
        "What a client's GETs cost, by tierlog.price.get.usd and tierlog.price.get.gb.usd.",
        by_client(
            lambda proxy, account: proxy.price.of(gets=account.gets, get_bytes=account.get_bytes)
        ),
        ("client",),
    ),
    Family(
        "tierlog_cache_bytes",
        "gauge",
        "Disk space that cached chunks take.",
        of_proxy(lambda proxy: proxy.cache.ledger.used),
    ),
    Family(
        "tierlog_cache_bytes_max",
        "gauge",
        "Disk space that they may take: tierlog.cache.bytes.",
        of_proxy(lambda proxy: proxy.cache.ledger.budget),
    ),
    Family(
        "tierlog_cache_evicted_bytes_total",
        "counter",
        "Bytes that left the cache to make room.",
        of_proxy(lambda proxy: proxy.stats.evicted_bytes),
    ),
    Family(
        "tierlog_cache_dropped_total",
        "counter",
        "Cached files that failed their check and were fetched again.",
        of_proxy(lambda proxy: proxy.stats.dropped),
    ),
    Family(
        "tierlog_cold_memory_bytes",
        "gauge",
        "Memory of downloads under way and of chunks that no disk holds.",
        of_proxy(lambda proxy: proxy.memory_used),
    ),
)
