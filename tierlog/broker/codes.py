"""The one table from error type to Kafka error code.

The most special type decides. An error that is not in the table is a fault of ours: it is logged
where it is caught and leaves as UNKNOWN_SERVER_ERROR.
"""

import logging
from typing import Final

from tierlog.broker import errors as broker
from tierlog.cold import refusals as cold
from tierlog.cold.errors import ColdCorrupt, ColdError
from tierlog.config import InvalidConfig
from tierlog.fetchproxy import errors as fetchproxy
from tierlog.hot import errors as hot
from tierlog.metastore import errors as metastore
from tierlog.objectstore import errors as objectstore
from tierlog.records import errors as records
from tierlog.wire.error_codes import ErrorCode

logger = logging.getLogger(__name__)

SENTENCE_CHARS_MAX: Final = 1000
"""A sentence may quote what the client sent; the protocol's strings end at 32,767 bytes."""

CODES: Final[dict[type[BaseException], ErrorCode]] = {
    # Names and numbers of things
    broker.UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    broker.UnknownPartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    broker.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    broker.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    broker.InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    broker.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    broker.InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    broker.InvalidAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    broker.InvalidRequest: ErrorCode.INVALID_REQUEST,
    broker.TopicDeletionDisabled: ErrorCode.TOPIC_DELETION_DISABLED,
    broker.PolicyViolation: ErrorCode.POLICY_VIOLATION,
    InvalidConfig: ErrorCode.INVALID_CONFIG,
    # Leadership
    broker.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    broker.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    broker.NotLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    broker.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    # Whoever took over the bucket leads now: producers look at the metadata again.
    broker.ReadOnly: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    cold.Fenced: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    cold.ForeignIncarnation: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    # Producing
    broker.InvalidAcks: ErrorCode.INVALID_REQUIRED_ACKS,
    broker.OutOfSpace: ErrorCode.KAFKA_STORAGE_ERROR,
    broker.TransactionsNotServed: ErrorCode.INVALID_TXN_STATE,
    broker.CodecNotAllowed: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    broker.RecordsRefused: ErrorCode.INVALID_RECORD,
    broker.RequestTimedOut: ErrorCode.REQUEST_TIMED_OUT,
    # Producers split a batch that is too large, and send again what timed out.
    broker.TooManyRecords: ErrorCode.MESSAGE_TOO_LARGE,
    broker.TooMuchAtOnce: ErrorCode.REQUEST_TIMED_OUT,
    records.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    records.InvalidRecord: ErrorCode.INVALID_RECORD,
    records.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    records.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    hot.SequenceOutOfOrder: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    hot.ProducerFenced: ErrorCode.INVALID_PRODUCER_EPOCH,
    # The disk. Retriable all of them: the records are safe where they are, a restart or more room
    # brings them back, and a client that gave up would lose what it holds.
    hot.LogBroken: ErrorCode.KAFKA_STORAGE_ERROR,
    hot.DiskFull: ErrorCode.KAFKA_STORAGE_ERROR,
    hot.TooManyFiles: ErrorCode.KAFKA_STORAGE_ERROR,
    hot.ReadFailed: ErrorCode.KAFKA_STORAGE_ERROR,
    broker.PartitionLate: ErrorCode.KAFKA_STORAGE_ERROR,
    # Damage stays until it is repaired: a consumer is told and may step over it, instead of asking
    # for ever.
    hot.DamagedOffsets: ErrorCode.CORRUPT_MESSAGE,
    hot.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    # A log closes when its topic is deleted or the node stops; either way: ask again elsewhere.
    hot.LogClosed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    # The bucket. Retriable: a store that is away comes back. Damage is told, as above.
    objectstore.StoreError: ErrorCode.KAFKA_STORAGE_ERROR,
    cold.SwapUncertain: ErrorCode.REQUEST_TIMED_OUT,
    ColdError: ErrorCode.KAFKA_STORAGE_ERROR,
    ColdCorrupt: ErrorCode.CORRUPT_MESSAGE,
    fetchproxy.ColdUnavailable: ErrorCode.KAFKA_STORAGE_ERROR,
    fetchproxy.ChunkCorrupt: ErrorCode.CORRUPT_MESSAGE,
    # The metastore. Retriable all but the last; admin clients ask again by themselves after
    # NOT_CONTROLLER, which promises that nothing has changed. Where something may have changed,
    # people must look first: REQUEST_TIMED_OUT says so.
    broker.Contended: ErrorCode.NOT_CONTROLLER,
    metastore.MetaStoreError: ErrorCode.NOT_CONTROLLER,
    metastore.MetaStoreFull: ErrorCode.KAFKA_STORAGE_ERROR,
    metastore.MetaStoreBroken: ErrorCode.KAFKA_STORAGE_ERROR,
    metastore.MetaStoreDamaged: ErrorCode.KAFKA_STORAGE_ERROR,
    metastore.TxnUncertain: ErrorCode.REQUEST_TIMED_OUT,
    metastore.InvalidTxn: ErrorCode.INVALID_REQUEST,
}


def code_of(error: BaseException) -> ErrorCode:
    """The code that tells a client of this error."""
    for kind in type(error).__mro__:
        if (code := CODES.get(kind)) is not None:
            return code
    logger.error("an error without a code reached a client", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def sentence_of(error: BaseException) -> str:
    """What the client reads beside the code."""
    sentence = str(error)
    if len(sentence) <= SENTENCE_CHARS_MAX:
        return sentence
    return f"{sentence[:SENTENCE_CHARS_MAX]} ..."
