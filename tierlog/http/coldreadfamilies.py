"""The families of cold reads: what readers got, what it took, and for whom. As `families`."""

from __future__ import annotations

from typing import Final

from tierlog.http.coldreadings import by_client, cold_gets, of_proxy
from tierlog.http.family import Family

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
        "GETs, and reads before them, that waited for tierlog.cold.gets.per.second or "
        "tierlog.cold.client.gets.per.second.",
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
        "Bytes of cold batches by client id and consumer group; whoever is beyond the last hundred "
        "is `other`, and what a client counted moves there when it makes room.",
        by_client(lambda _, account: account.read_bytes),
        ("client", "group"),
    ),
    Family(
        "tierlog_cold_client_gets_total",
        "counter",
        "GETs that began for a client.",
        by_client(lambda _, account: account.gets),
        ("client", "group"),
    ),
    Family(
        "tierlog_cold_client_get_bytes_total",
        "counter",
        "Bytes that those GETs brought.",
        by_client(lambda _, account: account.get_bytes),
        ("client", "group"),
    ),
    Family(
        "tierlog_cold_client_hits_total",
        "counter",
        "A client's reads that found their chunk here.",
        by_client(lambda _, account: account.hits),
        ("client", "group"),
    ),
    Family(
        "tierlog_cold_client_wasted_bytes_total",
        "counter",
        "Bytes that were fetched for a client, and left before anybody had read of them.",
        by_client(lambda _, account: account.wasted_bytes),
        ("client", "group"),
    ),
    Family(
        "tierlog_cold_client_usd_total",
        "counter",
        "What a client's GETs cost, by tierlog.price.get.usd and tierlog.price.get.gb.usd.",
        by_client(
            lambda proxy, account: proxy.price.of(gets=account.gets, get_bytes=account.get_bytes)
        ),
        ("client", "group"),
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
