"""The stream reader for Spark 4.2 and later: Spark says where the stream is and how much it wants.

So `Trigger.AvailableNow` keeps to `maxOffsetsPerTrigger` and still reads all that was there when it
began, in as many micro batches as that takes. What arrives later, partitions as well, waits for the
next run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found]  # not in 4.1
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tierlog.spark.bounds import PartitionName, flattened, nested
from tierlog.spark.streaming import TierlogStreamReader, may_lack

if TYPE_CHECKING:
    from collections.abc import Collection

    from tierlog.spark.pins import Pinned


class AdmittingStreamReader(TierlogStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # not in 4.1
    _frozen: dict[PartitionName, Pinned] | None = None
    """As it was when a run of AvailableNow began."""

    def prepareForTriggerAvailableNow(self) -> None:
        self._frozen = self._pinned(may_lack(self._options, {}))

    def getDefaultReadLimit(self) -> Any:
        limit = self._options.trigger_offsets_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(  # type: ignore[override]  # what 4.1 has no words for
        self, start: dict[str, dict[str, int]], limit: Any
    ) -> dict[str, dict[str, int]]:
        wanted = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return nested(self._latest(flattened(start), wanted))

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        """For the progress of a query, and nothing is asked for it: what the last look found."""
        return None if self._found is None else nested(self._found)

    def _waits(self, offsets: int) -> bool:
        """What was there at the start of a run of AvailableNow is all that it will get."""
        return self._frozen is None and super()._waits(offsets)

    def _pinned(self, lacking: Collection[str]) -> dict[PartitionName, Pinned]:
        return super()._pinned(lacking) if self._frozen is None else self._frozen
