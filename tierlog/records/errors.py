"""What can be wrong with a batch, one class per answer that its sender or keeper needs.

`CorruptBatch` and below: the bytes are not what their writer wrote. `InvalidRecord` and below: the
bytes arrived well and say something that is not allowed. The table in `broker/` turns the classes
into Kafka error codes; the one that belongs to each is named here.
"""

from typing import ClassVar

from tierlog.errors import Kind, TierlogError


class BatchError(TierlogError):
    """Root of this room. `position` is where the batch begins in the bytes that were examined."""

    def __init__(self, sentence: str, *, position: int = 0) -> None:
        super().__init__(sentence)
        self.position = position


class CorruptBatch(BatchError):
    """A stored or fetched batch is damaged. CORRUPT_MESSAGE."""

    kind: ClassVar[Kind] = Kind.CORRUPT


class TruncatedBatch(CorruptBatch):
    """The bytes end before the batch does. `needed` counts from the start of the batch."""

    def __init__(self, sentence: str, *, position: int = 0, needed: int, present: int) -> None:
        super().__init__(sentence, position=position)
        self.needed = needed
        self.present = present


class ChecksumMismatch(CorruptBatch):
    """The CRC-32C in the header is not that of the bytes."""

    def __init__(self, *, position: int = 0, expected: int, actual: int) -> None:
        super().__init__(
            f"batch at position {position}: CRC-32C in the header is {expected:#010x}, "
            f"its bytes have {actual:#010x}",
            position=position,
        )
        self.expected = expected
        self.actual = actual


class CorruptProduce(CorruptBatch):
    """A produced batch was damaged on its way: its sender may send it again. CORRUPT_MESSAGE.

    `fault` is what a reader of the same bytes on disk would be told.
    """

    kind: ClassVar[Kind] = Kind.INVALID

    def __init__(self, fault: CorruptBatch) -> None:
        super().__init__(str(fault), position=fault.position)
        self.fault = fault


class InvalidRecord(BatchError):
    """A produced batch breaks a rule, and will again when sent again. INVALID_RECORD."""

    kind: ClassVar[Kind] = Kind.INVALID


class UnsupportedMagic(InvalidRecord):
    """A message format other than 2. INVALID_RECORD, as in Kafka for Produce 3 and newer."""

    def __init__(self, *, magic: int) -> None:
        super().__init__(f"batch has magic {magic}; only format version 2 is accepted")
        self.magic = magic


class InvalidTimestamp(InvalidRecord):
    """A timestamp out of bounds, or of a type that only the broker may set. INVALID_TIMESTAMP."""


class MalformedRecords(InvalidRecord):
    """The records inside a batch cannot be read, though its header and CRC are sound.

    So their writer wrote them this way: nothing is damaged, and no other copy is better.
    INVALID_RECORD.
    """


class InflatedTooLarge(MalformedRecords):
    """Decompression would exceed its bounds and was stopped. INVALID_RECORD."""

    def __init__(self, *, codec: str, compressed_bytes: int, inflated_bytes_max: int) -> None:
        super().__init__(
            f"{compressed_bytes} bytes of {codec} inflate beyond {inflated_bytes_max} bytes"
        )
        self.codec = codec
        self.compressed_bytes = compressed_bytes
        self.inflated_bytes_max = inflated_bytes_max


class BatchTooLarge(BatchError):
    """The batch exceeds the topic's `max.message.bytes`. MESSAGE_TOO_LARGE."""

    kind: ClassVar[Kind] = Kind.INVALID

    def __init__(self, *, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__(f"batch of {size_bytes} bytes; at most {size_bytes_max} are allowed")
        self.size_bytes = size_bytes
        self.size_bytes_max = size_bytes_max
