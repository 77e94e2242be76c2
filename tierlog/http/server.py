"""A small HTTP/1.1 server on the running loop.

One task a connection, one request at a time, the answers in order. Whoever is slow, says nothing,
sends too much or does not read its answer is told so once and cut off: a request costs its sender.
Heads only: a body is not read, and the connection ends after the answer to a request that has one.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tierlog.http.message import Request, Response, encode_response, of_problem, parse_head
from tierlog.http.problem import Problem

if TYPE_CHECKING:
    from tierlog.env import Env
    from tierlog.http.router import Router

logger = logging.getLogger(__name__)

_HEAD_END: Final = b"\r\n\r\n"
_BLANK: Final = (b"\r", b"\n")
_FIRST_BYTES: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

LINGER_S: Final = 1.0
LINGER_BYTES: Final = 1 << 20
"""What is still read, and thrown away, of a peer that was told goodbye."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What a client may cost."""

    connections_max: int = 64
    """Probes, a few scrapers, a person."""
    head_bytes_max: int = 16 * 1024
    """Browsers send about one KiB; cookies of other servers on the host come along."""
    head_s: float = 10.0
    """From the first byte of a request, or from the connection, to the end of its head."""
    idle_s: float = 75.0
    """Between two requests; scrapers come back every 15 to 60 s."""
    answer_s: float = 30.0
    """To make an answer, and again to take it."""


class HttpServer:
    """See the module."""

    def __init__(self, router: Router, env: Env, limits: HttpLimits | None = None) -> None:
        self._router = router
        self._env = env
        self._limits = limits or HttpLimits()
        self._server: asyncio.AbstractServer | None = None
        self._open: set[asyncio.Task[None]] = set()

    # Start and stop

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address that was bound."""
        self._server = await asyncio.start_server(
            self._accept, host, port, limit=self._limits.head_bytes_max
        )
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Stop at once. Answers under way are cut off: the node is gone."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    @property
    def connections(self) -> int:
        return len(self._open)

    # A connection

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= self._limits.connections_max:
            self._turn_away(writer)
            return
        task = self._env.tasks.spawn(self._serve(reader, writer), name="http")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    def _turn_away(self, writer: asyncio.StreamWriter) -> None:
        problem = Problem(503, f"{len(self._open)} connections are open, as many as there may be")
        writer.write(self._encoded(of_problem(problem), keeps_alive=False))
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            wait_s = self._limits.head_s
            # An answer counts as sent when the kernel has all of it: nothing is left behind.
            writer.transport.set_write_buffer_limits(high=0)
            while await self._serve_one(reader, writer, wait_s):
                wait_s = self._limits.idle_s
            await self._part(reader, writer)
        except (OSError, EOFError, TimeoutError):
            # Gone, or too slow to take its answer: what it did not read is not kept for it.
            writer.transport.abort()
        except BaseException:
            writer.transport.abort()
            raise

    async def _serve_one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait_s: float
    ) -> bool:
        """Answer one request. Whether another one may follow."""
        try:
            first = await self._first_byte(reader, wait_s)
            if not first:
                return False
            request = parse_head(first + await self._rest_of_head(reader, first))
        except Problem as problem:
            await self._send(writer, self._encoded(of_problem(problem), keeps_alive=False))
            return False
        response = await self._answer(request)
        is_head = request.method == "HEAD"
        data = self._encoded(response, keeps_alive=request.keeps_alive, without_body=is_head)
        await self._send(writer, data)
        return request.keeps_alive

    async def _first_byte(self, reader: asyncio.StreamReader, wait_s: float) -> bytes:
        """Of the next request; nothing when there will be none."""
        try:
            async with asyncio.timeout(wait_s):
                first = await reader.read(1)
                # RFC 9112: an empty line before a request is passed over. A few are enough.
                for _ in range(4):
                    if first not in _BLANK:
                        break
                    first = await reader.read(1)
        except TimeoutError:
            return b""  # Nobody asked anything, so nobody is told.
        return first

    async def _rest_of_head(self, reader: asyncio.StreamReader, first: bytes) -> bytes:
        if first[0] not in _FIRST_BYTES:
            raise Problem(400, "this port speaks plain HTTP, and these bytes are something else")
        try:
            async with asyncio.timeout(self._limits.head_s):
                return await reader.readuntil(_HEAD_END)
        except TimeoutError:
            raise Problem(
                408, f"the request was not whole after {self._limits.head_s:g} s"
            ) from None
        except asyncio.LimitOverrunError:
            raise Problem(
                431, f"a request has at most {self._limits.head_bytes_max} bytes before its body"
            ) from None

    # Answers

    async def _answer(self, request: Request) -> Response:
        try:
            handler = self._router.find(request)
            async with asyncio.timeout(self._limits.answer_s):
                return await handler(request)
        except Problem as problem:
            return of_problem(problem)
        except TimeoutError:
            return of_problem(
                Problem(503, f"no answer within {self._limits.answer_s:g} s; the node is busy")
            )
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return of_problem(Problem(500, "this is a fault of the server; its log says more"))

    def _encoded(
        self, response: Response, *, keeps_alive: bool, without_body: bool = False
    ) -> bytes:
        now_ms = self._env.clock.now_ms()
        return encode_response(
            response, now_ms=now_ms, keeps_alive=keeps_alive, without_body=without_body
        )

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        async with asyncio.timeout(self._limits.answer_s):
            await writer.drain()

    async def _part(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Close so that the peer can still read: bytes that arrive at a closed socket make the
        kernel send a reset, and that would overtake the answer."""
        writer.write_eof()
        left = LINGER_BYTES
        try:
            async with asyncio.timeout(LINGER_S):
                while left > 0 and (data := await reader.read(left)):
                    left -= len(data)
        except TimeoutError:
            pass
        writer.close()
