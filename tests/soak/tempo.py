"""How fast the lives of segments go by in a soak: every period of the tier, in one value.

Retention of minutes, as `LONG` has it, for hours; or all of it sixty times as fast, for a test of a
minute. What a node takes as a setting goes by `--set` and topic configs. The rest are constants of
the tier that are good for all nodes; `serve` replaces them in the node's own process.
"""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    # Of topics.
    retention_ms: int
    local_retention_ms: int
    upload_lag_ms: int
    segment_bytes: int
    # Of the node, by `--set`.
    grace_ms: int
    merge_interval_ms: int
    # Of the node, by `serve`.
    check_interval_ms: int
    backoff_ms_min: int
    backoff_ms_max: int
    sweep_retry_ms: int
    orphan_interval_ms: int
    orphan_age_ms: int
    orphan_requests_per_second: float
    scrub_manifests_ms: int
    scrub_bytes_ms: int
    table_interval_ms: int
    """Between two looks at what was published, and at which partitions there are."""
    table_retry_ms: int
    table_merge_files: int
    # Of the load.
    records_per_second: int
    """Of all partitions of a topic together."""
    value_bytes: int
    retention_bytes: int
    """Of the times when there is such a limit."""

    @property
    def node_sets(self) -> list[str]:
        return [
            f"tierlog.garbage.grace.ms={self.grace_ms}",
            f"tierlog.merge.interval.ms={self.merge_interval_ms}",
            f"tierlog.cache.bytes={16 * self.segment_bytes}",
            "auto.create.topics.enable=false",
        ]

    @property
    def topic_configs(self) -> dict[str, str]:
        return {
            "tierlog_table_enable": "true",
            "segment_bytes": str(self.segment_bytes),
            "retention_ms": str(self.retention_ms),
            "local_retention_ms": str(self.local_retention_ms),
            "tierlog_upload_lag_max_ms": str(self.upload_lag_ms),
        }

    @property
    def life_ms(self) -> int:
        """From a record's append until nothing is left of it, if nobody is late."""
        return self.retention_ms + self.upload_lag_ms + self.grace_ms + 4 * self.check_interval_ms

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def from_json(text: str) -> Tempo:
    return Tempo(**json.loads(text))


LONG = Tempo(
    retention_ms=120_000,
    local_retention_ms=18_000,
    upload_lag_ms=18_000,
    segment_bytes=1 << 20,
    grace_ms=24_000,
    merge_interval_ms=12_000,
    check_interval_ms=1_000,
    backoff_ms_min=1_000,
    backoff_ms_max=15_000,
    sweep_retry_ms=60_000,
    orphan_interval_ms=90_000,
    orphan_age_ms=30_000,
    orphan_requests_per_second=20.0,
    scrub_manifests_ms=60_000,
    scrub_bytes_ms=240_000,
    table_interval_ms=1_000,
    table_retry_ms=60_000,
    table_merge_files=4,
    records_per_second=400,
    value_bytes=1_000,
    retention_bytes=8 << 20,
)

SHORT = Tempo(
    retention_ms=1_500,
    local_retention_ms=300,
    upload_lag_ms=300,
    segment_bytes=16 << 10,
    grace_ms=400,
    merge_interval_ms=200,
    check_interval_ms=100,
    backoff_ms_min=100,
    backoff_ms_max=1_000,
    sweep_retry_ms=1_000,
    orphan_interval_ms=1_500,
    orphan_age_ms=500,
    orphan_requests_per_second=200.0,
    scrub_manifests_ms=2_000,
    scrub_bytes_ms=8_000,
    table_interval_ms=100,
    table_retry_ms=2_000,
    table_merge_files=3,
    records_per_second=200,
    value_bytes=200,
    retention_bytes=32 << 10,
)
