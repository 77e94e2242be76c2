"""Something between a node and its store that answers every second request with 503, as a store
does that is asked too often. Which ones is drawn: a client whose requests fall into step with
strict turns would never get one of a kind through.

    with throttling(server) as front:
        front.endpoint      # as the server's own
        front.refused       # how many it turned away
"""

import contextlib
import http.client
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from urllib.parse import urlsplit

from tests.stores.servers import Server

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your rate.</Message></Error>"
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}


class Front(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, server: Server) -> None:
        super().__init__(("127.0.0.1", 0), Through)
        self.target = urlsplit(server.endpoint).netloc
        self.is_throttling = False
        self.refused = 0
        self.turn = threading.Lock()
        self._rng = Random(1)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A node that is killed leaves its connections; anything else is told."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it came

    def refuses(self) -> bool:
        with self.turn:
            is_refused = self.is_throttling and self._rng.random() < 0.5
            self.refused += is_refused
            return is_refused


class Through(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Front

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.server.refuses():
            self.answer(503, {}, b"" if self.command == "HEAD" else SLOW_DOWN)
            return
        with contextlib.closing(http.client.HTTPConnection(self.server.target)) as onwards:
            # Signed with the name of the front: it must arrive as it was sent.
            onwards.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                onwards.putheader(name, value)
            onwards.endheaders(body)
            answer = onwards.getresponse()
            self.answer(answer.status, dict(answer.getheaders()), answer.read())

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        lengths = {name.lower(): value for name, value in headers.items()}
        lengths.setdefault("content-length", str(len(body)))
        for name, value in lengths.items():
            if name not in HOP_BY_HOP:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextlib.contextmanager
def throttling(server: Server) -> Iterator[Front]:
    front = Front(server)
    thread = threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield front
    finally:
        front.shutdown()
        thread.join()
        front.server_close()
