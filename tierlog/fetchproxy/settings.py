"""Settings of the fetch proxy. Values, checked once."""

from dataclasses import dataclass

from tierlog.cold.segment_object import BLOCK_BYTES
from tierlog.env import Disk
from tierlog.errors import TierlogError
from tierlog.fetchproxy.clients import FREE, Price

CACHE_BYTES_MAX = 10 << 30


class InvalidProxySetting(TierlogError):
    """A setting does not fit the others. The sentence names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    cache_bytes: int = CACHE_BYTES_MAX
    """`tierlog.cache.bytes`: what chunks may take on the disk."""
    chunk_bytes: int = 8 << 20
    """Large enough that a GET's own cost (1-3 ms, $0.0000004) vanishes, small enough that 32 of
    them in memory are no burden."""
    block_bytes: int = BLOCK_BYTES
    """What one CRC of a segment object covers: of the format, not to be chosen."""
    lead_bytes: int = 1 << 20
    """What the first read of a reader fetches: it waits for this alone. 0: whole chunks always."""
    memory_bytes: int = 256 << 20
    """Of downloads under way, and of bytes that were not read yet or that no disk holds, over all
    readers of the node."""
    readahead_bytes_max: int = 64 << 20
    """How far ahead of one reader: 8 chunks hide 50 ms a GET at 1 GB/s."""
    stall_s: float = 5.0
    """A reader that does not come back for so long is met like a new one."""
    reads_max: int = 2048
    """Reads under way that had to wait, over all readers of the node: some kilobytes each."""
    gets_per_second: float | None = None
    """`tierlog.cold.gets.per.second`: of all readers of the node; None is no limit."""
    client_gets_per_second: float | None = None
    """`tierlog.cold.client.gets.per.second`: of each client id; None is no limit."""
    price: Price = FREE
    """`tierlog.price.*`: what a GET and a gigabyte cost here."""
    index_bytes_max: int = 16 << 20
    """Of segment indexes in memory: 41 kB each at 128 MiB a segment."""
    open_chunks_max: int = 256
    """Chunk files that are kept open and mapped."""
    disk_free_min: int = 256 << 20
    """Never fill the disk further than this: the active edge needs it more."""

    def __post_init__(self) -> None:
        if self.chunk_bytes <= 0 or self.chunk_bytes % self.block_bytes:
            raise InvalidProxySetting(
                f"chunk_bytes is {self.chunk_bytes}; it must be a multiple of {self.block_bytes}"
            )
        if self.memory_bytes < 4 * self.chunk_bytes:
            raise InvalidProxySetting(
                f"memory_bytes is {self.memory_bytes}; four chunks alone have "
                f"{4 * self.chunk_bytes}"
            )

    @property
    def held_bytes_max(self) -> int:
        """The share of the memory for what is here: chunks that are read, and those ahead of their
        readers. At the defaults two for each of eight readers."""
        return self.memory_bytes // 2

    @property
    def keeping_bytes_max(self) -> int:
        """The share of the memory for chunks on their way to the disk."""
        return self.memory_bytes // 8

    @property
    def flight_bytes_max(self) -> int:
        """The share of the memory for downloads under way: twelve at the defaults."""
        return self.memory_bytes - self.held_bytes_max - self.keeping_bytes_max


def default_cache_bytes(disk: Disk, path: str) -> int:
    """A tenth of what is free, and no more than 10 GiB."""
    return min(CACHE_BYTES_MAX, disk.free_bytes(path) // 10)
