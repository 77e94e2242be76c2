"""The metastore: what a cluster must agree on, and nothing per record.

Holds topics, partitions with their leader epochs, brokers and the cluster's id behind one port:
versioned keys, transactions that compare revisions, watches, sessions. The local adapter keeps it
in a directory of one node; an adapter for etcd serves many. Values are the broker's business: this
room does not look into them.
"""

from tierlog.metastore.errors import (
    InvalidTxn,
    MetaStoreBroken,
    MetaStoreClosed,
    MetaStoreDamaged,
    MetaStoreError,
    MetaStoreFull,
    MetaStoreInUse,
    MetaStoreNewer,
    MetaStoreUnavailable,
    SessionLost,
    TxnUncertain,
    WatchLost,
)
from tierlog.metastore.local import LocalMetaStore
from tierlog.metastore.port import (
    Compare,
    Delete,
    Entry,
    Event,
    MetaStore,
    Put,
    Session,
    TxnResult,
)

__all__ = [
    "Compare",
    "Delete",
    "Entry",
    "Event",
    "InvalidTxn",
    "LocalMetaStore",
    "MetaStore",
    "MetaStoreBroken",
    "MetaStoreClosed",
    "MetaStoreDamaged",
    "MetaStoreError",
    "MetaStoreFull",
    "MetaStoreInUse",
    "MetaStoreNewer",
    "MetaStoreUnavailable",
    "Put",
    "Session",
    "SessionLost",
    "TxnResult",
    "TxnUncertain",
    "WatchLost",
]
