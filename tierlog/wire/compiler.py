"""Readers and writers, compiled from the schema at the first use of a (message, version) pair.

A codec is generated source (`reader`, `writer`), compiled once and kept for the life of the
process. A failing codec raises through `explain`, which turns the error of the moment into a
`WireError` that names the message, the version, the field and the byte.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from tierlog.wire.errors import (
    BadString,
    DecodeError,
    EncodeError,
    Truncated,
    UnsupportedVersion,
    WireError,
)
from tierlog.wire.primitives import ELEMENTS_MAX
from tierlog.wire.reader import reader_source
from tierlog.wire.writer import writer_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.types import Bytes
    from tierlog.wire.schema import Message

M = TypeVar("M", bound="Message")
M_co = TypeVar("M_co", bound="Message", covariant=True)
M_contra = TypeVar("M_contra", bound="Message", contravariant=True)

READ_ERRORS: Final = (DecodeError, struct.error, IndexError, UnicodeDecodeError)
WRITE_ERRORS: Final = (EncodeError, struct.error, UnicodeEncodeError, AttributeError, TypeError)


class Reader(Protocol[M_co]):
    """Reads one message from a position on; returns it and the position after it."""

    def __call__(
        self, buffer: Bytes, position: int = 0, budget: int = ELEMENTS_MAX, /
    ) -> tuple[M_co, int]: ...


class Writer(Protocol[M_contra]):
    """Writes one message as a list of parts."""

    def __call__(self, message: M_contra, /) -> list[Bytes]: ...


def reader(message: type[M], version: int) -> Reader[M]:
    """The compiled reader of one version. Raises UnsupportedVersion outside the schema's range."""
    made: Reader[M] = _compiled(message, version, "read")  # type: ignore[assignment]  # by name
    return made


def writer(message: type[M], version: int) -> Writer[M]:
    """The compiled writer of one version. Raises UnsupportedVersion outside the schema's range."""
    made: Writer[M] = _compiled(message, version, "write")  # type: ignore[assignment]  # by name
    return made


@cache
def _compiled(message: type[Message], version: int, function: str) -> object:
    if version not in message.versions:
        raise UnsupportedVersion(message=message.__name__, version=version, api_key=message.api_key)
    source = (reader_source if function == "read" else writer_source)(message, version)
    names = source.names
    names["ERRORS"] = READ_ERRORS if function == "read" else WRITE_ERRORS
    translate = _unreadable if function == "read" else _unwritable
    names["explain"] = _explainer(translate, source.paths, message.__name__, version)
    exec(compile(source.text(), f"<{function} {message.__name__} v{version}>", "exec"), names)
    return names[function]


def _explainer(
    translate: Callable[[Exception], WireError], paths: list[str], message: str, version: int
) -> Callable[[Exception, int], WireError]:
    """What a compiled codec calls with the error it met and the position it had reached."""

    def explain(error: Exception, position: int) -> WireError:
        made = error if isinstance(error, WireError) else translate(error)
        # The first entry of the traceback is the codec's own frame, whichever helper raised.
        line = error.__traceback__.tb_lineno if error.__traceback__ is not None else 1
        made.message = message
        made.version = version
        made.field = paths[line - 1]
        made.position = position
        return made

    return explain


def _unreadable(error: Exception) -> WireError:
    if isinstance(error, UnicodeDecodeError):
        return BadString(f"not UTF-8: {error.reason}")
    return Truncated("the bytes end inside this field")


def _unwritable(error: Exception) -> WireError:
    return EncodeError(str(error))
