"""Replies around the transport: sendmsg on a descriptor of our own.

Small replies leave by one non-blocking sendmsg on the loop, and so do large ones while there are
few of them: handing one over costs as much as copying a good part of it. When there are more, and
for those whose pages may have to come from the disk, one of two threads sends: sendmsg drops the
GIL, so the loop goes on while the kernel copies. When the kernel takes no more, the thread waits a
moment and then hands the rest back to the loop, which waits for the peer: a slow reader never holds
a thread.

The descriptor is a duplicate: uvloop lets nobody else wait on a transport's own. It is closed only
when no thread holds it, or its number could be reused under a running send.

Parts may be views of mapped files. They are only ever given to the kernel: a page that was cut off
then fails with EFAULT, which costs one connection, where touching it would end the process.

Always holds: one of idle, with a thread, or waiting for the peer; only idle senders send.
"""

import asyncio
import os
import select
import socket
import threading
from queue import SimpleQueue
from typing import Final

from tierlog.env.mapping import mapped_bytes
from tierlog.env.senders import LINGER_S, OnDrained, OnLost, PlainSender, Sender
from tierlog.types import Bytes

INLINE_BYTES_MAX: Final = 64 * 1024
"""What the loop always copies itself: some 10 us. Handing over to a thread costs more than that."""
LARGE_BYTES_MAX: Final = (1 << 20) + 4096
"""What the loop copies itself while a thread is free: a usual fetch, some 120 us."""
TURN_BYTES_MAX: Final = 1 << 20
"""What it copies of those in one turn, however many are asked for: everybody else waits."""
THREAD_COUNT: Final = 2
PARTS_MAX: Final = min(1024, os.sysconf("SC_IOV_MAX"))
"""What one sendmsg takes."""
PATIENCE_MS: Final = 5
"""How long a thread waits for a peer that was reading a moment ago."""
WAITS_MAX: Final = 20
"""How often in one go: a peer that reads little by little shall not hold a thread either."""


