"""What the proxy did, as plain counters that whoever shows metrics reads."""

from dataclasses import dataclass

from tierlog.fetchproxy.clients import Reader


@dataclass(slots=True)
class ProxyStats:
    reads: int = 0
    """Answered with records."""
    read_bytes: int = 0
    reads_at_once: int = 0
    """Answered without waiting for anything."""
    reads_shared: int = 0
    """Had the answer of another read of the same place that was under way."""
    reads_refused: int = 0
    """Came while too many were under way."""
    reads_failed: int = 0
    joined: int = 0
    """Copied, since a batch lay across two chunks."""
    chunk_hits: int = 0
    """Chunks that a read found on the disk, open or not."""
    chunk_misses: int = 0
    """Chunks that a read had to wait for."""
    gets: int = 0
    get_bytes: int = 0
    get_errors: int = 0
    gets_late: int = 0
    """GETs that waited for the limit of GETs a second."""
    chunk_gets: int = 0
    lead_gets: int = 0
    index_gets: int = 0
    ahead_gets: int = 0
    """Those of the chunk GETs that were read-ahead."""
    corrupt: int = 0
    """Answers of the store that failed their check."""
    dropped: int = 0
    """Cached files that failed theirs."""
    not_cached: int = 0
    """Chunks that stayed in memory: no room, or the disk refused."""
    wasted: int = 0
    wasted_bytes: int = 0
    """Chunks that left before anybody had read of them."""
    planned_anew: int = 0
    """Reads whose segment had left the manifest when its object was asked for."""
    evicted: int = 0
    evicted_bytes: int = 0

    def note_waste(self, size: int, reader: Reader | None) -> None:
        """A chunk left that was fetched for this reader, and nobody had read of it."""
        self.wasted += 1
        self.wasted_bytes += size
        if reader is not None:
            reader.account.wasted_bytes += size
