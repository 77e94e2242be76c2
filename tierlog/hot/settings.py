"""Settings of one local log. Values, checked once; Kafka's names where Kafka has the thing."""

from dataclasses import dataclass

from tierlog.errors import TierlogError

RELATIVE_OFFSET_MAX = 2**31 - 1  # Kafka reads the index column as a signed 32-bit number.
FLUSH_NEVER = 2**63 - 1


class InvalidSetting(TierlogError):
    """A setting is out of its range. The sentence names it and the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    segment_bytes: int = 128 << 20
    """Small enough that the disk holds little, large enough for cheap uploads."""
    segment_ms: int = 3_600_000
    """Wall clock since a segment's first append, so that slow topics are sealed too."""
    index_interval_bytes: int = 4096
    """Log bytes between two index entries; Kafka's default."""
    flush_messages: int = 1
    """1: a record is visible once fsynced. Larger: Kafka's habit, the page cache counts."""
    flush_ms: int = FLUSH_NEVER
    """How long an append may wait for a sync to be asked for; counts where the page cache does."""
    log_append_time: bool = False
    """message.timestamp.type=LogAppendTime: the broker stamps batches as they arrive."""
    contiguous: bool = True
    """Offsets have no gaps inside a segment. False for compacted topics."""
    producer_expiration_ms: int = 86_400_000
    checkpoint_bytes: int = 32 << 20
    """Appended bytes between two checkpoints: what a restart after a crash must scan at most."""

    def __post_init__(self) -> None:
        require("segment.bytes", self.segment_bytes, at_least=1024, at_most=1 << 30)
        require("segment.ms", self.segment_ms, at_least=1, at_most=FLUSH_NEVER)
        require("index.interval.bytes", self.index_interval_bytes, at_least=0, at_most=1 << 30)
        require("flush.messages", self.flush_messages, at_least=1, at_most=FLUSH_NEVER)
        require("flush.ms", self.flush_ms, at_least=0)
        require("producer.id.expiration.ms", self.producer_expiration_ms, at_least=1)
        require("checkpoint.bytes", self.checkpoint_bytes, at_least=1)


def require(name: str, value: int, *, at_least: int, at_most: int = FLUSH_NEVER) -> None:
    if not at_least <= value <= at_most:
        raise InvalidSetting(f"{name} is {value}; it must lie in [{at_least}, {at_most}]")
