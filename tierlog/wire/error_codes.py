"""Kafka's error codes: number, whether a client may try again, and a sentence for people.

Which error of tierlog becomes which code is decided in `broker/`; this is the alphabet only.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """An error code of the protocol; an int wherever a message wants one."""

    retriable: bool
    """True when the same request may succeed later without a change."""
    sentence: str

    def __new__(cls, code: int, retriable: bool, sentence: str) -> "ErrorCode":
        made = int.__new__(cls, code)
        made._value_ = code
        made.retriable = retriable
        made.sentence = sentence
        return made

    UNKNOWN_SERVER_ERROR = -1, False, "something failed on the server that has no code of its own"
    NONE = 0, False, "no error"
    OFFSET_OUT_OF_RANGE = 1, False, "the offset lies outside the log"
    CORRUPT_MESSAGE = 2, True, "a record batch failed its checksum or makes no sense"
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "this node knows no such topic or partition"
    INVALID_FETCH_SIZE = 4, False, "the byte limit of the fetch is not valid"
    LEADER_NOT_AVAILABLE = 5, True, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, True, "this node is not the replica that was asked for"
    REQUEST_TIMED_OUT = 7, True, "the request was not done within its time"
    BROKER_NOT_AVAILABLE = 8, False, "the broker cannot be reached"
    REPLICA_NOT_AVAILABLE = 9, True, "the replica is not there at the moment"
    MESSAGE_TOO_LARGE = 10, False, "the batch is larger than the topic allows"
    STALE_CONTROLLER_EPOCH = 11, False, "a newer controller has taken over"
    OFFSET_METADATA_TOO_LARGE = 12, False, "the text committed with an offset is too long"
    NETWORK_EXCEPTION = 13, True, "the connection broke before the answer came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "the coordinator is still reading its log"
    COORDINATOR_NOT_AVAILABLE = 15, True, "there is no coordinator at the moment"
    NOT_COORDINATOR = 16, True, "another node coordinates this group or transaction"
    INVALID_TOPIC_EXCEPTION = (
        17,
        False,
        "the topic's name, or this use of it, is not allowed",
    )
    RECORD_LIST_TOO_LARGE = 18, False, "the records exceed the segment size"
    NOT_ENOUGH_REPLICAS = 19, True, "fewer replicas are in sync than required; nothing was written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, True, "written, but to fewer replicas than required"
    INVALID_REQUIRED_ACKS = 21, False, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, False, "the group is at another generation"
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "the member shares no protocol with the group",
    )
    INVALID_GROUP_ID = 24, False, "the group id is not allowed"
    UNKNOWN_MEMBER_ID = 25, False, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, False, "the session timeout lies outside the broker's limits"
    REBALANCE_IN_PROGRESS = 27, False, "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "the commit is too large"
    TOPIC_AUTHORIZATION_FAILED = 29, False, "not allowed on this topic"
    GROUP_AUTHORIZATION_FAILED = 30, False, "not allowed on this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "not allowed on this cluster"
    INVALID_TIMESTAMP = 32, False, "the timestamp is too far from the broker's clock"
    UNSUPPORTED_SASL_MECHANISM = 33, False, "this SASL mechanism is not offered"
    ILLEGAL_SASL_STATE = 34, False, "this request does not fit the state of the login"
    UNSUPPORTED_VERSION = 35, False, "this version of the API is not served"
    TOPIC_ALREADY_EXISTS = 36, False, "there is a topic of this name"
    INVALID_PARTITIONS = 37, False, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "the number of replicas is not valid here",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, "the assignment of replicas is not valid"
    INVALID_CONFIG = 40, False, "a setting is unknown or its value not valid"
    NOT_CONTROLLER = 41, True, "another node is the controller"
    INVALID_REQUEST = 42, False, "the request contradicts itself or the protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "the message format cannot do this"
    POLICY_VIOLATION = 44, False, "a policy of the cluster forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "the sequence number leaves a gap"
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "this sequence number was written before"
    INVALID_PRODUCER_EPOCH = 47, False, "a newer epoch of this producer has been seen"
    INVALID_TXN_STATE = 48, False, "the transaction is not in a state for this"
    INVALID_PRODUCER_ID_MAPPING = 49, False, "the transactional id belongs to another producer id"
    INVALID_TRANSACTION_TIMEOUT = 50, False, "the transaction timeout exceeds the broker's limit"
    CONCURRENT_TRANSACTIONS = 51, True, "the previous transaction is still completing"
    TRANSACTION_COORDINATOR_FENCED = 52, False, "a newer coordinator has taken over"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "not allowed on this transactional id"
    SECURITY_DISABLED = 54, False, "this cluster runs without security features"
    OPERATION_NOT_ATTEMPTED = 55, False, "not tried, since another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, True, "the log directory is broken"
    LOG_DIR_NOT_FOUND = 57, False, "the node has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, False, "the login failed"
    UNKNOWN_PRODUCER_ID = 59, False, "nothing is remembered of this producer id"
    REASSIGNMENT_IN_PROGRESS = 60, False, "replicas of the partition are being moved"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "delegation tokens are switched off"
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "the token belongs to somebody else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "not over this connection",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "not allowed on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, False, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, False, "this type of principal is not supported"
    NON_EMPTY_GROUP = 68, False, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, False, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "there is no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, True, "the fetch session is at another epoch"
    LISTENER_NOT_FOUND = 72, True, "the leader does not listen where this client came in"
    TOPIC_DELETION_DISABLED = 73, False, "topics may not be deleted here"
    FENCED_LEADER_EPOCH = 74, True, "the request knows an older leader epoch"
    UNKNOWN_LEADER_EPOCH = 75, True, "the request knows a newer leader epoch than this node"
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "the client cannot read this compression",
    )
    STALE_BROKER_EPOCH = 77, False, "the broker has registered again since"
    OFFSET_NOT_AVAILABLE = 78, True, "the new leader's high watermark has not caught up yet"
    MEMBER_ID_REQUIRED = 79, False, "join again with the member id of this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, False, "the group has as many members as it may"
    FENCED_INSTANCE_ID = 82, False, "another member has taken over this instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "no replica may become leader"
    ELECTION_NOT_NEEDED = 84, True, "the partition is led as it should be"
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "no replicas are being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "the group still reads this topic"
    INVALID_RECORD = 87, False, "a record breaks a rule of the topic or of the format"
    UNSTABLE_OFFSET_COMMIT = 88, True, "a transaction with offsets of this group is still open"
    THROTTLING_QUOTA_EXCEEDED = 89, True, "too many changes in this time"
    PRODUCER_FENCED = 90, False, "a newer producer uses the same transactional id"
    RESOURCE_NOT_FOUND = 91, False, "there is no such resource"
    DUPLICATE_RESOURCE = 92, False, "the resource is named twice"
    UNACCEPTABLE_CREDENTIAL = 93, False, "the credential does not meet the requirements"
    INCONSISTENT_VOTER_SET = 94, False, "the voters of both sides differ"
    INVALID_UPDATE_VERSION = 95, False, "the given version cannot be updated to"
    FEATURE_UPDATE_FAILED = 96, False, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "a forwarded principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, False, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, False, "the position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, True, "this node knows no such topic id"
    DUPLICATE_BROKER_REGISTRATION = 101, False, "a broker of this id is registered and alive"
    BROKER_ID_NOT_REGISTERED = 102, False, "no broker of this id is registered"
    INCONSISTENT_TOPIC_ID = 103, True, "the log on disk belongs to another topic id"
    INCONSISTENT_CLUSTER_ID = 104, False, "the request comes from another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "the fetch session mixes names and ids"
    INELIGIBLE_REPLICA = 107, False, "this replica may not join the in-sync set"
    NEW_LEADER_ELECTED = 108, False, "the change led to another leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = (
        109,
        False,
        "the offset is no longer on disk",
    )
    FENCED_MEMBER_EPOCH = (
        110,
        False,
        "fenced by the coordinator: start again at epoch 0",
    )
    UNRELEASED_INSTANCE_ID = 111, False, "the instance id is still in use by another member"
    UNSUPPORTED_ASSIGNOR = 112, False, "the assignor is not known"
    STALE_MEMBER_EPOCH = 113, False, "retry after the next heartbeat brings the member's epoch"
    MISMATCHED_ENDPOINT_TYPE = 114, False, "this kind of endpoint is not the one that was asked"
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "this kind of endpoint is not known"
    UNKNOWN_CONTROLLER_ID = 116, False, "there is no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "the telemetry subscription is out of date"
    TELEMETRY_TOO_LARGE = 118, False, "the telemetry is larger than the broker takes"
    INVALID_REGISTRATION = 119, False, "the registration is not valid"
    TRANSACTION_ABORTABLE = 120, False, "the transaction cannot go on and must be aborted"
    INVALID_RECORD_STATE = 121, False, "the record is not in a state for this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, True, "there is no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, True, "the share session is at another epoch"
    FENCED_STATE_EPOCH = 124, False, "a newer epoch of the share state has been seen"
    INVALID_VOTER_KEY = 125, False, "the voter's directory id is not this one"
    DUPLICATE_VOTER = 126, False, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, False, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, False, "the regular expression cannot be compiled"
    REBOOTSTRAP_REQUIRED = 129, False, "the client should start again from its bootstrap addresses"
    STREAMS_INVALID_TOPOLOGY = 130, False, "the streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "the epoch of the streams topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, False, "the group has a newer streams topology"
    SHARE_SESSION_LIMIT_REACHED = 133, True, "the broker has as many share sessions as it may"
