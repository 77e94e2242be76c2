"""What this node serves: the ApiVersions table, derived from the registered handlers.

A handler is registered with the versions it is right for, and only what is registered is told to
clients: they adapt to an API that is missing, not to one that answers wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type
from tierlog.wire.messages.api_versions import ApiVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

H = TypeVar("H")

PRODUCE_MIN_ADVERTISED: Final = 0
"""Produce below v3 is refused, yet shown: older librdkafka reads its features off this number
(KAFKA-18659)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration(Generic[H]):
    """One API: the versions that are served, both ends inclusive, and what serves them."""

    api: ApiKey
    version_min: int
    version_max: int
    handler: H


class Registry(Generic[H]):
    """The table of what is served. Its rows are what ApiVersions tells."""

    def __init__(self) -> None:
        self._rows: dict[int, Registration[H]] = {}

    def register(
        self,
        api: ApiKey,
        handler: H,
        *,
        version_min: int | None = None,
        version_max: int | None = None,
    ) -> None:
        """Serve an API, by default in all versions that have a schema."""
        known = request_type(api).versions
        first = known.first if version_min is None else version_min
        last = known.last if version_max is None else version_max
        if api in self._rows:
            raise ValueError(f"{api.name} is registered twice")
        if first > last or first not in known or last not in known:
            raise ValueError(f"{api.name} has a schema for v{known}, not for v{first}-{last}")
        self._rows[api] = Registration(
            api=api, version_min=first, version_max=last, handler=handler
        )

    def find(self, api_key: int, version: int) -> Registration[H] | None:
        """The registration that serves this version, or None."""
        row = self._rows.get(api_key)
        if row is None or not row.version_min <= version <= row.version_max:
            return None
        return row

    def __contains__(self, api_key: int) -> bool:
        return api_key in self._rows

    def __iter__(self) -> Iterator[Registration[H]]:
        return (self._rows[key] for key in sorted(self._rows))

    def api_versions(self) -> list[ApiVersion]:
        """The rows of an ApiVersions response, by rising key."""
        return [
            ApiVersion(
                api_key=row.api,
                min_version=_advertised_min(row.api, row.version_min),
                max_version=row.version_max,
            )
            for row in self
        ]


def _advertised_min(api: ApiKey, served_min: int) -> int:
    return PRODUCE_MIN_ADVERTISED if api is ApiKey.PRODUCE else served_min
