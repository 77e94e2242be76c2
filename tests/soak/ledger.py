"""What is known of one partition from outside: what was acked, and what may be gone by now.

Its only writer numbers the records, and is idempotent: the record of number N must have offset N,
whatever happens to the node. So a few numbers remember everything, for hours:

- A record is acked once, at its own offset; a reader finds there the bytes that were sent.
- The beginning never goes back. It moves no further than retention and DeleteRecords let it:
  whatever is above is not lost. For that the ledger knows from when on which record was sent, to a
  tenth of a second, and the shortest retention that was in force.

Used from several threads.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from hashlib import shake_128

STEP_MS = 100
BATCH_OVERHEAD = 120
"""Of a record alone in its batch: 61 for the batch, and its own fields; rounded up."""
NO_LIMIT = -1


def value_of(name: str, number: int, size: int) -> bytes:
    """Bytes that nobody else has."""
    head = b"%s %d " % (name.encode(), number)
    return head + shake_128(head).digest(size - len(head))


def wall_ms() -> int:
    return int(time.time() * 1000)


class Ledger:
    def __init__(
        self,
        name: str,
        *,
        value_bytes: int,
        retention_ms: int,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        """`name`: of the partition and of this life of its topic."""
        self.name = name
        self.value_bytes = value_bytes
        self.sent_end = 0
        self.acked_end = 0
        self.start = 0
        """As last seen."""
        self.checked = 0
        """Records that somebody read and compared."""
        self.problems: list[str] = []
        self._now_ms = now_ms
        self._retention_ms = retention_ms
        self._retention_bytes = NO_LIMIT
        self._may_be_gone = 0
        self._sent_at: deque[tuple[int, int]] = deque()
        """Times, and the first number that was sent then or later."""
        self._turn = threading.Lock()

    # Written

    def next_value(self) -> tuple[bytes, int]:
        """The next record to send, and its timestamp."""
        with self._turn:
            now_ms, number = self._now_ms(), self.sent_end
            last_ms = self._sent_at[-1][0] if self._sent_at else 0
            if now_ms >= last_ms + STEP_MS:
                self._sent_at.append((now_ms, number))
            self.sent_end += 1
        return value_of(self.name, number, self.value_bytes), max(now_ms, last_ms)

    def acked(self, offset: int) -> None:
        with self._turn:
            if offset != self.acked_end:
                self._blame(f"record {self.acked_end} was acked at offset {offset}")
            self.acked_end += 1

    # Read

    def check(self, offset: int, value: bytes | None) -> None:
        with self._turn:
            self.checked += 1
            if value != value_of(self.name, offset, self.value_bytes):
                self._blame(f"other bytes at offset {offset}: {(value or b'')[:40]!r}")

    def skipped(self, wanted: int, found: int) -> None:
        """A reader wanted an offset and got another one."""
        with self._turn:
            self._blame(f"offset {wanted} was wanted, and {found} came")

    def saw_start(self, start: int) -> None:
        with self._turn:
            if start < self.start:
                self._blame(f"the beginning went back from {self.start} to {start}")
            self._allow()
            if start > self._may_be_gone:
                self._blame(
                    f"records from {self._may_be_gone} on are kept, but the beginning is {start}"
                )
            self.start = max(self.start, start)

    # Allowed

    def retention_begins(self, retention_ms: int, retention_bytes: int) -> None:
        """It is being altered: until that is done the node may go by either."""
        with self._turn:
            self._allow()
            self._retention_ms = _stricter(self._retention_ms, retention_ms)
            self._retention_bytes = _stricter(self._retention_bytes, retention_bytes)

    def retention_is(self, retention_ms: int, retention_bytes: int) -> None:
        with self._turn:
            self._allow()
            self._retention_ms, self._retention_bytes = retention_ms, retention_bytes

    def deletes(self, before: int) -> None:
        """DeleteRecords is being asked for."""
        with self._turn:
            self._may_be_gone = max(self._may_be_gone, before)

    def _allow(self) -> None:
        """What may be gone by now, by the retention in force."""
        gone = self._may_be_gone
        if self._retention_ms != NO_LIMIT:
            gone = max(gone, self._first_since(self._now_ms() - self._retention_ms))
        if self._retention_bytes != NO_LIMIT:
            # Twice what a record takes: what is kept may be counted with its indexes.
            kept = self._retention_bytes // (2 * (self.value_bytes + BATCH_OVERHEAD))
            gone = max(gone, self.sent_end - kept)
        self._may_be_gone = gone

    def _first_since(self, time_ms: int) -> int:
        while self._sent_at and self._sent_at[0][0] < time_ms:
            self._sent_at.popleft()
        return self._sent_at[0][1] if self._sent_at else self.sent_end

    def _blame(self, problem: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(f"{self.name}: {problem}")


def _stricter(one: int, other: int) -> int:
    return max(one, other) if NO_LIMIT in (one, other) else min(one, other)
