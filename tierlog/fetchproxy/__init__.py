"""Cold reads: records that are only in the bucket, as fast as the bucket can be made.

`plan` says from the manifest and a segment's index which bytes are wanted; chunks of segments are
downloaded once (`flights`), checked, and kept on the local disk (`chunks`); `readahead` is a step
ahead of readers that come back. Answers are views of cached files that leave as those of the hot
log do. Nothing here knows the wire protocol, writes to the bucket or opens manifest pages: the cold
side of a partition arrives as a `ColdPrefix`.
"""

from tierlog.fetchproxy.errors import ChunkCorrupt, ColdUnavailable, TooManyReads
from tierlog.fetchproxy.flights import Allowance
from tierlog.fetchproxy.port import ColdPrefix
from tierlog.fetchproxy.prewarm import Prewarm, Wish
from tierlog.fetchproxy.proxy import ColdRead, FetchProxy
from tierlog.fetchproxy.settings import ProxySettings, default_cache_bytes
from tierlog.fetchproxy.stats import ProxyStats

__all__ = [
    "Allowance",
    "ChunkCorrupt",
    "ColdPrefix",
    "ColdRead",
    "ColdUnavailable",
    "FetchProxy",
    "Prewarm",
    "ProxySettings",
    "ProxyStats",
    "TooManyReads",
    "Wish",
    "default_cache_bytes",
]
