"""Where the bucket is, and how much is asked of it at once."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """Keys are for tests and tools; a node finds its own by the usual AWS chain.

    Three lanes of threads, each with its own bound, so that a replay does not delay an upload and
    neither delays a manifest. Together they bound the connections.
    """

    endpoint: str = ""
    """URL of a service other than AWS. Buckets are then part of the path."""
    region: str = ""
    """Not set: the AWS chain's, else us-east-1, which is what other services call themselves."""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)

    reads_max: int = 8
    """Ranges in flight. Four fill a local store; a far one wants more."""
    writes_max: int = 4
    """Segments and parts in flight."""
    small_max: int = 8
    """Manifests, listings, deletions in flight."""

    connect_s: float = 3.0
    silence_s: float = 10.0
    """The longest wait for the next byte. SeaweedFS keeps losers of a race waiting for seconds."""
    call_s: float = 30.0
    """The longest call with nothing to carry. Bytes add to it, by `bytes_per_s_min`."""
    bytes_per_s_min: int = 1 << 20
    """A connection that carries less than this is given up."""

    def __post_init__(self) -> None:
        if min(self.reads_max, self.writes_max, self.small_max) < 1:
            raise ValueError("each lane needs a thread")
        if bool(self.access_key) != bool(self.secret_key):
            raise ValueError("an access key and its secret come together")
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError(f"'{self.endpoint}' is not the URL of a service")

    def limit_s(self, size: int) -> float:
        """How long a call that carries `size` bytes may take."""
        return self.call_s + size / self.bytes_per_s_min
