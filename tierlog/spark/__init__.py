"""Spark over the bucket: cold history as rows, without a broker on the way.

    import tierlog.spark
    rows = tierlog.spark.read(spark, store="s3://bucket/prefix", topic="orders")

`options` and `plan` are pure; `pins` looks into the bucket, on the driver; `slices` reads what a
plan names, on executors; `reading` is the native path and `source` the data source behind
`format("tierlog")`; `jobs` convert, verify and replay. How Parquet is written, and what a table
manifest says, is `table`'s; segments and their manifests are `cold`'s. No broker code: the hot tail
comes over the wire, by `client`.

Importing this room does not import Spark: that is done where it is used, with a sentence for
those who lack it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tierlog.spark.reading import read
    from tierlog.spark.source import install

__all__ = ["install", "read"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "install":
        from tierlog.spark.source import install

        return install
    from tierlog.spark.reading import read

    return read
