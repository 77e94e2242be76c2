"""A node in a process of its own, for clients that know nothing of us.

    with running(folder, sets=["auto.create.topics.enable=false"]) as server:
        ...  # server is HOST:PORT

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


@contextlib.contextmanager
def running(folder: Path, *, sets: Sequence[str] = ()) -> Iterator[str]:
    """The address of a node that lives as long as the block."""
    log_path = folder / "stderr"
    with log_path.open("wb") as log:
        process = subprocess.Popen(command(folder, sets), stdout=subprocess.PIPE, stderr=log)
        try:
            yield _address(process, log_path)
            process.send_signal(signal.SIGTERM)
            code = process.wait(STOP_S)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    said = log_path.read_text()
    assert code == 0, said
    assert "Traceback" not in said, said


def command(folder: Path, sets: Sequence[str]) -> list[str]:
    words = [sys.executable, "-m", "tierlog.cli", "serve"]
    words += ["--data", str(folder / "data"), "--listen", "127.0.0.1:0", "--http", "off"]
    return words + [word for one in sets for word in ("--set", one)]


def _address(process: subprocess.Popen[bytes], log_path: Path) -> str:
    assert process.stdout is not None
    timer = threading.Timer(START_S, process.kill)
    timer.start()
    try:
        line = process.stdout.readline().decode()
    finally:
        timer.cancel()
    ready = _READY.match(line)
    assert ready, f"no ready line but {line!r}: {log_path.read_text()}"
    return ready.group(1)
