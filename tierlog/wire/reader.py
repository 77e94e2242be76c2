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
from tierlog.wire.layout import FIXED, FIXED_BYTES, Layout, bytes_min, layout_of
from tierlog.wire.schema import EMPTY, Field, Message
from tierlog.wire.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

HELPERS: Final = (
    primitives.bad_array,
    primitives.bad_tag_end,
    primitives.long_string,
    primitives.next_tag,
    primitives.not_a_length,
    primitives.nullable_string,
    primitives.open_tags,
    primitives.short,
    primitives.skip_tags,
    primitives.string,
    primitives.text_of_view,
    primitives.uvarint_tail,
)


def reader_source(message: type[Message], version: int) -> Source:
    """The source of `read(buf, p, budget) -> (message, position)`."""
    layout = layout_of(message, version, version in message.flexible)
    return _Reader(layout).function()


def holds(layout: Layout, wanted: Callable[[Field], bool]) -> bool:
    """True when some field of the message, at any depth, is of the wanted sort."""
    return any(
        wanted(field) or (field.struct is not None and holds(layout.nested(field.struct), wanted))
        for field in (*layout.plain, *layout.tagged)
    )


def is_records(field: Field) -> bool:
    return field.kind == "records"


class _Reader:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._source = Source()
        self._views = holds(layout, is_records)
        self._run: list[tuple[str, str, str]] = []  # targets, codes and paths not yet read

    def function(self) -> Source:
        source = self._source
        source.names.update(new=object.__new__)
        for helper in HELPERS:
            source.names[helper.__name__] = helper
        source.names.update(primitives.RUNS)
        with source.block(f"def read(buf, p=0, budget={primitives.ELEMENTS_MAX}):"):
            self._prologue()
            with source.block("try:"):
                whole = source.fresh("m")
                source.add(f"{whole} = new({self._class_name(self._layout)})")
                self._struct(self._layout, whole, "")
                source.add("if p > limit: raise short(limit, p)")
                source.add(f"return {whole}, p")
            source.add("except ERRORS as error: raise explain(error, p) from None")
        return source

    def _prologue(self) -> None:
        source = self._source
        if self._views:
            source.add("view = memoryview(buf)")
            source.add("text = bytes.decode if type(buf) is bytes else text_of_view")
        else:
            source.add("if type(buf) is not bytes: buf = bytes(buf)")
        source.add("limit = len(buf)")

    def _class_name(self, layout: Layout) -> str:
        name = layout.struct.__name__
        self._source.names[name] = layout.struct
        return name

    # Structs

    def _struct(self, layout: Layout, instance: str, path: str) -> None:
        """Fill an instance that a local name holds."""
        for field in layout.plain:
            self._value(layout, field, f"{instance}.{field.name}", path + field.name)
        if layout.flexible:
            self._tags(layout, instance, path)
        self._flush()
        for field in layout.absent:
            self._default(field, f"{instance}.{field.name}", path + field.name)

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
        if layout.version not in field.nullable or field.tag is not None:
            self._new_struct(layout, field, target, path)
            return
        # KIP-893: one byte before a nullable struct, negative for null.
        there = self._source.fresh("there")
        self._run.append((there, "b", path))
        self._flush()
        self._source.add(f"if {there} < 0: {target} = None", path)
        with self._source.block("else:"):
            self._new_struct(layout, field, target, path)

    def _new_struct(self, layout: Layout, field: Field, target: str, path: str) -> None:
        assert field.struct is not None
        nested, instance = layout.nested(field.struct), self._source.fresh("m")
        self._flush()
        self._source.add(f"{instance} = {target} = new({self._class_name(nested)})", path)
        self._struct(nested, instance, path + ".")

    # Strings and bytes. A slice takes no more than is there: should a length reach beyond the end,
    # then so does `p`, and the next read, or the check at the end, raises.

    def _sized(self, layout: Layout, field: Field, target: str, path: str) -> None:
        if field.kind == "records":
            self._length(layout, field, target, path, self._record_view, empty="view[p:p]")
        elif field.kind == "bytes":
            self._length(layout, field, target, path, self._content, empty='b""')
        elif layout.flexible:
            self._compact_string(layout, field, target, path)
        elif self._run:
            self._length(layout, field, target, path, self._content, empty='""')
        else:
            self._string(layout, field, target, path)

    def _record_view(self, field: Field, length: str, target: str, path: str) -> None:
        self._source.add(f"q = p + {self._bytes_of(length)}")
        self._source.add(f"{target} = view[p:q]", path)
        self._source.add("p = q")

    def _content(self, field: Field, length: str, target: str, path: str) -> None:
        self._source.add(f"q = p + {self._bytes_of(length)}")
        self._source.add(f"{target} = {self._slice(field.kind, 'p')}", path)
        self._source.add("p = q")

    def _bytes_of(self, length: str) -> str:
        return f"({length} - 1)" if self._layout.flexible else length

    def _compact_string(self, layout: Layout, field: Field, target: str, path: str) -> None:
        """A compact string: below 127 bytes here, anything longer by a helper."""
        source, length = self._source, self._source.fresh("n")
        alone = not self._run
        if alone:  # `p` stays at the length, which saves a step
            source.add(f"{length} = buf[p]", path)
            source.add(f"q = p + {length}")
        else:
            self._run.append((length, "B", path))
            self._flush()
        with source.block(f"if 0 < {length} < 128:"):
            if not alone:
                source.add(f"q = p + ({length} - 1)")
            source.add(f"{target} = {self._slice('string', 'p + 1' if alone else 'p')}", path)
            source.add("p = q")
        if layout.version in field.nullable and field.name != "":
            step = "; p += 1" if alone else ""
            source.add(f"elif {length} == 0: {target} = None{step}", path)
        after = "p + 1" if alone else "p"
        source.add(f"else: {target}, p = long_string(buf, {after}, {length})", path)

    def _string(self, layout: Layout, field: Field, target: str, path: str) -> None:
        """A string whose length stands alone: below 256 bytes here, else by a helper."""
        source = self._source
        helper = "nullable_string" if layout.version in field.nullable and field.name else "string"
        source.add(f"if buf[p]: {target}, p = {helper}(buf, p)", path)
        with source.block("else:"):
            source.add("q = p + 2")
            source.add("p = q + buf[p + 1]", path)
            taken = "buf[q:p]"
            source.add(
                f"{target} = " + (f"text({taken})" if self._views else f"{taken}.decode()"), path
            )

    def _slice(self, kind: str, start: str) -> str:
        taken = f"buf[{start}:q]"
        if kind == "string":
            return f"text({taken})" if self._views else f"{taken}.decode()"
        return f"bytes({taken})" if self._views else taken

    # Arrays

    def _array(self, layout: Layout, field: Field, target: str, path: str) -> None:
        assert field.element is not None
        if field.struct is not None:
            least = layout.nested(field.struct).bytes_min
        else:
            least = bytes_min(field.element, layout.version, layout.flexible)
        assert least > 0, f"{path} v{layout.version}: elements without bytes cannot be counted"

        def content(field: Field, length: str, target: str, path: str) -> None:
            if layout.flexible:
                self._source.add(f"{length} -= 1")
            self._source.add(
                f"if {length} * {least} > limit - p or (budget := budget - {length}) < 0:"
                f" raise bad_array(buf, p, {length}, {least})",
                path,
            )
            self._elements(layout, field, length, target, path)

        self._length(layout, field, target, path, content, empty="[]")

    def _elements(self, layout: Layout, field: Field, length: str, target: str, path: str) -> None:
        source, element = self._source, field.element
        assert element is not None
        if field.struct is not None:
            self._structs(layout.nested(field.struct), length, target, path)
        elif element.kind == "string":
            items, item = source.fresh("items"), source.fresh("item")
            source.add(f"{items} = {target} = []", path)
            with source.block(f"for _ in range({length}):"):
                self._sized(layout, element, item, path + "[]")
                source.add(f"{items}.append({item})")
        elif element.kind == "uuid":
            source.add(f"q = p + {length} * 16")
            source.add(f"{target} = [buf[i:i + 16] for i in range(p, q, 16)]", path)
            source.add("p = q")
        else:
            code, size = FIXED[element.kind], FIXED_BYTES[element.kind]
            few, many = f"runs_{code}[{length}]", f"run_{code}({length})"
            run = f"({few} if {length} < {primitives.RUN_MAX} else {many})"
            source.add(f"{target} = [*{run}(buf, p)]", path)
            source.add(f"p += {length} * {size}")

    def _structs(self, nested: Layout, length: str, target: str, path: str) -> None:
        source, items = self._source, self._source.fresh("items")
        source.add(f"{items} = {target} = []", path)
        instance = source.fresh("m")
        with source.block(f"for _ in range({length}):"):
            source.add(f"{instance} = new({self._class_name(nested)})", path)
            self._struct(nested, instance, path + "[].")
            source.add(f"{items}.append({instance})")

    # Lengths

    def _length(
        self,
        layout: Layout,
        field: Field,
        target: str,
        path: str,
        content: Callable[[Field, str, str, str], None],
        *,
        empty: str,
    ) -> None:
        """Read a length, then the content, the empty value, null, or raise."""
        source, length = self._source, self._source.fresh("n")
        code = "h" if field.kind == "string" else "i"
        self._run.append((length, "B" if layout.flexible else code, path))
        self._flush()
        offset = ""
        if layout.flexible:
            # Compact: an unsigned varint of length + 1; 0 is null.
            self._long_varint(length, path)
            offset = " - 1"
        zero = 1 if layout.flexible else 0
        with source.block(f"if {length} > {zero}:"):
            content(field, length, target, path)
        source.add(f"elif {length} == {zero}: {target} = {empty}", path)
        if layout.version in field.nullable and field.name != "":
            source.add(f"elif {length} == {zero - 1}: {target} = None", path)
        source.add(f"else: raise not_a_length({length}{offset})", path)

    def _long_varint(self, length: str, path: str) -> None:
        """The rest of a varint: two bytes here, more in a helper."""
        source = self._source
        with source.block(f"if {length} > 127:"):
            source.add("q = buf[p]", path)
            with source.block("if q < 128:"):
                source.add(f"{length} += (q << 7) - 128")
                source.add("p += 1")
            source.add(f"else: {length}, p = uvarint_tail(buf, p, {length})", path)

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
