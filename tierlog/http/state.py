"""`/state`: the node in numbers, as JSON, for the command line and for people.

Everything down to the partition, which metrics leave out. Topics are written a few at a time, then
the loop has its turn: each topic is of one moment, the whole of several.
"""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from tierlog.http.coldreadings import backlog_of, segments_of
from tierlog.http.message import Request, Response
from tierlog.http.readings import api_name

if TYPE_CHECKING:
    from tierlog.broker.partition import Partition
    from tierlog.broker.tiering import Tiering
    from tierlog.broker.topics import Topic
    from tierlog.cold.tier import ColdTier
    from tierlog.cold.tieredpartition import TieredPartition
    from tierlog.fetchproxy.proxy import FetchProxy
    from tierlog.http.view import NodeView
    from tierlog.objectstore.counted import StoreStats

PARTITIONS_A_TURN: Final = 500
"""About three milliseconds."""

FINDINGS_NAMED = 20
"""Of those that the scrubber knows: one cause often makes many."""


class State:
    def __init__(self, view: NodeView) -> None:
        self._view = view

    async def handle(self, _: Request) -> Response:
        head = json.dumps(described(self._view))
        topics = await self._topics()
        text = f'{head[:-1]}, "topics": [{", ".join(topics)}]}}\n'
        return Response(body=text.encode(), content_type="application/json")

    async def _topics(self) -> list[str]:
        texts = []
        written = 0
        for topic in self._view.node.topics:
            texts.append(json.dumps(described_topic(topic, self._view.tiering)))
            written += len(topic.partitions) + 1
            if written >= PARTITIONS_A_TURN:
                written = 0
                await asyncio.sleep(0)
        return texts


def described(view: NodeView) -> dict[str, object]:
    """Everything but the topics."""
    node = view.node
    return {
        "node_id": node.node_id,
        "cluster_id": node.cluster_id,
        "version": view.version,
        "phase": view.phase.name.lower(),
        "fault": view.fault,
        "uptime_s": round(view.uptime_s, 3),
        "addresses": view.addresses,
        "store": view.store,
        "tier": tier(view),
        "disk": disk(view),
        "cleaner": asdict(node.cleaner.stats),
        "connections": connections(view),
        "requests": requests(view),
    }


def disk(view: NodeView) -> dict[str, object]:
    node = view.node
    path, marks = node.directory.path, node.space.marks
    return {
        "path": path,
        "free_bytes": node.space.free_bytes,
        "total_bytes": node.env.disk.total_bytes(path),
        "throttle_below_bytes": marks.throttle_bytes,
        "refuse_below_bytes": node.space.refused_below,
        "is_refusing": node.space.is_refusing or node.directory.is_full,
        "throttle_ms": node.space.throttle_ms,
        "filling_bytes_per_s": round(node.filling.rate(is_draining=node.is_draining)),
        "produced_bytes_per_s": round(node.filling.produced_rate),
        "hours_left": finite(node.hours_left),
        "open_files": len(node.directory.pool),
        "syncs_pending": node.directory.syncs.pending_count,
        "syncs_running": node.directory.syncs.running_count,
    }


def finite(number: float) -> float | None:
    """JSON knows no infinity: None."""
    return round(number, 3) if math.isfinite(number) else None


def connections(view: NodeView) -> dict[str, object]:
    listener = view.listener
    if listener is None:
        return {"open": 0}
    traffic = listener.traffic
    return {
        "open": traffic.open_count,
        "accepted": traffic.accepted,
        "refused": traffic.refused_node_full + traffic.refused_ip_full + traffic.refused_no_files,
        "in_flight_bytes": listener.in_flight_bytes,
        "pending_requests": listener.pending_requests,
        "received_bytes": traffic.bytes_in,
        "sent_bytes": traffic.bytes_out,
    }


def requests(view: NodeView) -> dict[str, dict[str, float]]:
    """By API; those that were asked at least once."""
    return {
        api_name(key): {
            "requests": stats.requests,
            "errors": stats.errors,
            "seconds": round(stats.seconds.total, 6),
        }
        for key, stats in sorted(view.node.stats.apis.items())
        if stats.requests
    }


def tier(view: NodeView) -> dict[str, object] | None:
    """The cold tier: whether the store answers, what was asked of it and what for."""
    if view.tiering is None:
        return None
    tier, proxy = view.tiering.tier, view.tiering.proxy
    return {
        "is_ready": tier.is_ready,
        "is_refused": tier.refusal is not None,
        "trouble": view.store_trouble,
        "backlog": backlog_of(tier)._asdict(),
        "uploads": asdict(tier.stats),
        "deleted_topics": deleted_topics(tier),
        "unknown_topics": list(tier.orphans.unknown),
        "scrub": scrub(view.tiering),
        "tables": asdict(view.tiering.tables.stats),
        "reads": asdict(proxy.stats),
        "reads_usd": proxy.price.of(gets=proxy.stats.gets, get_bytes=proxy.stats.get_bytes),
        "clients": clients(proxy),
        "cache_bytes": proxy.cache.ledger.used,
        "cache_bytes_max": proxy.cache.ledger.budget,
        "requests": {} if view.store_stats is None else asked_of(view.store_stats),
    }


