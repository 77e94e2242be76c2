"""From errors to what a person reads: one sentence on stderr and an exit code, never a trace.

Only what can go wrong without a bug is translated. A bug still shows where it is.
"""

import errno
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tierlog.cli.formats import NotInFormat
from tierlog.cli.times import NotATime
from tierlog.errors import TierlogError

DONE, FAILED, USAGE = 0, 1, 2


class Refused(Exception):
    """A command cannot do what was asked. The sentence is for the person who asked."""

    def __init__(self, sentence: str, *, code: int = FAILED) -> None:
        super().__init__(sentence)
        self.code = code


def usage(sentence: str) -> Refused:
    return Refused(sentence, code=USAGE)


@contextmanager
def told() -> Iterator[None]:
    """Ends the program in place of an error that has a sentence."""
    try:
        yield
    except BrokenPipeError:
        _close_stdout()
        raise typer.Exit(DONE) from None  # As with `| head`: the reader has enough.
    except KeyboardInterrupt:
        raise _end("stopped", FAILED) from None
    except Refused as error:
        raise _end(str(error), error.code) from None
    except NotATime as error:
        raise _end(str(error), USAGE) from None
    except (TierlogError, NotInFormat) as error:
        raise _end(str(error), _code_of(error)) from None
    except OSError as error:
        raise _end(os_sentence(error), FAILED) from None


def say(sentence: str) -> None:
    """To the person, not into the result."""
    typer.echo(sentence, err=True)


def os_sentence(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        place = _place_in(error)
        return f"{place} is in use; stop what listens there, or choose another port (0: any free)"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{_place_in(error)} is not an address of this machine"
    if isinstance(error, socket.gaierror):
        return f"the address to listen on cannot be found: {error.strerror}"
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _place_in(error: OSError) -> str:
    found = re.search(r"\('([^']+)', ([0-9]+)", str(error))
    return f"{found[1]}:{found[2]}" if found else "the address"


def _end(sentence: str, code: int) -> typer.Exit:
    say(f"tierlog: {sentence}")
    return typer.Exit(code)


def _code_of(error: Exception) -> int:
    from tierlog.config import InvalidConfig  # Not at the top: --help needs no settings.

    return USAGE if isinstance(error, InvalidConfig) else FAILED


def _close_stdout() -> None:
    """Python flushes stdout at its end; into a closed pipe that would print a complaint."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
