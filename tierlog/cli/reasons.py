"""The reasons of an explanation in words. Pure: JSON as the node answers it in, text out.

Times are of the reader's zone, and short: only the time for what is today, only the day for what is
more than a year away.
"""

from typing import Any

from tierlog.cli.progress import show_bytes
from tierlog.cli.times import show_second

DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS

WHERE = {
    "active": "active",
    "sealed": "disk only",
    "uploading": "disk only",
    "uploaded": "disk only",
    "published": "disk + bucket",
    "dropped": "bucket only",
    "expired": "expired",
    "merged": "merged away",
}
"""Where the bytes are; what is over stands as what it is."""

OBSTACLES = {
    "store refused": "not before a restart: the store is refused",
    "fenced": "fenced: another node publishes this partition",
    "store away": "store away{since}, tried again {at}",
    "state lost": "waits for cluster/STATE{since}, looked for again {at}",
    "failed": "failed, tried again {at}",
}
"""What holds for a whole partition; its details are told once."""
SENTENCES = {
    ("roll", "empty"): "empty",
    ("roll", "segment.ms"): "rolls {at} (segment.ms)",
    ("roll", "tierlog.upload.lag.max.ms"): "rolls {at} (tierlog.upload.lag.max.ms)",
    ("roll", "retention.ms"): "rolls {at} (retention.ms)",
    ("roll", "segment.bytes"): "rolls after {bytes} more (segment.bytes)",
    ("upload", "remote.storage.enable"): "not tiered (remote.storage.enable)",
    ("upload", "remote.log.copy.disable"): "not uploaded (remote.log.copy.disable)",
    ("upload", "sync"): "waits for its sync",
    ("upload", "high watermark"): "waits for the high watermark",
    ("upload", "turn"): "waits for its turn to be uploaded",
    ("upload", "under way"): "is being uploaded",
    ("publish", "under way"): "uploaded, is being published",
    ("drop", "local.retention.ms"): "on the disk until {last} (local.retention.ms)",
    ("drop", "local.retention.bytes"): "on the disk for {bytes} more (local.retention.bytes)",
    ("drop", "for ever"): "stays on the disk (local.retention.ms=-1)",
    ("drop", "fenced"): "stays on the disk: published by another node",
    ("expire", "retention.ms"): "expires {at} (retention.ms)",
    ("expire", "retention.bytes"): "expires after {bytes} more{about} (retention.bytes)",
    ("expire", "for ever"): "kept for ever (retention.ms=-1)",
    ("expire", "cleanup.policy"): "not expired (cleanup.policy)",
    ("expire", "hold"): "hold {detail} until released",
    ("expire", "behind a hold"): "kept behind hold {detail}",
    ("expire", "policy"): "expires once HEAD names the topic's retention",
    ("delete", "policy"): "garbage, deleted once HEAD names the topic's retention",
    ("delete", "hold"): "garbage, kept by hold {detail}",
    ("delete", "retain until"): "its object is locked until {at}",
    ("delete", "grace"): "{garbage}, deleted at the earliest {at}",
    ("delete", "below the log start"): "below the log start: garbage with the next check",
}


def shown(reasons: list[dict[str, Any]], *, store: dict[str, Any] | None, now_ms: int) -> str:
    """All that is to be said of a segment: `rolls in 12 min (segment.ms) or after 83 MB more`."""
    texts = [sentence(one, store=store, now_ms=now_ms) for one in reasons]
    rolls = [text for one, text in zip(reasons, texts, strict=True) if one["step"] == "roll"]
    others = [text for one, text in zip(reasons, texts, strict=True) if one["step"] != "roll"]
    if rolls:  # One verb for all of them.
        others.insert(
            0, " or ".join([rolls[0], *(one.removeprefix("rolls ") for one in rolls[1:])])
        )
    return "; ".join(others)


def sentence(reason: dict[str, Any], *, store: dict[str, Any] | None, now_ms: int) -> str:
    step, why = reason["step"], reason["why"]
    at_ms, left = reason["at_ms"], reason["bytes_left"]
    pattern = SENTENCES.get((step, why)) or OBSTACLES.get(why)
    if pattern is None:  # A newer node knows more reasons.
        return f"{step}: {why} {span(reason, now_ms)}".rstrip()
    if (step, left) == ("roll", 0):
        pattern = "rolls with the next batch ({why})"
    if reason["is_due"]:
        pattern = DUE.get(step, pattern)
    fields = {
        "at": span(reason, now_ms),
        "last": "" if at_ms is None else moment(reason["until_ms"] or at_ms, now_ms),
        "about": "" if at_ms is None else f", at the present rate {span(reason, now_ms)}",
        "bytes": "" if left is None else show_bytes(left),
        "detail": reason["detail"],
        "garbage": f"garbage ({reason['detail']})" if reason["detail"] else "garbage",
        "since": _since(store, now_ms),
        "rest": _rest(reason, now_ms),
        "why": why,
    }
    return pattern.format(**fields)


DUE = {
    "roll": "past {why}, expires after its roll and upload",
    "drop": "dropped locally with the next look{rest} ({why})",
    "expire": "expires with the next check{rest} ({why})",
    "delete": "{garbage}, deleted with the next collection{rest}",
}
"""What is due."""


def _rest(reason: dict[str, Any], now_ms: int) -> str:
    """Of several segments, when it happens to the last."""
    until_ms = reason["until_ms"]
    return f", the last {moment(until_ms, now_ms)}" if until_ms and until_ms > now_ms else ""


def _since(store: dict[str, Any] | None, now_ms: int) -> str:
    since_ms = None if store is None else store["away_since_ms"]
    return "" if since_ms is None or since_ms < 0 else f" since {moment(since_ms, now_ms)}"


def span(reason: dict[str, Any], now_ms: int) -> str:
    """When; of several segments, from when to when."""
    if reason["at_ms"] is None:
        return ""
    first = moment(reason["at_ms"], now_ms, step=reason["step"], why=reason["why"])
    until_ms = reason["until_ms"]
    if until_ms is None:
        return first
    last = moment(until_ms, now_ms)
    if first == last:
        return first
    day, _, time = last.rpartition(" ")
    return f"{first} to {time if day and first.startswith(day) else last}"


def moment(at_ms: int, now_ms: int, *, step: str = "", why: str = "") -> str:
    """`in 40 s` where that is what one wants to know, else a time."""
    if step == "roll" or why in OBSTACLES:
        return f"in {show_length(at_ms - now_ms)}"
    text = show_second(at_ms)
    if text.startswith("@"):
        return text
    day, time = text.split(" ")
    if day == show_second(now_ms).split(" ")[0]:
        return time if abs(at_ms - now_ms) < 120_000 else time[:5]
    return day if abs(at_ms - now_ms) > YEAR_MS else f"{day} {time[:5]}"


def show_length(ms: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`, `6 days 23 h`, `40 days`."""
    seconds = max(round(ms / 1000), 0)
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes and hours < 10 else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} days {hours} h" if hours and days < 10 else f"{days} days"
