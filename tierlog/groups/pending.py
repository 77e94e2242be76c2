"""Ids of a classic group that were given out and not joined with yet."""

from __future__ import annotations


class Pending:
    def __init__(self) -> None:
        self.ends_ms: dict[str, int] = {}
        """Until when each is kept."""
        self.bytes = 0
        """Of the ids, all together."""

    def __len__(self) -> int:
        return len(self.ends_ms)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.ends_ms

    def add(self, member_id: str, *, until_ms: int) -> None:
        assert member_id not in self.ends_ms, "every id is new"
        self.ends_ms[member_id] = until_ms
        self.bytes += len(member_id)

    def take(self, member_id: str) -> bool:
        """Whether it was there; it is not any more."""
        if self.ends_ms.pop(member_id, None) is None:
            return False
        self.bytes -= len(member_id)
        return True

    def expire(self, now_ms: int) -> None:
        for member_id in [key for key, end_ms in self.ends_ms.items() if end_ms <= now_ms]:
            self.take(member_id)
