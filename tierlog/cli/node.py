"""`tierlog node`: the state of one node, as its HTTP side tells it.

Nothing of Kafka's protocol: what a node knows of itself, its disk and its traffic, no client can
ask for. `--json` prints the answer as it came.
"""

import http.client
import json
from typing import Any

import typer

from tierlog.cli.failure import Refused, usage
from tierlog.cli.progress import show_bytes, show_seconds
from tierlog.cli.tables import print_table
from tierlog.config import Address, InvalidConfig, parse_address

ANSWER_S = 10.0
DAY_S = 86_400
FAILING_MAX = 10
"""Partitions that are named with their error: one cause often holds for all."""
READERS_MAX = 10
"""Clients that are shown: those who read most."""
ADVICE = "give --http the address that the node's ready line has after http="


def show(place: str, *, as_json: bool) -> None:
    text, state = _answer(http_address(place))
    if as_json:
        typer.echo(text.rstrip("\n"))
        return
    for line in summary(state):
        typer.echo(line)
    tables = request_rows(state), topic_rows(state), reader_rows(state), failing_rows(state)
    for rows in tables:
        if rows:
            typer.echo("")
            right = ("size", "cold", "lag", "produced", "fetched", "read", "from store", "wasted")
            print_table(rows, right=(*right, "usd"))


def http_address(place: str) -> Address:
    try:
        return parse_address(place.removeprefix("http://").rstrip("/"), name="--http", port_min=1)
    except InvalidConfig:
        raise usage(f"--http is '{place}'; it must be HOST:PORT, as 127.0.0.1:8080") from None


def _answer(address: Address) -> tuple[str, dict[str, Any]]:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/state")
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except http.client.HTTPException:  # First: that the peer hung up is an OSError as well.
        raise Refused(f"what answers at {address} speaks no HTTP; {ADVICE}") from None
    except OSError as error:
        raise nobody(address, error) from None
    finally:
        connection.close()
    state = _parsed(text)
    if answer.status != http.client.OK or state is None:
        raise Refused(f"what answers at {address} is no node of tierlog; {ADVICE}")
    return text, state


def nobody(address: Address, error: OSError) -> Refused:
    if isinstance(error, TimeoutError):
        why = "no answer in time"
    else:
        why = (error.strerror or str(error)).lower()
    return Refused(
        f"nothing answers at {address} ({why}); start a node with `tierlog serve --http {address}`"
        ", or name another address with --http"
    )


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return state if isinstance(state, dict) and "node_id" in state else None


# What people read


def summary(state: dict[str, Any]) -> list[str]:
    disk, connections = state["disk"], state["connections"]
    places = ", ".join(f"{name} {place}" for name, place in state["addresses"].items())
    lines = [
        ("node", f"{state['node_id']}, {state['phase']} for {show_age(state['uptime_s'])}"),
        ("fault", state["fault"]),
        ("version", state["version"]),
        ("cluster", state["cluster_id"]),
        ("addresses", places),
        ("data", disk["path"]),
        ("store", state["store"]),
        ("cold tier", tier_line(state.get("tier"))),
        ("cache", cache_line(state.get("tier"))),
        ("disk", disk_line(disk)),
        ("connections", connection_line(connections)),
    ]
    width = max(len(name) for name, _ in lines)
    return [f"{name:<{width}}  {text}" for name, text in lines if text]


def disk_line(disk: dict[str, Any]) -> str:
    """What is free, and at which marks that matters; what matters now comes last."""
    throttle, refuse = disk["throttle_below_bytes"], disk["refuse_below_bytes"]
    line = (
        f"{show_bytes(disk['free_bytes'])} of {show_bytes(disk['total_bytes'])} free; "
        f"writes are slowed below {show_bytes(throttle)}, refused below {show_bytes(refuse)}"
    )
    if disk["is_refusing"]:
        return f"{line}: REFUSED NOW"
    return f"{line}: slowed by {disk['throttle_ms']} ms now" if disk["throttle_ms"] else line


def tier_line(tier: dict[str, Any] | None) -> str:
    """What went to the store and came from it since the start; first, whether it answers."""
    if tier is None:
        return ""
    uploads, reads, requests = tier["uploads"], tier["reads"], tier["requests"].values()
    count, errors = (sum(one[name] for one in requests) for name in ("requests", "errors"))
    numbers = (
        f"{show_bytes(uploads['uploaded_bytes'])} uploaded, "
        f"{show_bytes(uploads['dropped_bytes'])} dropped locally, "
        f"{show_bytes(reads['read_bytes'])} read; {count:,} requests, {errors:,} failed"
    )
    return numbers if tier["trouble"] is None else f"{tier['trouble']}; {numbers}"


