"""`tierlog node`: the state of one node, as its HTTP side tells it.

Nothing of Kafka's protocol: what a node knows of itself, its disk and its traffic, no client can
ask for. `--json` prints the answer as it came.
"""

from http import HTTPStatus
from typing import Any

import typer

from tierlog.cli.asking import address_of, ask, no_node, parsed
from tierlog.cli.progress import show_bytes, show_seconds
from tierlog.cli.tables import print_table
from tierlog.config import Address

DAY_S = 86_400
HOURS_AS_MINUTES = 2
HOURS_AS_DAYS = 96
FAILING_MAX = 10
"""Partitions that are named with their error: one cause often holds for all."""
READERS_MAX = 10
"""Clients that are shown: those who read most."""


def show(place: str, *, as_json: bool) -> None:
    text, state = _answer(address_of(place))
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


def _answer(address: Address) -> tuple[str, dict[str, Any]]:
    status, text = ask(address, "/state")
    state = parsed(text)
    if status != HTTPStatus.OK or state is None or "node_id" not in state:
        raise no_node(address)
    return text, state


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
        ("READ-ONLY", read_only(state)),
        ("NOT OPEN", late(state)),
        ("scrub", scrub_line(state.get("tier"))),
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
    if disk["throttle_ms"]:
        line = f"{line}: slowed by {disk['throttle_ms']} ms now"
    return line + left_words(disk)


def left_words(disk: dict[str, Any]) -> str:
    """How long there is room, where the disk fills up."""
    hours = disk.get("hours_left")
    if hours is None:
        return ""
    rate = show_bytes(disk["filling_bytes_per_s"])
    return f"; {show_hours(hours)} left at {rate}/s"


def show_hours(hours: float) -> str:
    if hours < HOURS_AS_MINUTES:
        return f"{60 * hours:.0f} minutes"
    return f"{hours:.1f} hours" if hours < HOURS_AS_DAYS else f"{hours / 24:,.0f} days"


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
    if backlog := waiting(tier):
        numbers = f"{backlog}; {numbers}"
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
            "group": each.get("group", ""),
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


def waiting(tier: dict[str, Any]) -> str:
    """What is sealed and not in the store; nothing where nothing is."""
    backlog = tier.get("backlog") or {}
    if not backlog.get("segments"):
        return ""
    age = show_age(backlog["lag_ms"] / 1000)
    return (
        f"{show_bytes(backlog['bytes'])} in {backlog['segments']:,} segments wait, "
        f"the oldest for {age}"
    )


def read_only(state: dict[str, Any]) -> str:
    """Partitions that take no more records, by name."""
    found = [
        f"{each['name']}-{one['index']}: {one['fence']}"
        for each in state["topics"]
        for one in each["partitions"]
        if one.get("fence")
    ]
    more = f"; {len(found) - 1} more partitions" if len(found) > 1 else ""
    return f"{found[0]}{more}" if found else ""


def late(state: dict[str, Any]) -> str:
    """Partitions that are not open yet, by name."""
    found = [one["reason"] for each in state["topics"] for one in each.get("late_partitions", ())]
    more = f"; {len(found) - 1} more partitions" if len(found) > 1 else ""
    return f"{found[0]}{more}" if found else ""


def scrub_line(tier: dict[str, Any] | None) -> str:
    """What was looked at in the store since the start; first, what is damaged."""
    if tier is None or "scrub" not in tier:  # An older node.
        return ""
    scrub, done = tier["scrub"], tier["uploads"]
    numbers = (
        f"{done['scrubbed_manifests']:,} manifests, {done['scrubbed_objects']:,} objects and "
        f"{show_bytes(done['scrubbed_bytes'])} checked, {done['scrub_repairs']:,} repaired"
    )
    if not scrub["findings"]:
        return numbers
    first = scrub["named"][0]
    return (
        f"{scrub['findings']:,} DAMAGED, as {first['kind']} in {first['place']} "
        f"({first['key']}): {first['advice']}; {numbers}"
    )


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
