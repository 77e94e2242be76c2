"""Deliberate faults of expiry and merging. `tests.crashpoints.expiry_bugs` has those of collection.

Where a second line of defence covers the first, both are undone, and it says so.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.crashpoints.expiry_bugs import unchecked
from tierlog.cold import chain, expiry, replacing
from tierlog.cold.entry import Entry
from tierlog.cold.head import Head


def expired_too_young() -> AbstractContextManager[object]:
    """A segment's life counts from nowhere."""
    return patch.object(expiry, "last_ms", lambda _: 0)


@contextmanager
def merged_over_the_next() -> Iterator[None]:
    """The slice behind the run begins one too late; neither what lists the leaves nor what checks
    a HEAD looks inside pages, and here nobody looks at HEAD either."""
    done = replacing._Replacing.done

    def careless(self: Any, run: Any, merged: Any, entries: Any) -> Any:
        place = [one.key for one in entries].index(merged.key) + 1
        return done(self, run, merged, (*entries[:place], *entries[place + 1 :]))

    with (
        patch.object(replacing._Replacing, "done", careless),
        unchecked("tiling", "chain", "totals", "history", "links"),
    ):
        yield


@contextmanager
def merged_without_link() -> Iterator[None]:
    """What is merged takes the next value of the chain, as an upload does; nobody replays it."""

    def as_uploaded(merged: Entry, sources: Any, *, before: str) -> Entry:
        return chain.linked(before, [merged])[0]

    with (
        patch.object(chain, "replacing", as_uploaded),
        patch.object(chain, "replay", lambda *_, **__: None),
        patch.object(replacing, "require_same", lambda *_, **__: None),
        unchecked("chain", "history", "links"),
    ):
        yield


@contextmanager
def replaced_not_garbage() -> Iterator[None]:
    """What was merged is not listed any more, and that is that: it is an orphan then."""
    replaced = replacing.replaced

    def careless(head: Head, *args: Any, **kwargs: Any) -> Any:
        made = replaced(head, *args, **kwargs)
        return made._replace(head=replace(made.head, garbage=head.garbage))

    with patch.object(replacing, "replaced", careless), unchecked("links"):
        yield
