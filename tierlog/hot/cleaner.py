"""The cleaner of a node: keeps the last record of every key of its compacted logs.

Now and then it looks which log is the dirtiest and cleans that one, then the next, one at a time.
The work is done in threads, a piece at a time, and the cleaner rests between two pieces: for as
long as the piece took, so that it never has more than half of a core to itself, or for longer where
`log.cleaner.io.max.bytes.per.second` asks for it.

What always holds, whenever it is cut off: for every key the last record is at its offset, a
tombstone too until `delete.retention.ms` after the cleaning that made it clean, and no record has
another offset than before. Segments are swapped oldest first, each durably before the next: a
tombstone does not get its delete horizon before the values that it deletes are gone.

A log that cannot be cleaned, for want of room or because a batch of it is damaged, is left as it
is for a while, and the reason is told.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from tierlog.env import Env
from tierlog.hot.cleaning import Steps, Sweep, map_keys, rewrite
from tierlog.hot.dirt import CleaningRules, Dirt, groups_of, measure
from tierlog.hot.errors import CleaningOvertaken, LogClosed, LogError
from tierlog.hot.keymap import KeyMap
from tierlog.hot.log import Log
from tierlog.hot.segment import Segment
from tierlog.hot.settings import FLUSH_NEVER
from tierlog.hot.shared import to_its_end
from tierlog.hot.swapping import discard
from tierlog.records.errors import BatchError
from tierlog.types import Offset

logger = logging.getLogger(__name__)

T = TypeVar("T")

REST_S_MAX = 1.0
"""After one piece, for its time: a disk that hangs is not to stop the cleaner for as long again."""
LOGS_A_TURN = 200
"""Looked at before the loop has its turn."""
FAILED_S = 60.0
"""Until a log that could not be cleaned is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """Of a node; names and meaning are Kafka's, below `log.cleaner.`."""

    dedupe_bytes: int = 128 << 20
    """Room for the map of keys, some 670,000 of them; more are cleaned in several rounds."""
    bytes_per_second: float = float(FLUSH_NEVER)
    backoff_ms: int = 15_000
    """Between two looks while nothing is due."""


class Room(Protocol):
    """Who answers for the free space of the disk."""

    def check_room(self, size: int) -> None:
        """Raise `DiskFull` when `size` more bytes would eat into the reserve."""
        ...


class Candidate(NamedTuple):
    """A compacted log, and by which rules it is cleaned."""

    name: str
    log: Log
    rules: CleaningRules


@dataclass(slots=True)
class CleanerStats:
    """Since the node started."""

    cleanings: int = 0
    failures: int = 0
    read_bytes: int = 0
    """Of segments that were written anew."""
    written_bytes: int = 0
    dropped_records: int = 0
    dirty_ratio_max: float = 0.0
    """Of the dirtiest log, when somebody last looked."""
    last_error: str = ""
    cleaning: str = ""
    """The log that is being cleaned now."""


class _Done(NamedTuple, Generic[T]):
    result: T


