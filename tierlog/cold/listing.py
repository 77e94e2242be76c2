"""What lies below a prefix, without listing all of it."""

from collections.abc import AsyncIterator

from tierlog.objectstore.port import ObjectStore

BEHIND_SLASH = "0"
"""The character that follows "/": every key below `a/` comes before `a0`."""


async def folders(store: ObjectStore, prefix: str) -> AsyncIterator[str]:
    """Names directly below `prefix` with something below them, in order. One request a name, and
    one that finds no more; objects directly below `prefix` are passed over."""
    after = ""
    while (key := await first_key(store, prefix, after=after)) is not None:
        name, slash, _ = key.removeprefix(prefix).partition("/")
        if slash:
            yield name
        after = f"{prefix}{name}{BEHIND_SLASH}" if slash else key


async def first_key(store: ObjectStore, prefix: str, *, after: str = "") -> str | None:
    """The first key below `prefix` that comes after `after`."""
    async for page in store.list(prefix, after=after):
        if page:
            return page[0].key
    return None
