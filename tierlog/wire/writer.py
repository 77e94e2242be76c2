"""Generates the source of a writer: one function that turns a message into one version's bytes.

The function returns a list of parts. Everything but `records` is joined into as few parts as
possible; each `records` field is a part of its own, the very object the message holds, so that a
response of many megabytes is sent without being copied. As in the reader, neighbouring
fixed-width fields, lengths and an empty tag section are packed by one call.
"""

from __future__ import annotations

from typing import Final

from tierlog.wire import primitives
from tierlog.wire.errors import EncodeError
from tierlog.wire.layout import FIXED, NUMBERS, Layout, layout_of
from tierlog.wire.reader import holds, is_records
from tierlog.wire.schema import EMPTY, Field, Message
from tierlog.wire.source import Source

UUID_BYTES: Final = 16


def writer_source(message: type[Message], version: int) -> Source:
    """The source of `write(message) -> list of parts`."""
    layout = layout_of(message, version, version in message.flexible)
    return _Writer(layout).function()


def not_carried(version: int, value: object) -> EncodeError:
    return EncodeError(f"v{version} has no such field and would lose {value!r:.100}")


def bad_uuid(value: object) -> EncodeError:
    return EncodeError(f"a UUID is {UUID_BYTES} bytes, not {value!r:.100}")


