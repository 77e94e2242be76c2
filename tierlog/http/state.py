"""`/state`: the node in numbers, as JSON, for the command line and for people.

Everything down to the partition, which metrics leave out. Topics are written a few at a time, then
the loop has its turn: each topic is of one moment, the whole of several.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from tierlog.http.message import Request, Response
from tierlog.http.readings import api_name

if TYPE_CHECKING:
    from tierlog.broker.partition import Partition
    from tierlog.broker.topics import Topic
    from tierlog.http.view import NodeView

PARTITIONS_A_TURN: Final = 500
"""About three milliseconds."""


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
            texts.append(json.dumps(described_topic(topic)))
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
        "disk": disk(view),
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
        "refuse_below_bytes": marks.refuse_bytes,
        "is_refusing": node.space.is_refusing,
        "throttle_ms": node.space.throttle_ms,
        "open_files": len(node.directory.pool),
        "syncs_pending": node.directory.syncs.pending_count,
        "syncs_running": node.directory.syncs.running_count,
    }


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


def described_topic(topic: Topic) -> dict[str, object]:
    stats = topic.stats
    return {
        "name": topic.name,
        "id": topic.id.hex(),
        "produced_bytes": stats.bytes_in,
        "produced_records": stats.records_in,
        "fetched_bytes": stats.bytes_out,
        "partitions": [described_partition(partition) for partition in topic.partitions],
    }


def described_partition(partition: Partition) -> dict[str, int]:
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
        "segments": len(log.segments),
        "bytes": log.size_bytes,
    }
