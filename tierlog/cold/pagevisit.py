"""Pages of many manifests for somebody who waits, until one deadline for all of them.

The retries of a store that is away take longer than anybody waits, and would for each page anew: so
after the first that did not come, only those in memory are given.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tierlog.objectstore.errors import StoreUnavailable

if TYPE_CHECKING:
    from tierlog.cold.head import PageRef
    from tierlog.cold.page import Page
    from tierlog.cold.prefix import ColdPrefix


class PageVisit:
    def __init__(self, deadline_s: float) -> None:
        """By the clock of the loop."""
        self._deadline_s = deadline_s
        self._is_away = False

    @property
    def is_over(self) -> bool:
        """Whether the store is not asked any more."""
        return self._is_away or asyncio.get_running_loop().time() >= self._deadline_s

    async def page(self, prefix: ColdPrefix, ref: PageRef) -> Page:
        """Raises `StoreUnavailable` where none comes; what else the store raises passes."""
        if (known := prefix.known_page(ref)) is not None:
            return known
        if self.is_over:
            raise StoreUnavailable("the store is not asked any more")
        try:
            return await self._in_time(prefix, ref)
        except StoreUnavailable:
            self._is_away = True
            raise

    async def _in_time(self, prefix: ColdPrefix, ref: PageRef) -> Page:
        try:
            async with asyncio.timeout_at(self._deadline_s):
                return await prefix.page(ref)
        except TimeoutError:
            raise StoreUnavailable("the store did not answer in time") from None
