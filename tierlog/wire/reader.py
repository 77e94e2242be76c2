"""Generates the source of a reader: one function that turns bytes into one version of a message.

The function is straight-line code. Neighbouring fixed-width fields, the length that follows them
and the tag count at the end of a struct are read by one `unpack_from`; nested structs are loops
in the same function, not calls. What always holds in the generated code:

- `p` is the position of the next byte, `limit` the end of the buffer, `p <= limit`.
- A length is compared with the bytes left before anything of that length is made.
- Every array takes its element count out of `budget`, and so does every tag section.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.wire import primitives
from tierlog.wire.layout import FIXED, Layout, bytes_min, layout_of
from tierlog.wire.schema import EMPTY, Field, Message
from tierlog.wire.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

INTEGERS: Final = {"int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "boolean"}


def reader_source(message: type[Message], version: int) -> Source:
    """The source of `read(buf, p, budget) -> (message, position)`."""
    layout = layout_of(message, version, version in message.flexible)
    return _Reader(layout).function()


def holds_records(layout: Layout) -> bool:
    """True when some field is read as a view, so that the buffer must be a memoryview."""
    for field in layout.plain:
        if field.kind == "records":
            return True
        if field.struct is not None and holds_records(layout.nested(field.struct)):
            return True
    return False


class _Reader:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._source = Source()
        self._views = holds_records(layout)
        self._run: list[tuple[str, str, str]] = []  # targets, codes and paths not yet read

    def function(self) -> Source:
        source = self._source
        source.names["new"] = object.__new__
        for helper in ("skip_tags", "open_tags", "next_tag", "bad_tag_end", "short", "bad_array",
                       "not_a_length", "long_string", "uvarint_tail", "unpack_many"):  # fmt: skip
            source.names[helper] = getattr(primitives, helper)
        with source.block(f"def read(buf, p=0, budget={primitives.ELEMENTS_MAX}):"):
            kind = "memoryview" if self._views else "bytes"
            source.add(f"if type(buf) is not {kind}: buf = {kind}(buf)")
            source.add("limit = len(buf)")
            with source.block("try:"):
                whole = self._struct(self._layout, "")
                source.add(f"return {whole}, p")
            source.add("except ERRORS as error: raise explain(error, p) from None")
        return source

    # Structs

    def _struct(self, layout: Layout, path: str) -> str:
        """Read a struct into a fresh local and return its name."""
        name = layout.struct.__name__
        self._source.names[name] = layout.struct
        self._flush()
        instance = self._source.fresh("m")
        self._source.add(f"{instance} = new({name})", path)
        for field in layout.plain:
            self._value(layout, field, f"{instance}.{field.name}", path + field.name)
        if layout.flexible:
            self._tags(layout, instance, path)
        self._flush()
        # Absent fields come last: what is refused has cost nothing yet.
        for field in layout.absent:
            self._default(field, f"{instance}.{field.name}", path + field.name)
        return instance

    def _default(self, field: Field, target: str, path: str) -> None:
        value = "[]" if field.default is EMPTY else repr(field.default)
        self._source.add(f"{target} = {value}", path)

    def _tags(self, layout: Layout, instance: str, path: str) -> None:
        count = self._source.fresh("tags")
        self._run.append((count, "B", path + "tags"))
        self._flush()
        for field in layout.tagged:
            self._default(field, f"{instance}.{field.name}", path + field.name)
        if not layout.tagged:
            self._source.add(
                f"if {count}: p, budget = skip_tags(buf, p, {count}, budget)", path + "tags"
            )
            return
        with self._source.block(f"if {count}:"):
            self._known_tags(layout, instance, count, path)

    def _known_tags(self, layout: Layout, instance: str, count: str, path: str) -> None:
        source, tag, end = self._source, self._source.fresh("tag"), self._source.fresh("end")
        source.add(f"{count}, p, budget = open_tags(buf, p, {count}, budget)", path + "tags")
        source.add(f"{tag} = -1")
        with source.block(f"for _ in range({count}):"):
            source.add(f"{tag}, {end}, p = next_tag(buf, p, {tag})", path + "tags")
            choice = "if"
            for field in layout.tagged:
                with source.block(f"{choice} {tag} == {field.tag}:"):
                    self._value(layout, field, f"{instance}.{field.name}", path + field.name)
                    self._flush()
                choice = "elif"
            source.add(f"else: p = {end}")
            source.add(
                f"if p != {end}: raise bad_tag_end({tag}, stated_end={end}, actual_end=p)",
                path + "tags",
            )

    # Values

    def _value(self, layout: Layout, field: Field, target: str, path: str) -> None:
        if field.kind in FIXED:
            self._run.append((target, FIXED[field.kind], path))
        elif field.kind == "struct":
            self._nested(layout, field, target, path)
        elif field.kind == "array":
            self._array(layout, field, target, path)
        else:
            self._sized(layout, field, target, path)

    def _nested(self, layout: Layout, field: Field, target: str, path: str) -> None:
        assert field.struct is not None
        nested = layout.nested(field.struct)
        if layout.version not in field.nullable or field.tag is not None:
            self._source.add(f"{target} = {self._struct(nested, path + '.')}", path)
            return
        # KIP-893: one byte before a nullable struct, negative for null.
        there = self._source.fresh("there")
        self._run.append((there, "b", path))
        self._flush()
        with self._source.block(f"if {there} < 0:"):
            self._source.add(f"{target} = None", path)
        with self._source.block("else:"):
            self._source.add(f"{target} = {self._struct(nested, path + '.')}", path)

    def _sized(self, layout: Layout, field: Field, target: str, path: str) -> None:
        """A string, bytes or records."""
        source = self._source

        def content(length: str) -> None:
            source.add(f"q = p + {length}")
            source.add(f"if q > limit: raise short(buf, p, {length})", path)
            source.add(f"{target} = {self._slice(field.kind)}", path)
            source.add("p = q")

        empty = {"string": '""', "bytes": 'b""', "records": "buf[p:p]"}[field.kind]
        self._length(layout, field, target, path, content=content, empty=empty)

    def _slice(self, kind: str) -> str:
        if kind == "string":
            return 'str(buf[p:q], "utf-8")' if self._views else "buf[p:q].decode()"
        if kind == "bytes" and self._views:
            return "bytes(buf[p:q])"
        return "buf[p:q]"

    def _array(self, layout: Layout, field: Field, target: str, path: str) -> None:
        element = field.element
        assert element is not None
        source = self._source
        if field.struct is not None:
            least = layout.nested(field.struct).bytes_min
        else:
            least = bytes_min(element, layout.version, layout.flexible)
        assert least > 0, f"{path} v{layout.version}: elements without bytes cannot be counted"

        def content(length: str) -> None:
            source.add(
                f"if {length} * {least} > limit - p or (budget := budget - {length}) < 0:"
                f" raise bad_array(buf, p, {length}, {least})",
                path,
            )
            if element.kind in INTEGERS:
                code = FIXED[element.kind]
                source.add(f"{target} = list(unpack_many('{code}', {length})(buf, p))", path)
                source.add(f"p += {length} * {least}")
            else:
                self._loop(layout, field, target, path, length)

        self._length(layout, field, target, path, content=content, empty="[]")

    def _loop(self, layout: Layout, field: Field, target: str, path: str, length: str) -> None:
        assert field.element is not None
        source, add = self._source, self._source.fresh("add")
        items = source.fresh("items")
        source.add(f"{items} = {target} = []", path)
        source.add(f"{add} = {items}.append")
        with source.block(f"for _ in range({length}):"):
            if field.struct is not None:
                item = self._struct(layout.nested(field.struct), path + "[].")
            else:
                item = source.fresh("item")
                self._value(layout, field.element, item, path + "[]")
                self._flush()
            source.add(f"{add}({item})")

    # Lengths

    def _length(
        self,
        layout: Layout,
        field: Field,
        target: str,
        path: str,
        *,
        content: Callable[[str], None],
        empty: str,
    ) -> None:
        """Read a length, then the content, the empty value, null, or raise."""
        source, length = self._source, self._source.fresh("n")
        short_code = "h" if field.kind == "string" else "i"
        self._run.append((length, "B" if layout.flexible else short_code, path))
        self._flush()
        nullable = layout.version in field.nullable and field.name != ""
        if layout.flexible:
            # Compact: an unsigned varint of length + 1; 0 is null.
            with source.block(f"if {length} > 127:"):
                source.add(f"{length}, p = uvarint_tail(buf, p, {length})", path)
                if field.kind == "string":
                    limit = primitives.STRING_BYTES_MAX + 1
                    source.add(f"if {length} > {limit}: raise long_string({length} - 1)", path)
            source.add(f"{length} -= 1")
        with source.block(f"if {length} > 0:"):
            content(length)
        source.add(f"elif {length} == 0: {target} = {empty}", path)
        if nullable:
            source.add(f"elif {length} == -1: {target} = None", path)
        source.add(f"else: raise not_a_length({length})", path)

    def _flush(self) -> None:
        """Read the waiting fixed-width fields in one call."""
        if not self._run:
            return
        targets = ", ".join(target for target, _, _ in self._run)
        codes = "".join(code for _, code, _ in self._run)
        path = ", ".join(path for _, _, path in self._run)
        self._run.clear()
        if codes == "B":
            self._source.add(f"{targets} = buf[p]", path)
            self._source.add("p += 1")
            return
        name, size = self._source.unpacker(codes)
        self._source.add(f"{targets}, = {name}(buf, p)", path)
        self._source.add(f"p += {size}")
