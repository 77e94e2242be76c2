"""A store that answers what it is told to: an HTTP server in a thread, one reply a request.

A reply is the bytes that go out. After `CLOSE` the connection ends, also where nothing was said;
after `SILENCE` it stays open and nothing more comes until the test ends it.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

CLOSE, SILENCE = b"<close>", b"<silence>"
TRICKLE = b"<trickle>"
"""A byte every few milliseconds, for ever."""


class Request(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


def reply(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Header names are written with underscores."""
    lines = [
        f"HTTP/1.1 {status} Said",
        *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items()),
    ]
    if "content_length" not in headers:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def refused(status: int, code: str, **headers: str) -> bytes:
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    return reply(status, body, **headers)


class Scripted:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.replies: list[bytes] = []
        self._came = threading.Condition()
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def endpoint(self) -> str:
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def will(self, *replies: bytes) -> None:
        """Forget what was; answer these."""
        self.hang_up()
        self.requests.clear()
        self.replies = list(replies)

    def wait_for(self, count: int) -> None:
        with self._came:
            assert self._came.wait_for(lambda: len(self.requests) >= count, timeout=30)

    def hang_up(self) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=[connection]))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            connection,
            self._secured(connection) as connection,
            connection.makefile("rb") as incoming,
        ):
            for request in requests_in(incoming):
                with self._came:
                    self.requests.append(request)
                    self._came.notify_all()
                if not self._answer(connection, self.replies.pop(0)):
                    return

    def _secured(self, connection: socket.socket) -> socket.socket:
        return self._tls.wrap_socket(connection, server_side=True) if self._tls else connection

    def _answer(self, connection: socket.socket, what: bytes) -> bool:
        """Whether the connection goes on."""
        end = next((each for each in (CLOSE, SILENCE, TRICKLE) if what.endswith(each)), b"")
        text = what.removesuffix(end)
        connection.sendall(text)
        if end == TRICKLE:
            while not self._ended.wait(0.005):
                connection.sendall(b".")
        elif end == SILENCE:
            connection.recv(1)  # Until somebody hangs up.
        return not end


def requests_in(incoming: BinaryIO) -> Iterator[Request]:
    """Those that came whole."""
    while True:
        first = incoming.readline().decode().split()
        if not first:
            return
        headers = {}
        while line := incoming.readline().decode().strip():
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        size = int(headers.get("content-length", 0))
        body = incoming.read(size)
        if len(body) < size:
            return
        yield Request(first[0], first[1], headers, body)
