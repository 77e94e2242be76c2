"""Names for the numbers that must not be mixed up.

A byte position cannot pass as an offset, nor a producer epoch as a leader epoch: each identifier is
a `NewType`, free at run time and checked by mypy. All ranges in tierlog are half open.
"""

from typing import NewType, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
"""What may be read from."""

WritableBytes: TypeAlias = bytearray | memoryview
"""What may be written into; a memoryview must be of writable memory."""

Offset = NewType("Offset", int)
"""Place of a record in a partition. For ever: one offset names one record."""

Position = NewType("Position", int)
"""Place of a byte in a file or object."""

LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TimestampMs = NewType("TimestampMs", int)
"""Milliseconds since 1970-01-01 UTC; -1 where a record has none."""

NO_PRODUCER = ProducerId(-1)
NO_TIMESTAMP = TimestampMs(-1)
