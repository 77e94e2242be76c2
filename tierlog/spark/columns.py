"""The columns of a read: Kafka's seven in Kafka's order, then headers and lineage if asked for.

Names and types are those of the table's schema v1, which spells Kafka's as Spark's Kafka source
does. `.schema(...)` may choose among them, which is how `format("tierlog")` prunes columns: Spark
does not tell a Python data source which it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tierlog.spark.errors import OptionRefused
from tierlog.table.schema import KAFKA_COLUMNS, LINEAGE_COLUMNS, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from tierlog.spark.options import ReadOptions

SPARK_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "leader_epoch": "int",
    "producer_id": "bigint",
    "producer_epoch": "smallint",
    "sequence": "int",
    "is_transactional": "boolean",
    "is_control": "boolean",
    "batch_base_offset": "bigint",
}


def columns_of(options: ReadOptions) -> tuple[str, ...]:
    found = list(KAFKA_COLUMNS)
    found += ["headers"] if options.include_headers else []
    found += LINEAGE_COLUMNS if options.include_lineage else []
    return tuple(found)


def ddl_of(columns: Sequence[str]) -> str:
    """As Spark takes a schema."""
    return ", ".join(f"`{name}` {SPARK_TYPES[name]}" for name in columns)


def chosen_columns(schema: StructType) -> tuple[str, ...]:
    """Of a schema that the query gave. Raises `OptionRefused`."""
    for field in schema.fields:
        wanted = SPARK_TYPES.get(field.name)
        if wanted is None:
            raise OptionRefused(
                "schema",
                f"there is no column {field.name}; there are {', '.join(SPARK_TYPES)}",
            )
        if field.dataType.simpleString() != wanted:
            raise OptionRefused(
                "schema",
                f"column {field.name} is {wanted}, not {field.dataType.simpleString()}; "
                "cast it afterwards",
            )
    return tuple(field.name for field in schema.fields)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Exactly as Spark wants batches."""
    return pa.schema([SCHEMA.field(name) for name in columns])


def shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, in its order and types, and nothing else."""
    arrays = []
    for field in schema:
        column = batch.column(field.name)
        arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
