"""A small HTTP client for the tests: it sends what it is told and reads what comes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from tierlog.env import Env
from tierlog.http.message import Request, Response
from tierlog.http.router import Router
from tierlog.http.server import HttpLimits, HttpServer


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Caller:
    """One connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, host: str, port: int) -> "Caller":
        return cls(*await asyncio.open_connection(host, port))

    async def ask(self, path: str, *, method: str = "GET", **headers: str) -> Answer:
        lines = [f"{method} {path} HTTP/1.1", "Host: node"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.send("\r\n".join([*lines, "", ""]).encode())
        return await self.answer(is_head=method == "HEAD")

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, is_head: bool = False) -> Answer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = 0 if is_head else int(headers["Content-Length"])
        return Answer(int(first.split()[1]), headers, await self.reader.readexactly(size))

    async def is_closed(self) -> bool:
        """Waits until the server has ended the connection; anything more to read is a fault."""
        return await self.reader.read() == b""

    def close(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def calling(host: str, port: int) -> AsyncIterator[Caller]:
    caller = await Caller.to(host, port)
    try:
        yield caller
    finally:
        caller.close()


async def until(happened: Callable[[], object]) -> None:
    """Let the loop turn until it has."""
    async with asyncio.timeout(30):
        while not happened():  # noqa: ASYNC110 - nobody tells a test.
            await asyncio.sleep(0)


async def hello(_: Request) -> Response:
    return Response(body=b"hello\n")


async def never(_: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError


async def faulty(_: Request) -> Response:
    raise ZeroDivisionError


async def large(_: Request) -> Response:
    return Response(body=bytes(8 << 20))


async def echo(request: Request) -> Response:
    return Response(body=repr(sorted(request.query.items())).encode())


def small_router() -> Router:
    router = Router()
    for path, handler in {
        "/hello": hello,
        "/never": never,
        "/faulty": faulty,
        "/large": large,
        "/echo": echo,
    }.items():
        router.add("GET", path, handler)
    return router


@asynccontextmanager
async def serving(
    env: Env, *, host: str = "127.0.0.1", limits: HttpLimits | None = None
) -> AsyncIterator[tuple[HttpServer, int]]:
    server = HttpServer(small_router(), env, limits)
    _, port = await server.start(host, 0)
    try:
        yield server, port
    finally:
        await server.close()
