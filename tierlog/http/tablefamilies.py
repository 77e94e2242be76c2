"""The families of the Parquet tables. As `families`."""

from typing import Final

from tierlog.http.coldreadings import of_tables
from tierlog.http.family import Family

TABLES: Final = (
    Family(
        "tierlog_table_lag_records",
        "gauge",
        "Offsets that are cold and not in their table yet, of all partitions that keep one.",
        of_tables(lambda stats: stats.lag_records),
    ),
    Family(
        "tierlog_table_lag_partitions",
        "gauge",
        "Partitions whose table is behind what is cold.",
        of_tables(lambda stats: stats.lag_partitions),
    ),
    Family(
        "tierlog_table_converted_segments_total",
        "counter",
        "Segments that were converted to Parquet.",
        of_tables(lambda stats: stats.converted_segments),
    ),
    Family(
        "tierlog_table_converted_rows_total",
        "counter",
        "Records that became rows.",
        of_tables(lambda stats: stats.converted_rows),
    ),
    Family(
        "tierlog_table_converted_bytes_total",
        "counter",
        "Bytes of batches that were read to be converted.",
        of_tables(lambda stats: stats.converted_bytes),
    ),
    Family(
        "tierlog_table_written_bytes_total",
        "counter",
        "Bytes of Parquet files that were written, merged ones as well.",
        of_tables(lambda stats: stats.written_bytes),
    ),
    Family(
        "tierlog_table_dead_records_total",
        "counter",
        "Records that could not be converted; the reasons are in the dead-letter files. 0, always.",
        of_tables(lambda stats: stats.dead_records),
    ),
    Family(
        "tierlog_table_merged_files_total",
        "counter",
        "Small Parquet files that went into larger ones.",
        of_tables(lambda stats: stats.merged_files),
    ),
    Family(
        "tierlog_table_remade_files_total",
        "counter",
        "Parquet files that were lost or damaged, and made anew. 0, always.",
        of_tables(lambda stats: stats.remade_files),
    ),
    Family(
        "tierlog_table_failures_total",
        "counter",
        "Turns of a table that did not succeed; each is tried again.",
        of_tables(lambda stats: stats.failures),
    ),
    Family(
        "tierlog_table_lost_workers_total",
        "counter",
        "Worker processes that ended or hung while they converted.",
        of_tables(lambda stats: stats.lost_workers),
    ),
)
