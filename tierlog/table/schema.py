"""Schema v1: the columns of a converted record. Frozen.

The names that Spark's Kafka source has are spelled as there; what follows them is where a record
came from, enough to rebuild batch borders. A change that old readers would misread takes a new
number, which each file and each manifest says (`docs/format/table.md`).
"""

from typing import Final

import pyarrow as pa

from tierlog.table.manifest import SCHEMA_VERSION as SCHEMA_VERSION

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
"""Kafka's milliseconds as microseconds, which Spark takes as they are."""
HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

SCHEMA: Final = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("timestampType", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int16()),
        pa.field("sequence", pa.int32()),
        pa.field("is_transactional", pa.bool_()),
        pa.field("is_control", pa.bool_()),
        pa.field("batch_base_offset", pa.int64()),
    ]
)

KAFKA_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
)
"""As Spark's Kafka source orders them; `headers` comes behind where it is asked for."""

LINEAGE_COLUMNS: Final = (
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "sequence",
    "is_transactional",
    "is_control",
    "batch_base_offset",
)

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000
"""Beyond this a timestamp has no microseconds in 64 bits: its batch is a dead letter."""
TIMESTAMP_MS_MIN: Final = -TIMESTAMP_MS_MAX

DEAD_SCHEMA: Final = pa.schema(
    [
        pa.field("first_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("records", pa.int64()),
        pa.field("position", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("source", pa.string()),
        pa.field("batch", pa.binary()),
    ]
)
"""A dead-letter file: what could not be converted, why, and the bytes as they were found."""