class Cleaner:
    def __init__(
        self,
        env: Env,
        room: Room,
        candidates: Callable[[], Iterable[Candidate]],
        settings: CleanerSettings,
    ) -> None:
        self._env = env
        self._room = room
        self._candidates = candidates
        self._settings = settings
        self._resting: dict[str, float] = {}
        """Logs that could not be cleaned, and until when they are left alone."""
        self.stats = CleanerStats()

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(self._settings.backoff_ms / 1000)
            try:
                while (dirtiest := await self._dirtiest()) is not None:
                    await self._try(dirtiest)
            except Exception as fault:
                # A bug of ours: it is told, and must not end compaction until a restart.
                logger.exception("the cleaner stumbled")
                self.stats.failures += 1
                self.stats.last_error = str(fault)

    def dirt_of(self, one: Candidate) -> Dirt:
        return measure(
            one.log.cleanable(),
            cleaned_to=one.log.cleaned_to,
            log_start=one.log.log_start,
            rules=one.rules,
            now_ms=self._env.clock.now_ms(),
        )

    async def _dirtiest(self) -> Candidate | None:
        """Of those that are due; overdue ones first."""
        now = self._env.clock.monotonic()
        self._resting = {path: until for path, until in self._resting.items() if until > now}
        best: tuple[tuple[bool, float], Candidate] | None = None
        ratio_max = 0.0
        for number, one in enumerate(self._candidates(), 1):
            if number % LOGS_A_TURN == 0:
                await asyncio.sleep(0)
            try:
                dirt = self.dirt_of(one)
            except LogError:
                continue  # It is being closed or deleted.
            ratio_max = max(ratio_max, dirt.ratio)
            rank = (dirt.is_overdue, dirt.ratio)
            is_due = dirt.is_due(one.rules) and one.log.path not in self._resting
            if is_due and (best is None or rank > best[0]):
                best = rank, one
        self.stats.dirty_ratio_max = ratio_max
        return None if best is None else best[1]

    async def _try(self, one: Candidate) -> None:
        self.stats.cleaning = one.name
        try:
            await self.clean(one)
        except (CleaningOvertaken, LogClosed, FileNotFoundError) as reason:
            logger.info("%s: the cleaning was given up: %s", one.name, reason)
            self._rest(one)
        except (LogError, BatchError, OSError) as fault:
            logger.warning("%s could not be cleaned: %s", one.name, fault)
            self.stats.failures += 1
            self.stats.last_error = f"{one.name}: {fault}"
            self._rest(one)
        except Exception as fault:
            # A bug of ours: it is told, and must not keep the other logs from being cleaned.
            logger.exception("%s could not be cleaned", one.name)
            self.stats.failures += 1
            self.stats.last_error = f"{one.name}: {fault}"
            self._rest(one)
        finally:
            self.stats.cleaning = ""

    def _rest(self, one: Candidate) -> None:
        self._resting[one.log.path] = self._env.clock.monotonic() + FAILED_S

    async def clean(self, one: Candidate) -> None:
        """Clean what of the log is dirty now, in as many rounds as the map of keys needs."""
        dirt = self.dirt_of(one)
        before = self.stats.read_bytes, self.stats.written_bytes
        start = dirt.start
        while start < dirt.end:
            start = await self._clean_round(one, start, dirt.end)
        self.stats.cleanings += 1
        read = self.stats.read_bytes - before[0]
        if read:  # Else what was left to clean had no records.
            written = self.stats.written_bytes - before[1]
            sentence = "%s: cleaned up to offset %d, %d bytes became %d"
            logger.info(sentence, one.name, start, read, written)

    async def _clean_round(self, one: Candidate, start: Offset, end: Offset) -> Offset:
        """As far as the keys fit into the map; returns how far that was."""
        log, disk = one.log, self._env.disk
        segments = log.cleanable()
        keys = KeyMap(self._settings.dedupe_bytes)
        end = await self._drive(map_keys(disk, segments, keys, start=start, end=end))
        sweep = Sweep(
            keys=keys,
            end=end,
            now_ms=self._env.clock.now_ms(),
            delete_retention_ms=one.rules.delete_retention_ms,
            producer_ends={number: known.last.last_offset for number, known in log.producers},
        )
        for group in groups_of(segments, end=end, segment_bytes=log.settings.segment_bytes):
            await self._clean_group(log, group, sweep)
        log.note_cleaned(end)
        return end

    async def _clean_group(self, log: Log, group: tuple[Segment, ...], sweep: Sweep) -> None:
        await log.forget_replaced()
        size = sum(segment.size for segment in group)
        self._room.check_room(size)
        try:
            cleaned = await self._drive(rewrite(self._env.disk, log.path, group, sweep))
            if cleaned.is_changed:
                log.begin_swap(group, cleaned.numbers)
        except Exception:
            await self._discard(log, group)
            raise
        if not cleaned.is_changed:
            await self._discard(log, group)
            return
        await log.settle()
        self.stats.read_bytes += cleaned.read_bytes
        self.stats.written_bytes += cleaned.numbers.size
        self.stats.dropped_records += cleaned.dropped_records

    async def _discard(self, log: Log, group: tuple[Segment, ...]) -> None:
        with suppress(OSError):
            base = group[0].base_offset
            await to_its_end(self._env.tasks.in_thread(discard, self._env.disk, log.path, base))

    async def _drive(self, steps: Steps[T]) -> T:
        """Take all steps, each in a thread, and rest in between."""
        clock = self._env.clock
        with closing(steps):
            while True:
                began = clock.monotonic()
                outcome = await to_its_end(self._env.tasks.in_thread(_advance, steps))
                if isinstance(outcome, _Done):
                    result: T = outcome.result
                    return result
                took = min(clock.monotonic() - began, REST_S_MAX)
                await asyncio.sleep(max(took, outcome / self._settings.bytes_per_second))


def _advance(steps: Steps[T]) -> int | _Done[T]:
    try:
        return next(steps)
    except StopIteration as stop:
        return _Done(stop.value)
