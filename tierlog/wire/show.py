"""`python -m tierlog.wire.show Metadata 12`: the fields of one version, and its compiled source."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type, response_type
from tierlog.wire.layout import Layout, layout_of
from tierlog.wire.reader import reader_source
from tierlog.wire.writer import writer_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.wire.schema import Field, Message


def outline(message: type[Message], version: int) -> str:
    """The fields of one version, indented as they nest."""
    layout = layout_of(message, version, version in message.flexible)
    kind = "flexible" if layout.flexible else "not flexible"
    title = f"{message.__name__} v{version} ({kind}, at least {layout.bytes_min} bytes)"
    return "\n".join([title, *_lines(layout, "  ")])


def _lines(layout: Layout, indent: str) -> Iterator[str]:
    for field in (*layout.plain, *layout.tagged):
        yield indent + _line(layout, field)
        if field.struct is not None:
            yield from _lines(layout.nested(field.struct), indent + "  ")


def _line(layout: Layout, field: Field) -> str:
    kind = f"array of {field.element.kind}" if field.element is not None else field.kind
    null = ", nullable" if layout.version in field.nullable else ""
    tag = f", tag {field.tag}" if field.tag is not None else ""
    return f"{field.name}: {kind}{null}{tag}"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or not arguments[1].isdigit():
        sys.stderr.write("usage: python -m tierlog.wire.show API VERSION, such as Metadata 12\n")
        return 2
    name, version = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", arguments[0]).upper(), int(arguments[1])
    if name not in ApiKey.__members__ or version not in request_type(ApiKey[name]).versions:
        sys.stderr.write(f"no schema for {arguments[0]} v{version}\n")
        return 1
    for message in (request_type(ApiKey[name]), response_type(ApiKey[name])):
        sys.stdout.write(outline(message, version) + "\n\n")
        sys.stdout.write(reader_source(message, version).text() + "\n")
        sys.stdout.write(writer_source(message, version).text() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
