"""A store in memory that keeps versions, as S3 does where it is told to."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from tierlog.env import Clock
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Body, DeleteFailed, Doomed, Got, Outcome, Span, Stat, Written
from tierlog.objectstore.shelf import Item, Shelf


class VersionedStore(MemoryStore):
    """Nothing goes: a deletion lays a marker over the key, a write another version."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.versions: dict[str, dict[str, Item]] = {}
        self.current: dict[str, str] = {}
        self._numbers = count(1)

    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        got = self._shelf_of(key, version_id).get(key, span=span, etag=etag)
        return replace(got, stat=self._named(got.stat, version_id))

    async def head(self, key: str, *, version_id: str | None = None) -> Stat:
        return self._named(self._shelf_of(key, version_id).stat(key), version_id)

    def _shelf_of(self, key: str, version_id: str | None) -> Shelf:
        if version_id is None:
            return self.shelf
        shelf = Shelf()
        found = self.versions.get(key, {}).get(version_id)
        if found is None:
            raise NoSuchObject(key)
        shelf.items[key] = found
        return shelf

    def _named(self, stat: Stat, version_id: str | None) -> Stat:
        return replace(stat, version_id=version_id or self.current[stat.key])

    async def put(self, key: str, body: Body) -> Written:
        return self._kept(key, await super().put(key, body))

    async def put_if_absent(self, key: str, body: Body) -> Written:
        return self._kept(key, await super().put_if_absent(key, body))

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        return self._kept(key, await super().put_if_match(key, body, etag=etag))

    def _kept(self, key: str, written: Written) -> Written:
        if written.outcome is not Outcome.WON:
            return written
        name = f"v{next(self._numbers)}"
        self.versions.setdefault(key, {})[name] = self.shelf.items[key]
        self.current[key] = name
        return replace(written, version_id=name)

    async def delete(self, doomed: Sequence[Doomed]) -> Sequence[DeleteFailed]:
        for one in doomed:
            if one.version_id is None:
                self.shelf.items.pop(one.key, None)  # A marker; the versions stay.
            else:
                self.versions.get(one.key, {}).pop(one.version_id, None)
        return ()
