"""What the cold tier counts. Plain numbers, for metrics and for people."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class TierStats:
    """Of a whole node, since it started."""

    uploaded_bytes: int = 0
    """Of objects that the store answered for."""
    uploaded_segments: int = 0
    publish_count: int = 0
    dropped_bytes: int = 0
    dropped_segments: int = 0
    lost_objects: int = 0
    """Times that a published object was found missing or wrong before its local copy went."""
    put_back_objects: int = 0
    """Of those, the ones that were sent again, byte for byte."""
    merged_segments: int = 0
    """Small segments that went into larger objects."""
    merged_objects: int = 0
    """The larger objects."""
    merged_bytes: int = 0
    """Of the larger objects: what merging has written, beside uploads."""
    merge_refusals: int = 0
    """Merges that were given up, for what their sources turned out to be."""
    expired_segments: int = 0
    """That became garbage, by retention or DeleteRecords."""
    expired_bytes: int = 0
    collected_objects: int = 0
    """Deleted from the bucket after their grace."""
    collected_bytes: int = 0
    """Of the segments among them."""
    receipt_count: int = 0
    failure_count: int = 0
    """Tries that did not succeed, of whatever kind."""
    probe_count: int = 0
    swept_topics: int = 0
    """Deleted topics of which nothing is left in the bucket."""
    swept_objects: int = 0
    swept_bytes: int = 0
    orphan_objects: int = 0
    """As of the last look at each partition: old enough, and no manifest knows them."""
    orphan_bytes: int = 0
    collected_orphans: int = 0
    collected_orphan_bytes: int = 0
    aborted_uploads: int = 0
    """Multipart uploads that somebody left behind."""
    scrubbed_manifests: int = 0
    """Walked from HEAD to the last page."""
    scrubbed_objects: int = 0
    """That the store was asked for."""
    scrubbed_bytes: int = 0
    """Of objects that were read to their end."""
    scrub_findings: int = 0
    """Damages that were seen, repaired or not."""
    scrub_repairs: int = 0
    """Objects, pages and HEADs that were put back."""


@dataclass(slots=True, kw_only=True)
class PartitionStatus:
    """Of one partition, as of the last look."""

    backlog_bytes: int = 0
    """Sealed and not cold yet."""
    backlog_segments: int = 0
    lag_ms: int = 0
    """Since the first append of the oldest segment that is not cold; 0 if all are."""
    last_error: str | None = None
    """None once it went well again."""
    failure_count: int = 0
    """In a row."""
    garbage_error: str | None = None
    """Why the store keeps what it was to delete; uploads do not wait for it."""
