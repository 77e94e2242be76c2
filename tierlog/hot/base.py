"""What a log consists of, where it ends, and who waits for its ends.

The other modules of a log are layers on this one, each with a reason of its own to change:
`syncing` (what becomes durable when), `sealed` (what takes no more appends), `compacting` (what a
cleaned segment replaces), `shortening` (what goes), `closing` (how it ends) and `log` itself
(appending and reading). All fields are here, so that each layer finds them in one place.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from tierlog.hot.errors import LogBroken, LogClosed, LogError, ReadFailed
from tierlog.hot.job import Pending
from tierlog.hot.opening import Opened
from tierlog.hot.segments import SegmentList
from tierlog.hot.settings import LogSettings
from tierlog.hot.store import refused
from tierlog.hot.waiters import Waiter, Waiters
from tierlog.hot.watchers import Watcher, Watchers
from tierlog.types import Offset

if TYPE_CHECKING:
    from tierlog.hot.directory import LogDirectory


class LogState:
    __slots__ = (
        "_active",
        "_boot",
        "_bytes_since_checkpoint",
        "_checkpoint_bytes",
        "_clean_end",
        "_closed_clean",
        "_closing",
        "_directory",
        "_disk",
        "_ended",
        "_first_unsynced_ms",
        "_flush_messages",
        "_jobs",
        "_messages_since_sync",
        "_names_replaced",
        "_pending",
        "_pool",
        "_refusal",
        "_shown_end",
        "_shows_at_once",
        "_stamps",
        "_sync_requested",
        "_waiters",
        "_watchers",
        "cleaned_to",
        "compacted",
        "durable_end",
        "epochs",
        "gaps",
        "is_deleted",
        "log_end",
        "log_start",
        "path",
        "producers",
        "scanned_bytes",
        "segments",
        "settings",
        "trimmed_to",
    )

    def __init__(self, directory: "LogDirectory", name: str, settings: LogSettings) -> None:
        self.path = f"{directory.path}/{name}"
        self._adopt(settings)
        self._directory = directory
        self._disk = directory.disk
        self._pool = directory.pool
        self._boot = directory.disk.boot_id()
        self._waiters = Waiters()
        self._watchers = Watchers()
        self._jobs: list[Pending] = []
        self._refusal: str | None = None
        self._closing = False
        self._closed_clean = False
        self._ended = False
        self.is_deleted = False

    def _begin(self, opened: Opened) -> None:
        """Go on from what was found on the disk."""
        directory = self._directory
        recovered = opened.recovered
        self.scanned_bytes = recovered.scanned_bytes
        self.gaps = recovered.gaps
        self.log_start = recovered.log_start
        self.trimmed_to = recovered.trimmed_to
        self.cleaned_to = recovered.cleaned_to
        self.compacted = recovered.compacted
        self._names_replaced = recovered.names_replaced
        if self.compacted:
            self._adopt(replace(self.settings, contiguous=False))
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        self.segments = SegmentList(self.path, opened.damage)
        for segment in recovered.segments:
            segment.move_to(self._pool)
            trusted = recovered.trusted_from.get(segment.base_offset, segment.size)
            self.segments.add(segment, trusted_from=trusted)
        self._active = recovered.segments[-1]
        self._active.activate(space=directory)
        if self._active.size and self._active.first_append_ms < 0:
            self._active.first_append_ms = directory.env.clock.now_ms()
        self.log_end = self.durable_end = self._shown_end = self._active.next_offset
        self._closed_clean = recovered.is_clean
        self._clean_end = self.log_end
        self._pending = Pending()
        self._bytes_since_checkpoint = 0
        self._messages_since_sync = 0
        self._first_unsynced_ms = 0
        self._sync_requested = False

    def _adopt(self, settings: LogSettings) -> None:
        self.settings = settings
        self._stamps = settings.log_append_time
        self._flush_messages = settings.flush_messages
        self._shows_at_once = settings.flush_messages != 1
        self._checkpoint_bytes = settings.checkpoint_bytes

    @property
    def visible_end(self) -> Offset:
        """What consumers may see of this replica."""
        if self._shows_at_once:
            return self.log_end
        return max(self._shown_end, self.durable_end)

    @property
    def size_bytes(self) -> int:
        """Bytes of batches on the disk; indexes and reserved blocks do not count."""
        return sum(segment.size for segment in self.segments)

    # Waiting

    def watch(self, callback: Watcher) -> None:
        """Call back on the loop whenever more is visible, or the log failed, closed or was cut."""
        self._watchers.add(callback)

    def unwatch(self, callback: Watcher) -> None:
        self._watchers.remove(callback)

    def _show(self) -> None:
        """The visible end moved up."""
        self._waiters.wake(self.visible_end)
        self._watchers.notify()

    def wait_visible(self, end: Offset) -> asyncio.Future[None]:
        """Done once everything below `end` is visible; fails with the log.

        `end` may lie beyond the log end: then it is done when that much was appended.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tell_visible(end, future)
        return future

    def tell_visible(self, end: Offset, waiter: Waiter) -> None:
        """The same for somebody who need not be a future."""
        if self._refusal is not None:
            waiter.set_exception(self._refused())
        elif end <= self.visible_end:
            waiter.set_result(None)
        else:
            self._waiters.add(end, waiter)

    # Refusing

    def _read_fault(self, fault: OSError) -> Exception:
        known = refused(fault)
        return ReadFailed(fault.filename or self.path, fault) if known is fault else known

    def _write_fault(self, fault: OSError) -> Exception:
        known = refused(fault)
        return self._directory.syncs.latch(fault) if known is fault else known

    def _require_files(self) -> None:
        if self._ended:
            raise self._refused()

    def _require_open(self) -> None:
        if self._refusal is not None:
            raise self._refused()

    def _refused(self) -> LogError:
        assert self._refusal is not None
        if self._directory.broken is not None:
            return LogBroken(self._refusal)
        return LogClosed(f"{self.path}: {self._refusal}")
