"""The settings of a client and of a producer, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tierlog.records.attributes import Codec
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.framing import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    client_id: str = "tierlog"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    """How long an answer may take. Kafka's default of request.timeout.ms."""
    deadline_s: float = 60.0
    """How long a call tries again. Kafka's default of default.api.timeout.ms."""
    backoff_s: float = 0.05
    backoff_max_s: float = 1.0
    metadata_age_s_max: float = 300.0
    frame_bytes_max: int = FRAME_BYTES_MAX
    versions_max: Mapping[ApiKey, int] = field(default_factory=dict)
    """The highest version to use of an API, below what both sides know."""
    auto_create_topics: bool = False
    """Whether asking for an unknown topic may create it."""

    def __post_init__(self) -> None:
        if min(self.connect_timeout_s, self.request_timeout_s, self.deadline_s) <= 0:
            raise ValueError("timeouts must be above zero")
        if not 0 < self.backoff_s <= self.backoff_max_s:
            raise ValueError("backoff_s must lie above zero and not above backoff_max_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    idempotent: bool = True
    acks: int = -1
    codec: Codec = Codec.NONE
    batch_bytes_max: int = 256 * 1024
    """A batch is complete at this size; one record larger than it goes alone."""
    linger_s: float = 0.0
    """How long a batch waits for company. At 0 it gathers while others are sent."""
    in_flight_max: int = 5
    """Batches of a partition under way. Brokers remember the last five of a producer, no more."""
    buffer_bytes_max: int = 32 * 1024 * 1024
    """`send` waits while more is unsettled."""
    delivery_timeout_s: float = 120.0
    """From `send` to the end of all retries. Kafka's default of delivery.timeout.ms."""
    append_timeout_ms: int = 20_000
    """How long the broker may wait for replicas; below the request timeout, so that it answers."""

    def __post_init__(self) -> None:
        if self.acks not in (-1, 0, 1):
            raise ValueError(f"acks must be -1, 0 or 1, not {self.acks}")
        if self.idempotent and self.acks != -1:
            raise ValueError(
                "an idempotent producer needs acks=-1: only then is an answer a promise"
            )
        if not 1 <= self.in_flight_max <= 5:
            raise ValueError(f"in_flight_max must be 1 to 5, not {self.in_flight_max}")
