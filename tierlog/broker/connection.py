"""One client connection: frames in, ordered replies out.

All complete frames of one wakeup are handled before one send goes out, unless they take long:
then everybody else has a turn in between. Replies leave in the order
of the requests, whatever finishes first. While a budget is used up or the peer does not read, no
further frame is taken: reading stops, and what was already received waits in its buffer.

Bad input ends its own connection and nothing else. When the peer goes away, whatever it still
waits for is cancelled.

Always holds: `_charged` is this connection's share of the node's budget, and goes back in full. It
counts memory only: slices of files that wait to be sent cost none. The connection's own limits
count them all.
"""

from __future__ import annotations

import asyncio
import logging
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from tierlog.broker.limits import TURN_PAUSE_S, TURN_S
from tierlog.broker.receiver import Receiver, size_at
from tierlog.broker.replies import Replies
from tierlog.broker.request import MayBlock, Parts, Peer
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.framing import SIZE_BYTES, frame_size

if TYPE_CHECKING:
    from tierlog.broker.listener import Listener
    from tierlog.env import Sender

log = logging.getLogger(__name__)

FLUSH_BYTES: Final = 48 * 1024
"""Replies of one wakeup leave together up to about here: below what a sender takes inline."""

_key_at = Struct(">h").unpack_from
_HEAD_BYTES: Final = SIZE_BYTES + 2


