"""What can go wrong for a client.

The line that matters runs between "no" and "maybe". `BrokerError` and `NotConnected` are answers:
the request was refused, or never left. `OutcomeUnknown` is the lack of one: the request may have
been carried out, may still be, or never will.
"""

from tierlog.errors import Kind, TierlogError
from tierlog.wire.error_codes import ErrorCode


class ClientError(TierlogError):
    """Root of what this room raises."""

    kind = Kind.UNAVAILABLE
    retriable = False
    """True when the same call may succeed later without a change."""


class NotConnected(ClientError):
    """No connection came about, so nothing was sent."""

    retriable = True


class OutcomeUnknown(ClientError):
    """The request was sent and its answer will never be seen."""

    kind = Kind.RETRY
    retriable = True


class ConnectionLost(OutcomeUnknown):
    """The connection ended with requests under way."""


class RequestTimedOut(OutcomeUnknown):
    """No answer came in time. The connection is closed, so that none comes late."""


class BadAnswer(OutcomeUnknown):
    """The other side answered with bytes that are not the answer. The connection is closed."""

    kind = Kind.CORRUPT


class DeliveryUnknown(OutcomeUnknown):
    """The producer gave up on a batch that may have been written."""

    retriable = False


class VersionNotShared(ClientError):
    """Client and broker have no version of the API in common."""

    kind = Kind.INVALID


class ProducerFailed(ClientError):
    """The producer met an error that ends it. The cause says which; make a new one."""

    kind = Kind.FENCED


class BrokerError(ClientError):
    """The broker answered with an error code."""

    kind = Kind.INVALID

    def __init__(self, code: int, sentence: str | None = None) -> None:
        self.number = code
        self.code = known_code(code)
        self.sentence = sentence or self.code.sentence
        self.retriable = self.code.retriable
        super().__init__(f"{self.code.name} ({code}): {self.sentence}")


_CODES: dict[int, ErrorCode] = {code.value: code for code in ErrorCode}


def known_code(number: int) -> ErrorCode:
    """The code, or UNKNOWN_SERVER_ERROR for one that this client has not heard of."""
    return _CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


def check(code: int, sentence: str | None = None) -> None:
    """Raise unless the code says that all is well."""
    if code:
        raise BrokerError(code, sentence)