def cache_line(tier: dict[str, Any] | None) -> str:
    if tier is None:
        return ""
    reads = tier["reads"]
    used, limit = (show_bytes(tier.get(name, 0)) for name in ("cache_bytes", "cache_bytes_max"))
    return (
        f"{used} of {limit}; {reads.get('gets', 0):,} GETs for readers, "
        f"${tier.get('reads_usd', 0):.4f}; {show_bytes(reads.get('wasted_bytes', 0))} in vain"
    )


def reader_rows(state: dict[str, Any]) -> list[dict[str, object]]:
    """Clients that read cold records, by what they read."""
    tier = state.get("tier") or {}
    readers = sorted(tier.get("clients", ()), key=lambda one: -one["read_bytes"])
    return [
        {
            "cold reader": each["client"],
            "reads": each["reads"],
            "hits": each["hits"],
            "GETs": each["gets"],
            "read": show_bytes(each["read_bytes"]),
            "from store": show_bytes(each["get_bytes"]),
            "wasted": show_bytes(each["wasted_bytes"]),
            "usd": f"{each['usd']:.6f}",
        }
        for each in readers[:READERS_MAX]
        if each["reads"] or each["gets"]
    ]


def connection_line(connections: dict[str, Any]) -> str:
    if "accepted" not in connections:  # The node does not listen yet.
        return f"{connections['open']:,} open"
    return (
        f"{connections['open']:,} open, {connections['accepted']:,} accepted, "
        f"{connections['refused']:,} refused; {show_bytes(connections['received_bytes'])} received,"
        f" {show_bytes(connections['sent_bytes'])} sent"
    )


def request_rows(state: dict[str, Any]) -> list[dict[str, object]]:
    return [
        {
            "requests": name,
            "count": each["requests"],
            "errors": each["errors"],
            "mean_ms": 1000 * each["seconds"] / each["requests"],
        }
        for name, each in state["requests"].items()
        if each["requests"]
    ]


def topic_rows(state: dict[str, Any]) -> list[dict[str, object]]:
    """Traffic is since the start of the node; the rest is what is there."""
    is_tiered = state.get("tier") is not None
    return [
        {
            "topic": each["name"],
            "partitions": len(each["partitions"]),
            "segments": sum(one["segments"] for one in each["partitions"]),
            "offsets": sum(one["log_end"] - one["log_start"] for one in each["partitions"]),
            "size": show_bytes(sum(one["bytes"] for one in each["partitions"])),
            **(cold_columns(each["partitions"]) if is_tiered else {}),
            "produced": show_bytes(each["produced_bytes"]),
            "fetched": show_bytes(each["fetched_bytes"]),
        }
        for each in sorted(state["topics"], key=lambda topic: str(topic["name"]))
    ]


def cold_columns(partitions: list[dict[str, Any]]) -> dict[str, object]:
    """Bytes in the store, and how long the oldest record has waited to get there."""
    tiered = [one for one in partitions if "cold_bytes" in one]
    if not tiered:
        return {"cold": "", "lag": ""}
    return {
        "cold": show_bytes(sum(one["cold_bytes"] for one in tiered)),
        "lag": show_age(max(one["upload_lag_ms"] for one in tiered) / 1000),
    }


def failing_rows(state: dict[str, Any]) -> list[dict[str, object]]:
    """Partitions that are not uploaded, and why."""
    return [
        {
            "not uploaded": f"{each['name']}-{one['index']}",
            "waiting": show_bytes(one["backlog_bytes"]),
            "because": one["upload_error"],
        }
        for each in sorted(state["topics"], key=lambda topic: str(topic["name"]))
        for one in each["partitions"]
        if one.get("upload_error")
    ][:FAILING_MAX]


def show_age(seconds: float) -> str:
    """`0:12`, `1:02:03`, `3 days 4:05:06`."""
    days, rest = divmod(int(seconds), DAY_S)
    if not days:
        return show_seconds(rest)
    return f"{'1 day' if days == 1 else f'{days} days'} {show_seconds(rest)}"
