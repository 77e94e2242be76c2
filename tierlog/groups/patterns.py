"""Patterns of subscriptions, and which topics they match.

RE2 matches them: its time is linear in the name whatever the pattern, and its memory bounded. A
pattern must match the whole name. Ten thousand names take a while, so matching goes on in steps,
and what is known of a pattern is not asked again: only of names that came since. What is remembered
is bounded, by patterns and by names; what was forgotten is found again.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import re2

from tierlog.errors import Kind, TierlogError

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable

PATTERN_BYTES_MAX: Final = 1 << 20
"""Of a compiled pattern; RE2 refuses what needs more."""
NAMES_A_STEP: Final = 200
"""Below a millisecond with usual patterns; the worst ones that RE2 takes need some."""
PATTERNS_MAX: Final = 1_000
NAMES_MAX: Final = 1_000_000
"""That all remembered patterns match together."""


class InvalidPattern(TierlogError):
    """A subscription's pattern is not in RE2's language, or too large."""

    kind = Kind.INVALID


class Found(NamedTuple):
    names: frozenset[str]
    among: Collection[str]


class Matches:
    """What patterns were found to match, those asked for last."""

    def __init__(self) -> None:
        self._found: dict[str, Found] = {}
        self._names = 0

    def __len__(self) -> int:
        return len(self._found)

    def get(self, pattern: str) -> Found | None:
        return self._found.get(pattern)

    def put(self, pattern: str, found: Found) -> None:
        self._drop(pattern)
        self._found[pattern] = found
        self._names += len(found.names)
        while len(self._found) > PATTERNS_MAX or (self._names > NAMES_MAX and len(self._found) > 1):
            self._drop(next(iter(self._found)))

    def _drop(self, pattern: str) -> None:
        if (known := self._found.pop(pattern, None)) is not None:
            self._names -= len(known.names)


def steps(
    pattern: str, names: Collection[str], known: Found | None
) -> Generator[None, None, Found]:
    """Match in steps. `known` is what it matches among other names. Raises `InvalidPattern` at the
    first step."""
    is_match = compiled(pattern).fullmatch
    others = iter(names) if known is None else iter(set(names).difference(known.among))
    found = set() if known is None else set(known.names.intersection(names))
    while some := list(islice(others, NAMES_A_STEP)):
        found.update(name for name in some if is_match(name.encode()) is not None)
        yield
    return Found(frozenset(found), names)


def matched(pattern: str, names: Iterable[str]) -> set[str]:
    """At once, of a few names. Raises `InvalidPattern`."""
    is_match = compiled(pattern).fullmatch
    return {name for name in names if is_match(name.encode()) is not None}


def compiled(pattern: str) -> re2._Regexp:
    """Raises `InvalidPattern`."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = PATTERN_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidPattern(
            f"{pattern!r:.300} is not a regular expression of RE2: {error}; see its syntax page"
        ) from None