class Connection(Receiver):
    """See the module. A `Listener` makes them."""

    peer: Peer
    _transport: asyncio.Transport
    _sender: Sender

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener.buffers)
        self._listener = listener
        self._traffic = listener.traffic
        self._handle = listener.service.handle
        self._budget = listener.budget
        self._limits = listener.limits
        self._size_max = listener.limits.frame_bytes_max(is_produce=False)
        self._replies = Replies(self._on_answered)
        self._charged = 0
        self._is_open = False
        self._is_ending = False
        self._is_paused = False
        self._is_turn_over = False
        self.has_greeted = False
        """A whole request has come."""
        self.is_touched = True
        """Bytes have moved since the listener last looked."""
        self.queued_before = 0
        """What was queued when it last looked: not every sender tells of each step."""
        self.quiet_since_s = self.opened_s = listener.now_s()

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = self._listener.admit(self, self._transport)
        if peer is None:
            self._is_ending = True
            self._transport.abort()
            return
        self.peer = peer
        try:
            self._sender = self._listener.attach(
                self._transport, on_drained=self._on_drained, on_lost=self._on_send_failed
            )
        except OSError as error:
            self._is_ending = True
            self._listener.turn_away(self, error)
            self._transport.abort()
            return
        self._is_open = True

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_ending:
            return
        self._traffic.bytes_in += nbytes
        self.is_touched = True
        own = self._own
        if own is None:
            scratch = self._buffers.scratch
            if not (self._end or self._charged) and self._take_one(scratch, nbytes):
                return
            self._end += nbytes
            self._take_frames(scratch, must=False)
        else:
            self._end += nbytes
            # A large frame had its turn when its buffer grew; handling it gives the memory back.
            self._take_frames(own, must=self._has_large_buffer)

    def eof_received(self) -> bool:
        """The peer sends no more. It may have closed altogether, so nothing is worth waiting for;
        what is queued still leaves."""
        self._replies.cancel()
        if not self._sender.queued_bytes:
            self._is_ending = True
            return False
        self.end()
        return True

    def resume_writing(self) -> None:
        """Plain senders write through the transport, which tells here that its buffer is empty."""
        if self._is_open:
            self._on_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_open:
            return
        self._is_open, self._is_ending = False, True
        self._sender.abort()
        self._replies.cancel()
        self._drop_buffer()
        self._budget.leave(self._go_on)
        self._budget.change(-self._charged)
        self._listener.forget(self)

    # What the listener asks

    @property
    def is_stuck(self) -> bool:
        """Whether the peer owes us something: the rest of a frame, or reading its last replies."""
        return (self.is_mid_frame and not self.is_waiting) or (
            self._is_ending and not self._replies.held
        )

    @property
    def queued_bytes(self) -> int:
        """Replies that the peer has not taken."""
        return self._sender.queued_bytes

    @property
    def pending_count(self) -> int:
        """Requests taken and not answered."""
        return self._replies.count

    @property
    def is_waiting(self) -> bool:
        """Whether it is our turn: a request is not answered, or reading is paused."""
        return self._replies.held > 0 or self._is_paused

    def end(self) -> None:
        """Take no further request; close once those under way are answered. What still arrives is
        read and dropped: closing on unread bytes would reset, and lose replies on their way."""
        if self._is_ending:
            return
        self._is_ending = True
        self._drop_buffer()
        if self._is_paused and not self._transport.is_closing():
            self._transport.resume_reading()
        self._close_if_done()

    def abort(self) -> None:
        self._is_ending = True
        self._sender.abort()

    def rest(self) -> None:
        """Nothing has moved for a while: let go of a large buffer."""
        self._let_go_of_empty()
        self._settle()

    # Frames

    def _take_one(self, view: memoryview, end: int) -> bool:
        """The good road of a client that waits for each answer: just one frame has come, nothing
        is held here, and the answer is there at once. False: nothing was done."""
        budget, replies = self._budget, self._replies
        if end <= SIZE_BYTES or replies.held or budget.used >= budget.bytes_max:
            return False
        (size,) = size_at(view, 0)
        if size != end - SIZE_BYTES or size > self._size_max:
            return False
        sender, traffic = self._sender, self._traffic
        traffic.requests += 1
        self.has_greeted = True
        try:
            answer = self._handle(view[SIZE_BYTES:end], self.peer)
        except Exception as error:  # noqa: BLE001  ends this connection, not the loop
            self._refuse(error)
            return True
        if type(answer) is list:
            for part in answer:
                traffic.bytes_out += len(part)
            sender.send(answer)
        elif answer is not None:
            is_produce = _key_at(view, SIZE_BYTES)[0] == ApiKey.PRODUCE
            replies.add(answer, request_bytes=size, is_produce=is_produce)
            if isinstance(answer, list):  # A future tells when it is done.
                self._send_ready()
        if sender.queued_bytes or replies.held:
            self._settle()
            if self._must_pause():
                self._pause()
        return True

    def _take_frames(self, view: memoryview, *, must: bool) -> None:
        """Handle complete frames as far as the budgets allow, and keep the rest. With `must` one
        is handled in any case."""
        start, end, budget = self._start, self._end, self._budget
        # Most hold nothing when they wake; they need not look closer.
        is_free = not self._charged and budget.used < budget.bytes_max
        if is_free or must or not self._is_over_budget():
            start = self._handle_frames(view, start, end)
            if self._is_ending:
                self._close_if_done()
                return
        if start == end and self._own is None:
            self._start = self._end = 0
        else:
            self._keep(view, start, end)
            if self._must_grow and (must or not self._budget.is_full):
                # Who passes a full budget takes all it needs, or it would only stand in line again.
                self._grow(at_once=self._budget.is_full)
            elif self._budget.is_full:
                self._let_go_of_empty()
        if (
            self._charged
            or self._end
            or self._replies.held
            or self._sender.queued_bytes
            or self._own
        ):
            self._settle()
            if self._must_pause():
                self._pause()
            elif self._is_turn_over:
                self._pause()
                asyncio.get_running_loop().call_later(TURN_PAUSE_S, self._go_on)

    def _handle_frames(self, view: memoryview, start: int, end: int) -> int:
        """Returns where the first frame begins that was not handled."""
        handle, peer, replies, size_max = self._handle, self.peer, self._replies, self._size_max
        out: Parts = []
        out_bytes = count = 0
        failure: Exception | None = None
        now_s = self._listener.now_s
        turn_ends_s = now_s() + TURN_S
        self._is_turn_over = False
        while end - start >= SIZE_BYTES:
            if count and now_s() > turn_ends_s:
                self._is_turn_over = True
                break
            (size,) = size_at(view, start)
            try:
                if not 0 < size <= size_max and not self._may_have(view, start, end):
                    break
                stop = start + SIZE_BYTES + size
                if stop > end:
                    break
                count += 1
                answer = handle(view[start + SIZE_BYTES : stop], peer)
            except Exception as error:  # noqa: BLE001  ends this connection, not the loop
                failure = error
                break
            start = stop
            if answer is None:
                continue
            if type(answer) is list and not replies.held:
                out += answer
                for part in answer:
                    out_bytes += len(part)
                if out_bytes < FLUSH_BYTES:
                    continue
                self._send(out)
                out, out_bytes = [], 0
            else:
                is_produce = _key_at(view, stop - size)[0] == ApiKey.PRODUCE
                replies.add(answer, request_bytes=size, is_produce=is_produce)
                if isinstance(answer, MayBlock):
                    self._send(out)
                    out, out_bytes = [], 0
                    self._send_ready()
            if self._is_ending or self._is_over_budget():
                break
        if count:
            self.has_greeted = True
            self._traffic.requests += count
        if out:
            self._traffic.bytes_out += out_bytes
            self._sender.send(out)
        if failure is not None:
            self._refuse(failure)
        return start

    def _may_have(self, view: memoryview, start: int, end: int) -> bool:
        """Check a frame of unusual size; False: not yet, which limit holds is known once the api
        key is there. Raises BadFrame."""
        prefix = view[start : start + SIZE_BYTES]
        frame_size(prefix, bytes_max=self._limits.produce_bytes_max)
        if end - start < _HEAD_BYTES:
            return False
        if _key_at(view, start + SIZE_BYTES)[0] != ApiKey.PRODUCE:
            frame_size(prefix, bytes_max=self._size_max)
        return True

    # Replies

    def _send(self, parts: Parts) -> None:
        if not parts:
            return
        self._traffic.bytes_out += sum(map(len, parts))
        self._sender.send(parts, may_block=isinstance(parts, MayBlock))

    def _send_ready(self) -> None:
        """Send every reply whose turn it is, as few sends as their kinds allow."""
        out: Parts = []
        try:
            for parts in self._replies.ready():
                if isinstance(parts, MayBlock):
                    self._send(out)
                    self._send(parts)
                    out = []
                else:
                    out += parts
        except Exception as error:  # noqa: BLE001  a handler's; ends this connection only
            self._send(out)
            self._replies.cancel()
            self._refuse(error)
            return
        self._send(out)

    def _on_answered(self) -> None:
        self.is_touched = True
        self._send_ready()
        if self._is_ending:
            self._close_if_done()
        else:
            self._pace()

    def _on_drained(self) -> None:
        self.is_touched = True
        if not self._is_ending:
            self._pace()

    def _on_send_failed(self, error: Exception | None) -> None:
        """The peer went away, or bytes could not be read; the transport is lost next."""
        self._is_ending = True
        self._replies.cancel()
        if not isinstance(error, ConnectionError | None):
            self._traffic.failed_sends += 1
            log.error("sending to %s failed: %s", self.peer, error)

    def _close_if_done(self) -> None:
        if not self._replies.held:
            self._settle()
            self._sender.close()

    def _refuse(self, error: Exception) -> None:
        """End the connection for what its peer sent, or for what we made of it."""
        self._listener.note_refusal(self.peer, error)
        self.end()

    # Pace

    def _is_over_budget(self) -> bool:
        queued = self._sender.queued_bytes
        limits, budget = self._limits, self._budget
        return (
            queued > limits.reply_bytes_max
            or queued + self._replies.held > limits.in_flight_bytes_max
            or budget.used >= budget.bytes_max
        )

    def _must_pause(self) -> bool:
        if self._must_grow:
            return True
        # A frame that is under way goes on arriving where it has room: its memory is already held,
        # and only a whole frame can be handled and let go.
        return self._is_over_budget() and not self._is_filling

    def _settle(self) -> None:
        """Tell the node's budget what is held here now."""
        replies, sender = self._replies, self._sender
        queued = sender.queued_bytes
        held = replies.held - replies.mapped + self.kept_bytes
        if queued:
            held += queued - sender.mapped_bytes
        if held != self._charged:
            change, self._charged = held - self._charged, held
            self._budget.change(change)

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._traffic.pauses += 1
            if not self._transport.is_closing():
                self._transport.pause_reading()
        if self._budget.is_full:
            self._budget.wait(self._go_on)

    def _pace(self) -> None:
        self._settle()
        if not self._is_paused:
            return
        if self._budget.is_full:
            self._budget.wait(self._go_on)
        elif self._has_room():
            self._go_on()

    def _has_room(self) -> bool:
        """Half is gone: do not start and stop for every reply."""
        queued = self._sender.queued_bytes
        return (
            queued <= self._limits.reply_bytes_max // 2
            and queued + self._replies.held <= self._limits.in_flight_bytes_max // 2
        )

    def _go_on(self) -> None:
        if self._is_ending or not self._is_paused:
            return
        self._is_paused = False
        self._take_frames(self._load(), must=True)
        self._resume_reading()

    def _resume_reading(self) -> None:
        if not (self._is_paused or self._is_ending or self._transport.is_closing()):
            self._transport.resume_reading()
