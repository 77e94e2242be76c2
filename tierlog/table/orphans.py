"""Orphans of a table: objects below `pq/` that its TABLE does not know.

They are what is left of conversions that somebody did not live to publish, or that somebody else
published first. One goes when it is older than a day by the store's clock, was seen a whole
interval before, and is not in flight here; TABLE is read after what is in flight was noted. A key
whose leader epoch is above this leader's is somebody else's business.

The same look tells of files that TABLE lists and that are not there, or have another size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.objectstore.port import Doomed
from tierlog.table.keys import FILES, parse_file_key, parse_page_key
from tierlog.table.reading import TableReader

if TYPE_CHECKING:
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore, Stat
    from tierlog.table.converter import PartitionConverter
    from tierlog.table.manifest import TableFile
    from tierlog.table.settings import TableSettings, TableStats

DELETES_MAX = 500


class Orphans:
    def __init__(
        self, env: Env, store: ObjectStore, settings: TableSettings, stats: TableStats
    ) -> None:
        self._env = env
        self._store = store
        self._settings = settings
        self._stats = stats
        self._looked_ms: dict[str, int] = {}
        self._sighted: dict[str, int] = {}
        """When an orphan was first seen, by its key."""

    async def look(self, converter: PartitionConverter) -> None:
        """If it is time. The first look at a partition comes an interval after its first turn."""
        now_ms, prefix = self._env.clock.now_ms(), converter.publisher.keys.prefix
        before_ms = self._looked_ms.setdefault(prefix, now_ms)
        if now_ms - before_ms < self._settings.orphan_interval_ms:
            return
        self._looked_ms[prefix] = now_ms
        found = await self.find(converter)
        for gone in [
            key for key in self._sighted if key.startswith(prefix + FILES) and key not in found
        ]:
            del self._sighted[gone]
        doomed = [stat for key, stat in found.items() if self._is_seen_again(key, now_ms)]
        for first in range(0, len(doomed), DELETES_MAX):
            batch = doomed[first : first + DELETES_MAX]
            failed = await self._store.delete([Doomed(one.key, one.version_id) for one in batch])
            self._stats.collected_orphans += len(batch) - len(failed)

    def due_ms(self, converter: PartitionConverter) -> float:
        before_ms = self._looked_ms.get(converter.publisher.keys.prefix, 0)
        return before_ms + self._settings.orphan_interval_ms

    def _is_seen_again(self, key: str, now_ms: int) -> bool:
        return now_ms - self._sighted.setdefault(key, now_ms) >= self._settings.orphan_interval_ms

    async def find(self, converter: PartitionConverter) -> dict[str, Stat]:
        """By their full keys."""
        in_flight, keys = converter.in_flight, converter.publisher.keys
        table = await converter.publisher.refresh()
        known = set(in_flight)
        files: list[TableFile] = []
        if table is not None:
            known |= {one.key for one in table.garbage}
            known |= {one.key for one in table.pages}
            files = await TableReader(self._store, keys, table).all_files()
            known |= {key for one in files for key in one.keys}
        found: dict[str, Stat] = {}
        sizes: dict[str, int] = {}
        async for page in self._store.list(keys.prefix + FILES):
            for stat in page:
                key = keys.relative(stat.key)
                sizes[stat.key] = stat.size
                if key is not None and key not in known and self._is_judged(key, stat, converter):
                    found[stat.key] = stat
        for one in files:
            if sizes.get(keys.full(one.key)) != one.size:
                converter.suspect(one)
        return found

    def _is_judged(self, key: str, stat: Stat, converter: PartitionConverter) -> bool:
        name = parse_file_key(key)
        if name is None and parse_page_key(key) is None:
            return False
        epoch = converter.publisher.writer.leader_epoch
        if name is not None and name.leader_epoch > epoch:
            return False
        age_ms = self._env.clock.now_ms() - stat.modified_ms
        return stat.modified_ms < 0 or age_ms >= self._settings.orphan_age_ms
