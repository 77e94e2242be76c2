"""Where Spark finds `format("tierlog")` by itself: it looks for modules named `pyspark_*` with a
`DefaultSource`. Everything is in `tierlog.spark.source`.
"""

from tierlog.spark.source import TierlogSource as DefaultSource

__all__ = ["DefaultSource"]
