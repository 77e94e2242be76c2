"""One connection to one broker.

    connection = await Connection.connect("localhost", 9092, client_id="me")
    answer = await connection.call(MetadataRequest(topics=None))

A connection is opened with ApiVersions; every request then travels at the highest version that both
sides know. `send` writes at once and returns a future, so requests leave in the order of the calls
and many may be under way. A broker answers in order: the next frame belongs to the oldest request,
and its correlation id is checked against it.

Whatever goes wrong (the peer closes, an answer is late or makes no sense) ends the connection, and
every request under way fails with an `OutcomeUnknown`. A connection never comes back to life.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tierlog.client.errors import (
    BadAnswer,
    ConnectionLost,
    NotConnected,
    OutcomeUnknown,
    RequestTimedOut,
    VersionNotShared,
)
from tierlog.client.frames import FrameCutter
from tierlog.client.handshake import ApiRanges, agree
from tierlog.types import Bytes
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type
from tierlog.wire.errors import WireError
from tierlog.wire.framing import FRAME_BYTES_MAX, framed
from tierlog.wire.header import decode_response, encode_request
from tierlog.wire.messages.produce import ProduceRequest, ProduceResponse
from tierlog.wire.schema import Request, Response

CORRELATION_ID_MAX = 2**31 - 1


@dataclass(slots=True)
class Waiter:
    """A request under way. `api` is None where the caller wants the answer's bytes."""

    correlation_id: int
    future: "asyncio.Future[Response] | asyncio.Future[bytes]"
    timer: asyncio.TimerHandle
    api: ApiKey | None = None
    version: int = -1


