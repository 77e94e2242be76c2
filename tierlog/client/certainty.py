"""Which refusals of a Produce request say for sure that nothing was written.

A broker checks a batch, appends it, then waits for replicas; an error from the last step leaves the
batch in the log. NOT_LEADER_OR_FOLLOWER is such a case with acks=all: the leader may have stepped
down while the batch waited. Whatever is not listed here is a "maybe".
"""

from tierlog.client.errors import BrokerError, ClientError, NotConnected
from tierlog.wire.error_codes import ErrorCode

NEVER_WRITTEN = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_RECORD,
    }
)

BEFORE_THE_APPEND = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LISTENER_NOT_FOUND})
"""Also sure where nobody waits for replicas."""


def surely_not_written(error: ClientError, *, acks: int) -> bool:
    if isinstance(error, NotConnected):
        return True
    if not isinstance(error, BrokerError):
        return False
    return error.code in NEVER_WRITTEN or (acks != -1 and error.code in BEFORE_THE_APPEND)
