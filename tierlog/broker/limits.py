"""What a client may cost: sizes, times and counts, each with its reason."""

from dataclasses import dataclass

from tierlog.wire.framing import FRAME_BYTES_MAX

MIB = 1024 * 1024

REQUEST_ELEMENTS_MAX = 30_000
"""Topics, partitions and whatever else a request lists, all together; more ends the connection. A
client that names each of ten thousand partitions in a topic of its own stays below. Each takes some
ten microseconds until it is answered, mostly in one go: others must not wait for longer."""

TURN_S = 0.02
"""A connection handles frames for so long at a stretch; those that are left wait."""
TURN_PAUSE_S = 0.005
"""They wait for so long: an answer to somebody else may take several rounds of the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds of one listener. The defaults are Kafka's where Kafka has the thing."""

    produce_bytes_max: int = FRAME_BYTES_MAX
    """socket.request.max.bytes: only Produce carries data."""
    request_bytes_max: int = 8 * MIB
    """Any other request; the largest honest ones name some ten thousand partitions."""
    reply_bytes_max: int = 8 * MIB
    """Replies queued because the peer does not read: beyond this, no further request is taken.
    One reply may be larger."""
    in_flight_bytes_max: int = 64 * MIB
    """Requests not answered and replies not sent, of one connection."""
    node_bytes_max: int = 512 * MIB
    """The same over all connections."""
    connections_max: int = 10_000
    connections_per_ip_max: int = 2**31 - 1
    handshake_s: float = 10.0
    """A connection that has not sent one whole request by then is nobody's client."""
    frame_s: float = 30.0
    """A frame that has begun and of which nothing more arrives for so long ends the connection:
    it holds memory that others may wait for. So do replies that are not read, while memory is
    tight; else these may wait for `idle_s`: a consumer may be busy with those before."""
    idle_s: float = 600.0
    """connections.max.idle.ms."""

    def frame_bytes_max(self, *, is_produce: bool) -> int:
        if is_produce:
            return self.produce_bytes_max
        return min(self.request_bytes_max, self.produce_bytes_max)
