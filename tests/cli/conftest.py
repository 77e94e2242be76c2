"""The command line as a test calls it: in this process, against a broker on a thread."""

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from tests.compat.recorder import Recorder, recording
from tierlog.cli import produce
from tierlog.cli.app import app


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Cli: TypeAlias = Callable[..., Outcome]


@pytest.fixture
def broker() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder
    assert not recorder.faults


@pytest.fixture
def tierlog(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """`tierlog("topic", "list")`: its exit code, stdout and stderr. `stdin` is what it reads."""

    def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        source, sink = os.pipe()
        os.write(sink, stdin)
        os.close(sink)
        monkeypatch.setattr(produce, "STDIN", source)
        capfd.readouterr()
        code = exit_code(arguments)
        out, err = capfd.readouterr()
        os.close(source)
        return Outcome(code, out, err)

    return run


@pytest.fixture
def cli(tierlog: Cli, broker: Recorder, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The same with a broker where it looks for one."""
    monkeypatch.setenv("TIERLOG_BOOTSTRAP", f"127.0.0.1:{broker.world.port}")
    return tierlog


@contextmanager
def serving(answer: bytes) -> Iterator[str]:
    """An address where whoever speaks gets this answer, once."""

    def serve() -> None:
        with suppress(OSError), listener.accept()[0] as peer:
            peer.recv(1 << 16)
            peer.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def exit_code(arguments: Sequence[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        app(list(arguments), prog_name="tierlog")
    code = ended.value.code
    assert isinstance(code, int)
    return code
