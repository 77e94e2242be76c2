"""The hot log: the active edge of one partition on the local disk.

Batches arrive checked and leave as bytes; nothing here decodes records except to answer a question
about time. A `Log` is one partition in one directory, a `LogDirectory` the disk that many of them
share: its sync threads, its open files, its lock and the latch that stops it after a failed fsync.

Not here: the wire protocol (`wire/`, `broker/`), the bucket (`cold/`), who leads (`cluster/`). The
high watermark is the broker's; this room knows what is durable on this disk.
"""

from tierlog.hot.directory import LogDirectory
from tierlog.hot.log import Appended, Log
from tierlog.hot.sealed import SealedSegment
from tierlog.hot.seed import Seed
from tierlog.hot.settings import LogSettings

__all__ = ["Appended", "Log", "LogDirectory", "LogSettings", "SealedSegment", "Seed"]
