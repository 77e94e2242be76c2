"""Counters of the connections of one node: plain numbers, read when somebody asks."""

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    accepted: int = 0
    open_count: int = 0
    """A gauge."""
    refused_node_full: int = 0
    refused_ip_full: int = 0
    refused_no_files: int = 0
    """The process may not open another file."""
    closed_bad_frame: int = 0
    """Sizes that cannot be, TLS and HTTP included."""
    closed_by_service: int = 0
    """A request that could not be answered, parse errors included."""
    parse_errors: int = 0
    closed_handshake: int = 0
    closed_idle: int = 0
    closed_stalled: int = 0
    """In the middle of a frame, or with replies that the peer does not read."""
    failed_requests: int = 0
    """Handlers that raised what they should not."""
    failed_sends: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    pauses: int = 0
    """How often reading stopped: a budget was used up, a peer did not read, a turn was over."""