class Connection(asyncio.Protocol):
    """See the module."""

    def __init__(
        self,
        *,
        client_id: str | None,
        timeout_s: float,
        frame_bytes_max: int,
        versions_max: Mapping[ApiKey, int],
    ) -> None:
        self.ranges: ApiRanges = {}
        """What the broker serves: API key -> lowest and highest version."""
        self.client_id = client_id
        self._timeout_s = timeout_s
        self._versions_max = versions_max
        self._loop = asyncio.get_running_loop()
        self._frames = FrameCutter(bytes_max=frame_bytes_max)
        self._waiters: deque[Waiter] = deque()
        self._next_id = 0
        self._transport: asyncio.Transport | None = None
        self._fate: OutcomeUnknown | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str | None = "tierlog",
        timeout_s: float = 30.0,
        connect_timeout_s: float | None = None,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        versions_max: Mapping[ApiKey, int] | None = None,
    ) -> "Connection":
        """Connect and agree on versions; `NotConnected` if either fails or takes too long."""
        made = cls(
            client_id=client_id,
            timeout_s=timeout_s,
            frame_bytes_max=frame_bytes_max,
            versions_max=versions_max or {},
        )
        try:
            async with asyncio.timeout(connect_timeout_s or timeout_s):
                await made._loop.create_connection(lambda: made, host, port)
                made.ranges = await agree(made)
        except (OSError, OutcomeUnknown, WireError) as error:
            made.abort()
            raise NotConnected(f"{_place(host, port)}: {_cause(error)}") from error
        except BaseException:
            made.abort()
            raise
        return made

    # Calls

    async def call(
        self, request: Request, *, version: int | None = None, timeout_s: float | None = None
    ) -> Response:
        """Send, wait, return the answer. To acks=0 there is none: an empty one is returned."""
        await self._writable.wait()
        return await self.send(request, version=version, timeout_s=timeout_s)

    def send(
        self, request: Request, *, version: int | None = None, timeout_s: float | None = None
    ) -> asyncio.Future[Response]:
        """Write now; the future is the answer. Cancelling it gives up the answer, not the request.

        A given `version` is sent as it is, also where the broker does not offer it.
        """
        self._check_open()
        api = ApiKey(request.api_key)
        chosen = self.version_of(api) if version is None else version
        number = self._take_id()
        parts = encode_request(request, chosen, correlation_id=number, client_id=self.client_id)
        future: asyncio.Future[Response] = self._loop.create_future()
        self._write(parts)
        if isinstance(request, ProduceRequest) and request.acks == 0:
            future.set_result(ProduceResponse(responses=[]))
        else:
            self._expect(Waiter(number, future, self._timer(timeout_s), api, chosen))
        return future

    async def call_raw(self, frame: Bytes, *, timeout_s: float | None = None) -> bytes:
        """Send a frame with its header, without its size prefix; return the frame that answers."""
        self._check_open()
        (number,) = struct.unpack_from(">i", frame, 4)
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._write(framed([frame]))
        self._expect(Waiter(number, future, self._timer(timeout_s)))
        return await future

    def version_of(self, api: ApiKey, *, at_most: int | None = None) -> int:
        """The highest version that both sides know, that the settings and `at_most` allow."""
        ours = request_type(api).versions
        low, high = self.ranges.get(api, (0, -1))
        caps = [ours.last, high, self._versions_max.get(api, high)]
        best = min(caps if at_most is None else [*caps, at_most])
        if best < max(ours.first, low):
            theirs = f"v{low}-{high}" if api in self.ranges else "none"
            raise VersionNotShared(f"{api.name}: the broker serves {theirs}, the client v{ours}")
        return best

    @property
    def is_open(self) -> bool:
        return self._fate is None and self._transport is not None

    @property
    def in_flight_count(self) -> int:
        return len(self._waiters)

    def abort(self) -> None:
        """End it now; requests under way fail with `ConnectionLost`."""
        self._end(ConnectionLost("the client closed the connection"))

    async def close(self) -> None:
        """End it and wait until the transport is gone."""
        self.abort()
        if self._transport is not None:
            await asyncio.shield(self._gone)

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: the transports of other loops have the methods and not the class.
        self._transport = cast("asyncio.Transport", transport)
        if self._fate is not None:  # given up while it was being made
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if self._fate is None:
                    self._answer(frame)
        except WireError as error:
            is_http = data.startswith(b"HTTP/")
            self._end(BadAnswer("it speaks HTTP, not Kafka's protocol" if is_http else str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(ConnectionLost(str(exc) if exc else "the broker closed the connection"))
        if not self._gone.done():
            self._gone.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # Inside

    def _check_open(self) -> None:
        if self._fate is not None:
            # Nothing of this request was sent, so this is a "no", whatever ended the connection.
            raise NotConnected(f"the connection has ended: {self._fate}")

    def _take_id(self) -> int:
        number = self._next_id
        self._next_id = 0 if number == CORRELATION_ID_MAX else number + 1
        return number

    def _write(self, parts: list[Bytes]) -> None:
        assert self._transport is not None
        self._transport.writelines(parts)

    def _timer(self, timeout_s: float | None) -> asyncio.TimerHandle:
        seconds = self._timeout_s if timeout_s is None else timeout_s
        return self._loop.call_later(seconds, self._time_out, seconds)

    def _expect(self, waiter: Waiter) -> None:
        self._waiters.append(waiter)

    def _time_out(self, seconds: float) -> None:
        # Those behind it wait for the same silence: they fail in the same way.
        self._end(RequestTimedOut(f"no answer within {seconds:g} s"))

    def _answer(self, frame: bytes) -> None:
        if not self._waiters:
            self._end(BadAnswer("an answer to no request"))
            return
        waiter = self._waiters[0]
        number = int.from_bytes(frame[:4], "big", signed=True)
        if len(frame) < 4 or number != waiter.correlation_id:
            self._end(BadAnswer(f"answer {number} came for request {waiter.correlation_id}"))
            return
        answer: Response | bytes = frame
        if waiter.api is not None:
            answer = decode_response(waiter.api, waiter.version, frame)[1]
        self._waiters.popleft()
        waiter.timer.cancel()
        if not waiter.future.done():
            waiter.future.set_result(answer)  # type: ignore[arg-type]  # kinds agree by `api`

    def _end(self, fate: OutcomeUnknown) -> None:
        if self._fate is not None:
            return
        self._fate = fate
        self._writable.set()  # whoever waits to write learns of the end
        if self._transport is not None:
            self._transport.abort()
        while self._waiters:
            waiter = self._waiters.popleft()
            waiter.timer.cancel()
            if not waiter.future.done():
                waiter.future.set_exception(type(fate)(str(fate)))


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _cause(error: Exception) -> str:
    """Why there is no connection, in words and without what the place says already."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
