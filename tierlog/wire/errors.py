"""What can be wrong with bytes from the network, or with a message that should become bytes.

Everything the room raises on purpose descends from `WireError`. Decoding raises nothing else,
whatever the input: a connection can catch this one type, answer or close, and go on.
"""

from tierlog.errors import Kind, TierlogError


class WireError(TierlogError):
    """Bytes that are not a Kafka message, or a message that cannot become bytes.

    `message` names the schema and `version` its version, `field` the path of the field at fault
    (`topics[].partitions[].records`), `position` the byte in the buffer; each where known.
    """

    kind = Kind.INVALID

    def __init__(
        self,
        reason: str,
        *,
        message: str = "",
        version: int = -1,
        field: str = "",
        position: int = -1,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message
        self.version = version
        self.field = field
        self.position = position

    def __str__(self) -> str:
        where = f"{self.message} v{self.version}" if self.message else ""
        if self.field:
            where = f"{where} {self.field}".strip()
        if self.position >= 0:
            where = f"{where} at byte {self.position}".strip()
        return f"{where}: {self.reason}" if where else self.reason


class DecodeError(WireError):
    """The bytes are not what the schema says."""


class Truncated(DecodeError):
    """A field or a stated length reaches beyond the bytes that are there."""


class BadLength(DecodeError):
    """A length that no encoder writes: below -1, a varint beyond five bytes, an endless string."""


class BadString(DecodeError):
    """A string that is not UTF-8."""


class NullNotAllowed(DecodeError):
    """Null where the schema allows none in this version."""


class TooManyElements(DecodeError):
    """More array elements and tagged fields in one message than any honest sender has."""


class BadTags(DecodeError):
    """Tagged fields out of order, twice, or of another size than stated (KIP-482)."""


class TrailingBytes(DecodeError):
    """Bytes left over after the message."""


class BadFrame(DecodeError):
    """A size prefix that no Kafka client sends. The connection cannot be read any further."""


class UnknownApi(DecodeError):
    """An API key this build has no schema for."""

    def __init__(self, *, api_key: int, correlation_id: int) -> None:
        super().__init__(f"unknown API key {api_key}")
        self.api_key = api_key
        self.correlation_id = correlation_id


class UnsupportedVersion(DecodeError):
    """A version outside the schema's range. `api_key` is -1 for a message that is no API's own."""

    def __init__(
        self, *, message: str, version: int, api_key: int = -1, correlation_id: int = -1
    ) -> None:
        super().__init__("unsupported version", message=message, version=version)
        self.api_key = api_key
        self.correlation_id = correlation_id


class EncodeError(WireError):
    """A message holds a value that this version cannot carry."""
