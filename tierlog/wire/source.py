"""Python source under construction: indented lines that each remember which field they serve.

When a compiled codec fails, the line number of the traceback leads back to the field, so that
error messages can name it while the codec itself spends nothing on keeping track.
"""

from __future__ import annotations

from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Source:
    """Lines of one function, and the names it needs from outside."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.paths: list[str] = []
        self.names: dict[str, Any] = {}
        self._indent = 0
        self._made = 0

    def add(self, line: str, path: str = "") -> None:
        self.lines.append("    " * self._indent + line)
        self.paths.append(path)

    @contextmanager
    def block(self, opening: str, path: str = "") -> Iterator[None]:
        """Lines added inside are indented below the opening line."""
        self.add(opening, path)
        self._indent += 1
        yield
        self._indent -= 1

    def fresh(self, stem: str) -> str:
        """A local name that no other line uses."""
        self._made += 1
        return f"{stem}{self._made}"

    def unpacker(self, codes: str) -> tuple[str, int]:
        """The name of a bound `unpack_from` for big-endian codes, and how many bytes it reads."""
        made = Struct(">" + codes)
        name = f"unpack_{_spelled(codes)}"
        self.names[name] = made.unpack_from
        return name, made.size

    def packer(self, codes: str) -> str:
        name = f"pack_{_spelled(codes)}"
        self.names[name] = Struct(">" + codes).pack
        return name

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def _spelled(codes: str) -> str:
    """Codes as part of a name: `?` is the only one that is no letter or digit."""
    return codes.replace("?", "t")
