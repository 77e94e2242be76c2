"""Families of metrics about the compaction of topics; see `families.py`."""

from __future__ import annotations

from typing import Final

from tierlog.http.family import Family
from tierlog.http.readings import once

COMPACTION: Final = (
    Family(
        "tierlog_cleaner_cleanings_total",
        "counter",
        "Logs of compacted topics that were cleaned, each as often as it was.",
        once(lambda view: view.node.cleaner.stats.cleanings),
    ),
    Family(
        "tierlog_cleaner_read_bytes_total",
        "counter",
        "Bytes of the segments that were written anew.",
        once(lambda view: view.node.cleaner.stats.read_bytes),
    ),
    Family(
        "tierlog_cleaner_written_bytes_total",
        "counter",
        "Bytes that became of them: the rest was freed.",
        once(lambda view: view.node.cleaner.stats.written_bytes),
    ),
    Family(
        "tierlog_cleaner_dropped_records_total",
        "counter",
        "Records that were replaced by a later one of their key, or were tombstones of an age.",
        once(lambda view: view.node.cleaner.stats.dropped_records),
    ),
    Family(
        "tierlog_cleaner_dirty_ratio_max",
        "gauge",
        "The dirty share of the dirtiest log, of what may be cleaned now, as last seen.",
        once(lambda view: view.node.cleaner.stats.dirty_ratio_max),
    ),
    Family(
        "tierlog_cleaner_failures_total",
        "counter",
        "Cleanings that failed, for want of room or at a damaged batch; /state has the last "
        "reason. Nothing is lost: the log stays as it was.",
        once(lambda view: view.node.cleaner.stats.failures),
    ),
    Family(
        "tierlog_cleaner_running",
        "gauge",
        "1 while a log is being cleaned.",
        once(lambda view: view.node.cleaner.stats.cleaning != ""),
    ),
)
