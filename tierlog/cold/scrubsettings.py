"""How often the scrubber looks at what. Good for all nodes, but for the time in which every byte is
read: it has its price where a store bills retrieval, and is a node's to choose."""

from dataclasses import dataclass

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubSettings:
    manifest_period_ms: int = DAY_MS
    object_period_ms: int = 7 * DAY_MS
    byte_period_ms: int = 90 * DAY_MS
    """`tierlog.scrub.byte.period.ms`."""
    probe_period_ms: int = 3_600_000
    """75 requests each."""
    bytes_per_second: float = 64 << 20
    """While an object is read; the mean is a ninetieth of everything a day."""
    sum_period_ms: int = 60_000
    """How long sums over all partitions are believed, and the longest wait for something new."""
    save_period_ms: int = 60_000
    """Between two writes of where it stands: so much is looked at again after a crash."""

    def period_ms(self, name: str) -> int:
        """Of a round."""
        return {
            "manifests": self.manifest_period_ms,
            "objects": self.object_period_ms,
            "bytes": self.byte_period_ms,
        }[name]


SETTINGS = ScrubSettings()
