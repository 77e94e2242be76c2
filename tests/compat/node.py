"""A node in a process of its own, for clients that know nothing of us.

    with running(folder, sets=["auto.create.topics.enable=false"]) as node:
        node.address            # HOST:PORT
        node.stop(); node.start()   # again, at the same place

It is stopped as an operator would stop it, by SIGTERM, and must then leave with 0 and without a
traceback: a client that made the node stumble fails its test even if the client got its answer.
"""

import contextlib
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

START_S = 30.0
STOP_S = 30.0
_READY = re.compile(r"^tierlog ready kafka=([\d.]+:\d+) http=\S+ node=1 store=\S+$")


class RunningNode:
    def __init__(self, folder: Path, sets: Sequence[str]) -> None:
        self.address = "127.0.0.1:0"
        self._folder = folder
        self._sets = sets
        self._log_path = folder / "stderr"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(self._words(), stdout=subprocess.PIPE, stderr=log)
        self.address = self._ready(self._process)

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_S)
        self.kill()
        said = self._log_path.read_text()
        assert code == 0, said
        assert "Traceback" not in said, said

    def kill(self) -> None:
        """End it without a word; nothing if it has ended."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def _words(self) -> list[str]:
        words = [sys.executable, "-m", "tierlog", "serve", "--data", str(self._folder / "data")]
        words += ["--listen", self.address, "--http", "off"]
        return words + [word for one in self._sets for word in ("--set", one)]

    def _ready(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        timer = threading.Timer(START_S, process.kill)
        timer.start()
        try:
            line = process.stdout.readline().decode()
        finally:
            timer.cancel()
        ready = _READY.match(line)
        assert ready, f"no ready line but {line!r}: {self._log_path.read_text()}"
        return ready.group(1)


@contextlib.contextmanager
def running(folder: Path, *, sets: Sequence[str] = ()) -> Iterator[RunningNode]:
    """A node that lives as long as the block."""
    node = RunningNode(folder, sets)
    try:
        node.start()
        yield node
        node.stop()
    finally:
        node.kill()
