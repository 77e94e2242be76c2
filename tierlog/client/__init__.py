"""Our own small Kafka client: what the tests, the command line, the simulation and replication use.

`connection` is one connection: versions, pipelining, timeouts. `client` routes requests to the
right node and tries again where that is safe. `producer` and `consumer` stand on top. Everything
runs on the loop it is called in, the simulated one included; time and chance arrive by constructor.

One rule holds throughout: a request without an answer may have been carried out. Such an outcome is
`OutcomeUnknown`, never a plain failure, and is repeated only where repeating changes nothing.
`groups` looks at groups and sets their offsets, from outside. Members and transactions belong to
later files of this room; what a request means to a broker does not belong here.
"""

from tierlog.client.client import Client
from tierlog.client.connection import Connection
from tierlog.client.consumer import Consumer
from tierlog.client.data import EARLIEST, EARLIEST_LOCAL, LAST_TIERED, LATEST, MAX_TIMESTAMP
from tierlog.client.errors import (
    BadAnswer,
    BrokerError,
    ClientError,
    ConnectionLost,
    DeliveryUnknown,
    NotConnected,
    OutcomeUnknown,
    ProducerFailed,
    RequestTimedOut,
    VersionNotShared,
)
from tierlog.client.groups import CommittedOffset
from tierlog.client.producer import Producer
from tierlog.client.settings import ClientSettings, ProducerSettings
from tierlog.client.values import Consumed, Fetched, NewRecord, Placed, TopicPartition

__all__ = [
    "EARLIEST",
    "EARLIEST_LOCAL",
    "LAST_TIERED",
    "LATEST",
    "MAX_TIMESTAMP",
    "BadAnswer",
    "BrokerError",
    "Client",
    "ClientError",
    "ClientSettings",
    "CommittedOffset",
    "Connection",
    "ConnectionLost",
    "Consumed",
    "Consumer",
    "DeliveryUnknown",
    "Fetched",
    "NewRecord",
    "NotConnected",
    "OutcomeUnknown",
    "Placed",
    "Producer",
    "ProducerFailed",
    "ProducerSettings",
    "RequestTimedOut",
    "TopicPartition",
    "VersionNotShared",
]
