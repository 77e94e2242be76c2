"""A part of a topic's cold history as Parquet, by the job that users have."""

from typing import TYPE_CHECKING

from tierlog.spark.converting import ConvertReport, convert
from tierlog.spark.stores import StorePlace
from tierlog.table.settings import TableSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tests.spark.topics import Seen


def convert_share(
    spark: "SparkSession",
    store: str,
    topic: str,
    rows: "Sequence[Seen]",
    share: float,
    *,
    endpoint: str = "",
) -> ConvertReport:
    """Segments of each partition that end within this share of the longest; two in a file."""
    until = int(share * max((one.offset + 1 for one in rows), default=0))
    return convert(
        spark,
        StorePlace(url=store, endpoint=endpoint),
        topics=[topic],
        until=until,
        settings=TableSettings(convert_segments_max=2),
    )
