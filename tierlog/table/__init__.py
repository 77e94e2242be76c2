"""The table: a partition's cold history as Parquet files, straight from the bucket.

A follower of the log. `TABLE` lists the files that stand for `[table_start, converted_end)`; they
are made from published segments and never the other way round. Here live the scan of record batches
into columns, the schema, the files, the manifest and the converter. Who reads the files (Spark, any
Parquet reader) needs nothing of the broker, and nothing of the broker waits for the table.
"""