class _Writer:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._source = Source()
        self._add = "out.append"
        self._run: list[tuple[str, str, str]] = []  # expressions, codes and paths not yet packed

    def function(self) -> Source:
        source = self._source
        source.names.update(
            join=b"".join,
            uvarint=primitives.uvarint,
            uvarint_of_string=primitives.uvarint_of_string,
            pack_many=primitives.pack_many,
            not_carried=not_carried,
            bad_uuid=bad_uuid,
            BYTE=[bytes((value,)) for value in range(128)],
        )
        with source.block("def write(m):"):
            with source.block("try:"):
                source.add("out = []")
                if holds(self._layout, is_records):
                    source.add("parts = []")
                self._struct(self._layout, "m", "")
                self._flush()
                if holds(self._layout, is_records):
                    source.add("if out: parts.append(join(out))")
                    source.add("return parts")
                else:
                    source.add("return [join(out)]")
            source.add("except ERRORS as error: raise explain(error, -1) from None")
        return source

    # Structs

    def _struct(self, layout: Layout, instance: str, path: str) -> None:
        for field in layout.absent:
            if not field.ignorable:
                self._refuse_unless_default(layout, field, f"{instance}.{field.name}", path)
        for field in layout.plain:
            self._value(layout, field, f"{instance}.{field.name}", path + field.name)
        if layout.flexible:
            self._tags(layout, instance, path)

    def _refuse_unless_default(self, layout: Layout, field: Field, value: str, path: str) -> None:
        self._source.add(
            f"if {_differs(field, value)}: raise not_carried({layout.version}, {value})",
            path + field.name,
        )

    def _tags(self, layout: Layout, instance: str, path: str) -> None:
        if not layout.tagged:
            self._run.append(("0", "B", path + "tags"))
            return
        self._flush()
        source, tagged = self._source, self._source.fresh("tagged")
        source.add(f"{tagged} = []")
        for field in layout.tagged:
            value = f"{instance}.{field.name}"
            with source.block(f"if {_differs(field, value)}:", path + field.name):
                self._tag(layout, field, value, tagged, path + field.name)
        with source.block(f"if {tagged}:"):
            source.add(f"{self._add}(uvarint(len({tagged})))", path)
            source.add(f"{self._add}(join({tagged}))", path)
        source.add(f"else: {self._add}(b'\\0')", path)

    def _tag(self, layout: Layout, field: Field, value: str, tagged: str, path: str) -> None:
        """Write a tagged field into a list of its own, since its size goes before it."""
        assert field.tag is not None
        source, outer, inner = self._source, self._add, self._source.fresh("inner")
        self._add = f"{inner}.append"
        source.add(f"{inner} = []")
        self._value(layout, field, value, path)
        self._flush()
        self._add = outer
        source.add(f"{inner} = join({inner})", path)
        tag = primitives.uvarint(field.tag)
        source.add(f"{tagged}.append({tag!r} + uvarint(len({inner})) + {inner})", path)

    # Values

    def _value(self, layout: Layout, field: Field, value: str, path: str) -> None:
        if field.kind == "uuid":
            self._uuid(value, path)
        elif field.kind in FIXED:
            self._run.append((value, FIXED[field.kind], path))
        elif field.kind == "struct":
            self._nested(layout, field, value, path)
        elif field.kind == "array":
            self._array(layout, field, value, path)
        else:
            self._sized(layout, field, value, path)

    def _uuid(self, value: str, path: str) -> None:
        # `struct` would cut or fill a value of another length without a word.
        name = self._source.fresh("uuid")
        self._source.add(f"{name} = {value}", path)
        self._source.add(f"if len({name}) != {UUID_BYTES}: raise bad_uuid({name})", path)
        self._run.append((name, FIXED["uuid"], path))

    def _nested(self, layout: Layout, field: Field, value: str, path: str) -> None:
        assert field.struct is not None
        nested, source = layout.nested(field.struct), self._source
        instance = source.fresh("m")
        source.add(f"{instance} = {value}", path)
        if layout.version not in field.nullable or field.tag is not None:
            self._struct(nested, instance, path + ".")
            return
        self._flush()
        source.add(f"if {instance} is None: {self._add}(b'\\xff')", path)
        with source.block("else:"):
            self._run.append(("1", "b", path))
            self._struct(nested, instance, path + ".")
            self._flush()

    def _sized(self, layout: Layout, field: Field, value: str, path: str) -> None:
        """A string, bytes or records."""
        content = self._source.fresh("s")
        encoded = f"{value}.encode()" if field.kind == "string" else value
        self._length(layout, field, value, content, encoded, "b''", path)
        if field.kind != "records":
            self._source.add(f"{self._add}({content})", path)
            return
        with self._source.block(f"if {content}:"):
            self._source.add("parts.append(join(out))", path)
            self._source.add("out.clear()")
            self._source.add(f"parts.append({content})", path)

    def _array(self, layout: Layout, field: Field, value: str, path: str) -> None:
        element, source = field.element, self._source
        assert element is not None
        items = source.fresh("items")
        self._length(layout, field, value, items, value, "()", path)
        if element.kind in NUMBERS:
            pack = f"pack_many('{FIXED[element.kind]}', len({items}))"
            source.add(f"if {items}: {self._add}({pack}(*{items}))", path)
            return
        item = source.fresh("item")
        with source.block(f"for {item} in {items}:", path):
            if field.struct is not None:
                self._struct(layout.nested(field.struct), item, path + "[].")
            else:
                self._value(layout, element, item, path + "[]")
            self._flush()

    # Lengths

    def _length(
        self,
        layout: Layout,
        field: Field,
        value: str,
        content: str,
        encoded: str,
        empty: str,
        path: str,
    ) -> None:
        """Bind the content to a local and put its length behind the waiting fixed-width fields."""
        source = self._source
        plus = " + 1" if layout.flexible else ""
        null = "0" if layout.flexible else "-1"
        length = source.fresh("n")
        if layout.version in field.nullable and field.name != "":
            with source.block(f"if {value} is None:", path):
                source.add(f"{content} = {empty}", path)
                source.add(f"{length} = {null}")
            with source.block("else:"):
                source.add(f"{content} = {encoded}", path)
                source.add(f"{length} = len({content}){plus}", path)
        else:
            source.add(f"{content} = {encoded}", path)
            source.add(f"{length} = len({content}){plus}", path)
        if not layout.flexible:
            self._run.append((length, "h" if field.kind == "string" else "i", path))
            self._flush()
            return
        varint = "uvarint_of_string" if field.kind == "string" else "uvarint"
        waiting = list(self._run)
        with source.block(f"if {length} < 128:"):
            self._run.append((length, "B", path))
            self._flush()
        with source.block("else:"):
            self._run.extend(waiting)
            self._flush()
            source.add(f"{self._add}({varint}({length}))", path)

    def _flush(self) -> None:
        """Pack the waiting fixed-width fields in one call."""
        if not self._run:
            return
        values = ", ".join(value for value, _, _ in self._run)
        codes = "".join(code for _, code, _ in self._run)
        path = ", ".join(path for _, _, path in self._run)
        self._run.clear()
        if codes == "B":
            self._source.add(f"{self._add}(BYTE[{values}])", path)
            return
        self._source.add(f"{self._add}({self._source.packer(codes)}({values}))", path)


def _differs(field: Field, value: str) -> str:
    """The condition that a value is not the field's default."""
    if field.default is None:
        return f"{value} is not None"
    if field.default is EMPTY:
        return f"{value} is None or len({value})"
    return f"{value} != {field.default!r}"