def clients(proxy: FetchProxy) -> list[dict[str, object]]:
    """Who reads cold records, and what that took."""
    return [
        {
            "client": who.client,
            "group": who.group,
            **asdict(account),
            "usd": proxy.price.of(gets=account.gets, get_bytes=account.get_bytes),
        }
        for who, account in proxy.clients.items()
    ]


def deleted_topics(tier: ColdTier) -> list[dict[str, object]]:
    """Those whose objects are still in the store, and why they are not swept."""
    return [
        {
            "name": one.name,
            "id": topic_id,
            "deleted_ms": one.deleted_ms,
            "trouble": tier.sweeper.troubles.get(topic_id),
        }
        for topic_id, one in tier.sweeper.waiting.items()
    ]


def scrub(tiering: Tiering) -> dict[str, object]:
    """What the scrubber knows to be damaged, and how often it has been everywhere."""
    scrubber = tiering.scrubber
    found = list(scrubber.findings.values())
    return {
        "findings": len(found),
        "named": [
            {
                "kind": one.kind.value,
                "place": one.place,
                "key": one.key,
                "expected": one.expected,
                "found": one.found,
                "advice": one.advice,
            }
            for one in found[:FINDINGS_NAMED]
        ],
        "rounds": {name: one.finished for name, one in scrubber.rounds.items()},
    }


def asked_of(stats: StoreStats) -> dict[str, dict[str, float]]:
    """By kind; those that were asked at least once."""
    return {kind: asdict(one) for kind, one in stats.kinds.items() if one.requests}


def described_topic(topic: Topic, tiering: Tiering | None = None) -> dict[str, object]:
    stats = topic.stats
    known = {} if tiering is None else tiering.tier.partitions
    topic_id = topic.id.hex()
    return {
        "name": topic.name,
        "id": topic_id,
        "is_tiered": topic.config.remote_storage_enable,
        "produced_bytes": stats.bytes_in,
        "produced_records": stats.records_in,
        "fetched_bytes": stats.bytes_out,
        "partitions": [
            described_partition(one)
            | uploads_of(known.get((topic_id, one.index)))
            | table_of(tiering, (topic_id, one.index))
            for one in topic.opened
        ],
        "late_partitions": [
            {"index": one.index, "reason": str(one.late)}
            for one in topic.partitions
            if one.late is not None
        ],
    }


def uploads_of(tiered: TieredPartition | None) -> dict[str, object]:
    """What only a tiered partition has; as of the tier's last look."""
    if tiered is None:
        return {}
    head, status = tiered.prefix.head, tiered.status
    return {
        "cold_bytes": 0 if head is None else head.bytes,
        "cold_segments": 0 if head is None else segments_of(head),
        "backlog_bytes": status.backlog_bytes,
        "backlog_segments": status.backlog_segments,
        "upload_lag_ms": status.lag_ms,
        "upload_error": status.last_error,
        "garbage_error": status.garbage_error,
        "fence": None if tiered.prefix.fence is None else str(tiered.prefix.fence),
    }


def table_of(tiering: Tiering | None, key: tuple[str, int]) -> dict[str, object]:
    """What only a partition with a table has; as of its last conversion."""
    converter = None if tiering is None else tiering.tables.converters.get(key)
    if converter is None:
        return {}
    table = converter.table
    return {
        "table_start": -1 if table is None else table.table_start,
        "converted_end": -1 if table is None else table.converted_end,
        "table_rows": 0 if table is None else table.rows,
        "table_bytes": 0 if table is None else table.bytes,
        "table_dead_records": 0 if table is None else table.dead_records,
        "table_error": converter.last_error,
    }


def described_partition(partition: Partition) -> dict[str, object]:
    log = partition.log
    return {
        "index": partition.index,
        "leader_epoch": partition.leader_epoch,
        "log_start": partition.log_start,
        "local_start": log.log_start,
        "uploaded_end": -1 if partition.cold is None else partition.cold.uploaded_end,
        "high_watermark": partition.high_watermark,
        "log_end": log.log_end,
        "durable_end": log.durable_end,
        "cleaned_to": log.cleaned_to,
        "segments": len(log.segments),
        "bytes": log.size_bytes,
    }
