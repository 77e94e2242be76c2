"""A node in a process of its own, and peers who say anything to it.

    with running(folder) as node:
        with node.visit() as raw:
            response = raw.ask(MetadataRequest(topics=None), 12)

Every visitor comes from an address of its own (all of 127/8 is this machine), so that what the node
says about it can be told from what it says about others.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tierlog.wire.api_keys import ApiKey
from tierlog.wire.header import decode_response, encode_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.wire.schema import Request

READY = re.compile(r"tierlog ready kafka=(\S+):(\d+) http=(\S+) node=\d+ store=\S+\n")
ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 30.0
_HOSTS = itertools.count(2)


class Raw:
    """A peer that sends bytes and looks at what comes back."""

    def __init__(self, address: tuple[str, int], host: str) -> None:
        self.host = host
        self._socket = socket.create_connection(address, LIMIT_S, source_address=(host, 0))
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """All of it, unless the node hangs up before."""
        try:
            self._socket.sendall(data)
        except ConnectionError:
            return

    def send_frame(self, frame: bytes) -> None:
        self.send(len(frame).to_bytes(4, "big") + frame)

    def ask(self, request: Request, version: int) -> Any:
        """The response to a sound request."""
        self._last_id += 1
        self.send(framed(request, version, correlation_id=self._last_id))
        told_id, response = decode_response(ApiKey(request.api_key), version, self.reply())
        assert told_id == self._last_id
        return response

    def reply(self) -> bytes:
        """The next frame. Raises ConnectionError if there is none."""
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            some = self._socket.recv(size - len(data))
            if not some:
                raise ConnectionResetError("the node hung up")
            data += some
        return bytes(data)

    def is_ended(self, *, within_s: float = LIMIT_S) -> bool:
        """Whether the node hangs up, saying nothing more."""
        self._socket.settimeout(within_s)
        try:
            return not self._socket.recv(1)
        except ConnectionError:
            return True
        except TimeoutError:
            return False


class Running:
    """A node that serves."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log
        assert process.stdout is not None
        line = process.stdout.readline()
        found = READY.fullmatch(line)
        assert found, (line, log.read_text())
        self.address = (found[1], int(found[2]))
        self._http = found[3]

    def visit(self, host: str | None = None) -> Raw:
        """A new peer, from an address of its own unless one is named."""
        number = next(_HOSTS)
        return Raw(self.address, host or f"127.{number >> 16}.{number >> 8 & 255}.{number & 255}")

    def ask(self, request: Request, version: int) -> Any:
        with self.visit("127.0.0.1") as raw:
            return raw.ask(request, version)

    # What is seen from outside

    def log(self) -> str:
        return self._log.read_text()

    def said_of(self, raw: Raw) -> list[str]:
        """The lines of the log that name this peer."""
        return [line for line in self.log().splitlines() if f" {raw.host}:" in line]

    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found, status
        return int(found[1]) << 10

    def waited_for_cpu_s(self) -> float:
        """How long the node's main thread was ready to run and got no core, since its start."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/schedstat")
        return int(path.read_text().split()[1]) / 1e9

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://{self._http}/metrics", timeout=LIMIT_S) as response:
            return str(response.read(), "utf-8")

    def end(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(LIMIT_S)


def framed(request: Request, version: int, *, correlation_id: int = 1) -> bytes:
    parts = encode_request(request, version, correlation_id=correlation_id, client_id="raw")
    return b"".join(parts)


def launch(folder: Path, *options: str, before: str = "") -> subprocess.Popen[str]:
    """Start a node in `folder`, its log in `node.log`; `before` is shell that goes ahead."""
    command = [sys.executable, "-m", "tierlog", "serve", "--data", "data"]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *options]
    if before:
        command = ["/bin/sh", "-c", f'{before}; exec "$@"', "sh", *command]
    with (folder / "node.log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )


@contextmanager
def running(folder: Path, *options: str, before: str = "") -> Iterator[Running]:
    """A node until the end of the block, which it is not told of."""
    process = launch(folder, *options, before=before)
    try:
        yield Running(process, folder / "node.log")
    finally:
        process.kill()
        process.communicate()


def within(seconds: float, condition: Any) -> bool:
    """Whether it becomes so in time: another process has no event to wait for."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
