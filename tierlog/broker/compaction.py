"""Which logs of a node are compacted, and what their topics ask for. `hot/cleaner.py` does it.

Asked anew with every look: topics come and go, and their rules change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.hot.cleaner import Candidate, CleanerSettings
from tierlog.hot.dirt import CleaningRules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.broker.topics import Topics
    from tierlog.config import NodeSettings, TopicConfig


def compacted(topics: Topics) -> Iterator[Candidate]:
    for topic in topics:
        if "compact" not in topic.config.cleanup_policy:
            continue
        rules = rules_of(topic.config)
        for partition in topic.partitions:
            yield Candidate(f"{topic.name}-{partition.index}", partition.log, rules)


def rules_of(config: TopicConfig) -> CleaningRules:
    return CleaningRules(
        min_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_lag_ms=config.min_compaction_lag_ms,
        max_lag_ms=config.max_compaction_lag_ms,
        delete_retention_ms=config.delete_retention_ms,
    )


def cleaner_settings(settings: NodeSettings) -> CleanerSettings:
    return CleanerSettings(
        dedupe_bytes=settings.log_cleaner_dedupe_buffer_size,
        bytes_per_second=settings.log_cleaner_io_max_bytes_per_second,
        backoff_ms=settings.log_cleaner_backoff_ms,
    )