class Crew:
    """The threads as the loop sees them, and how much it has copied in their place."""

    __slots__ = ("_turn_bytes", "jobs", "working")

    def __init__(self) -> None:
        self.jobs: SimpleQueue[DirectSender | None] = SimpleQueue()
        self.working = 0
        """Senders with a thread, or waiting for one."""
        self._turn_bytes = 0

    def may_inline(self, size: int, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the loop shall send a large reply itself; counts it if so."""
        if size > LARGE_BYTES_MAX or self.working >= THREAD_COUNT:
            return False
        if not self._turn_bytes:
            loop.call_soon(self._end_turn)
        elif self._turn_bytes + size > TURN_BYTES_MAX:
            return False
        self._turn_bytes += size
        return True

    def _end_turn(self) -> None:
        self._turn_bytes = 0


class DirectSender:
    """The write side of one connection. Everything but `_work` runs on the loop."""

    __slots__ = (
        "_crew",
        "_has_thread",
        "_is_closing",
        "_is_dead",
        "_is_waiting",
        "_job",
        "_job_mapped_bytes",
        "_loop",
        "_may_block",
        "_on_drained",
        "_on_lost",
        "_queue",
        "_socket",
        "_timer",
        "_transport",
        "mapped_bytes",
        "queued_bytes",
    )

    def __init__(
        self,
        crew: Crew,
        transport: asyncio.Transport,
        *,
        on_drained: OnDrained,
        on_lost: OnLost,
    ) -> None:
        self.queued_bytes = self.mapped_bytes = 0
        self._crew = crew
        self._transport = transport
        self._on_drained = on_drained
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._socket = _duplicate(transport)
        self._queue: list[Bytes] = []
        self._may_block = False
        self._job: list[Bytes] = []
        self._job_mapped_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._has_thread = self._is_waiting = self._is_closing = self._is_dead = False

    def send(self, parts: list[Bytes], *, may_block: bool = False) -> None:
        if self._is_dead or self._is_closing:
            return
        size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        if (
            not self.queued_bytes
            and not may_block
            and (size <= INLINE_BYTES_MAX or self._crew.may_inline(size, self._loop))
        ):
            self._send_now(parts, size)
            return
        is_idle = not self.queued_bytes
        self._queue += parts
        self._may_block |= may_block
        self.queued_bytes += size
        self.mapped_bytes += mapped_bytes(parts)
        if is_idle:
            self._go_on()

    def close(self) -> None:
        self._is_closing = True
        if not self.queued_bytes and not self._is_dead:
            _shut_down(self._socket, socket.SHUT_WR)
            self._die()
            self._timer = self._loop.call_later(LINGER_S, self._transport.close)

    def abort(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        elif self._is_dead:
            return
        else:
            self._die()
        self._transport.abort()

    # On the loop

    def _send_now(self, parts: list[Bytes], size: int) -> None:
        """Nothing is queued: one try. What the kernel does not take waits for the peer."""
        try:
            if len(parts) == 1:
                sent = self._socket.send(parts[0])
            else:
                sent = self._socket.sendmsg(parts[:PARTS_MAX])
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._fail(error)
            return
        if sent != size:
            self._queue = parts.copy()
            drop(self._queue, sent)
            self.queued_bytes = size - sent
            self.mapped_bytes = mapped_bytes(self._queue)
            self._wait_for_peer()

    def _go_on(self) -> None:
        """Something is queued and nobody sends it."""
        parts, self._queue = self._queue, []
        if self.queued_bytes <= INLINE_BYTES_MAX and not self._may_block:
            size, self.queued_bytes, self.mapped_bytes = self.queued_bytes, 0, 0
            self._send_now(parts, size)
        else:
            self._job, self._may_block = parts, False
            self._job_mapped_bytes = self.mapped_bytes
            self._has_thread = True
            self._crew.working += 1
            self._crew.jobs.put(self)

    def _wait_for_peer(self) -> None:
        self._is_waiting = True
        self._loop.add_writer(self._socket.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        self._stop_waiting()
        self._go_on()
        self._tell()

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._socket.fileno())

    def _on_worked(self, sent: int, error: OSError | None) -> None:
        """The thread is through, with or without a rest."""
        self._has_thread = False
        self._crew.working -= 1
        job, self._job = self._job, []
        if self._is_dead:
            self._socket.close()
        elif error is not None:
            self._fail(error)
        else:
            self.queued_bytes -= sent
            if self._job_mapped_bytes:
                self.mapped_bytes -= self._job_mapped_bytes - mapped_bytes(job)
            if job:
                self._queue = job + self._queue
                # What a thread began a thread ends: the rest of a large reply may be cold as well.
                self._may_block = True
                self._wait_for_peer()
            elif self._queue:
                self._go_on()
            self._tell()

    def _tell(self) -> None:
        if self._is_dead:
            return
        if self._is_closing and not self.queued_bytes:
            self.close()
        else:
            self._on_drained()

    def _fail(self, error: OSError) -> None:
        self._on_lost(error)
        self.abort()

    def _die(self) -> None:
        self._stop_waiting()
        self._is_dead = True
        self._queue = []
        self.queued_bytes = self.mapped_bytes = 0
        if not self._has_thread:
            self._socket.close()
        else:
            _shut_down(
                self._socket, socket.SHUT_RDWR
            )  # Ends the thread's send; it closes when it is back.

    # In a thread

    def work(self) -> None:
        sent, error = 0, None
        try:
            sent = self._push()
        except OSError as failed:
            error = failed
        try:
            self._loop.call_soon_threadsafe(self._on_worked, sent, error)
        except RuntimeError:  # The loop is closed, and nobody is left to close this.
            self._socket.close()

    def _push(self) -> int:
        """Send as much of the job as the peer takes without making the thread wait for long."""
        job, send = self._job, self._socket.sendmsg
        total = waits = 0
        while job:
            try:
                sent = send(job[:PARTS_MAX])
            except BlockingIOError:
                waits += 1
                if waits > WAITS_MAX or not _may_write(self._socket):
                    break
                continue
            total += sent
            drop(job, sent)
        return total


class DirectSenders:
    """Makes direct senders, and plain ones where the bytes must pass through the transport."""

    def __init__(self) -> None:
        self._crew = Crew()
        self._threads: list[threading.Thread] = []

    def attach(
        self, transport: asyncio.Transport, *, on_drained: OnDrained, on_lost: OnLost
    ) -> Sender:
        is_plain = transport.get_extra_info("socket") is not None
        if not is_plain or transport.get_extra_info("sslcontext") is not None:
            return PlainSender(transport)
        if not self._threads:
            self._start()
        return DirectSender(self._crew, transport, on_drained=on_drained, on_lost=on_lost)

    def close(self) -> None:
        threads, self._threads = self._threads, []
        for _ in threads:
            self._crew.jobs.put(None)
        for thread in threads:
            thread.join()

    def _start(self) -> None:
        # Daemons: whoever forgets `close` shall still be able to leave.
        self._threads = [
            threading.Thread(target=self._serve, name=f"tierlog-send-{number}", daemon=True)
            for number in range(THREAD_COUNT)
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self) -> None:
        while (sender := self._crew.jobs.get()) is not None:
            sender.work()
            del sender  # Or an idle thread would keep the last one, and what it sent, alive.


def drop(parts: list[Bytes], count: int) -> None:
    """Take the first `count` bytes off the parts."""
    whole = 0
    for part in parts:
        if len(part) > count:
            break
        count -= len(part)
        whole += 1
    del parts[:whole]
    if count:
        parts[0] = memoryview(parts[0])[count:]


def _duplicate(transport: asyncio.Transport) -> socket.socket:
    original = transport.get_extra_info("socket")
    copy = socket.fromfd(original.fileno(), original.family, original.type)
    try:
        copy.setblocking(False)
        if original.family in (socket.AF_INET, socket.AF_INET6):
            copy.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        copy.close()
        raise
    return copy


def _may_write(peer: socket.socket) -> bool:
    poll = select.poll()
    poll.register(peer, select.POLLOUT)
    return bool(poll.poll(PATIENCE_MS))


def _shut_down(peer: socket.socket, how: int) -> None:
    try:
        peer.shutdown(how)
    except OSError:  # The peer was faster.
        return
