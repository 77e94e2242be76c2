"""Settings of the tables of a node, and what is counted. Values."""

from dataclasses import dataclass

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    convert_bytes_max: int = 128 << 20
    """Small segments are converted together up to so many bytes of batches; a larger one alone."""
    convert_segments_max: int = 64
    bytes_per_second: float | None = 64 << 20
    """Of segments that are read to be converted, on the average: a backfill of years must leave the
    store and the network to others. None: no limit."""
    merge_bytes_max: int = 128 << 20
    """Small files are merged into files of so many bytes at most. 0: never."""
    merge_files_min: int = 8
    """Neighbours that are merged at once; fewer only where that makes a file of full size."""
    garbage_grace_ms: int = 24 * HOUR_MS
    retry_ms: int = 24 * HOUR_MS
    """Until sources that could not be read, or were not as published, are looked at again."""
    off_look_ms: int = HOUR_MS
    """Until a node looks for the first time whether a topic without a table once had one."""
    orphan_interval_ms: int = 7 * 24 * HOUR_MS
    orphan_age_ms: int = 24 * HOUR_MS
    interval_ms: int = 1_000
    """Between two looks at what was published."""
    follow_interval_ms: int = 5_000
    """Between two looks at which partitions there are, and whose time has come."""
    losses_max: int = 3
    """Workers that a segment may cost, or times that its object may be missing, before its offsets
    are dead letters and the table goes on."""


@dataclass(slots=True, kw_only=True)
class TableStats:
    """Of a whole node, since it started."""

    converted_files: int = 0
    converted_segments: int = 0
    converted_rows: int = 0
    converted_bytes: int = 0
    """Of batches that were read."""
    written_bytes: int = 0
    """Of Parquet files, merged ones as well."""
    dead_records: int = 0
    dead_batches: int = 0
    merged_files: int = 0
    """That went into larger ones."""
    remade_files: int = 0
    """That were lost or not as published, and made anew."""
    expired_files: int = 0
    collected_objects: int = 0
    collected_bytes: int = 0
    collected_orphans: int = 0
    wasted_conversions: int = 0
    """That somebody else published first."""
    lost_workers: int = 0
    failures: int = 0
    lag_records: int = 0
    """Cold and not in a table yet, as of the last look."""
    lag_bytes: int = 0
    lag_partitions: int = 0
