"""Keyword constructors of schema classes, compiled at the first construction of each class.

A generated `__init__` with one assignment a field is several times faster than a loop over names,
and compiling it late keeps the import of sixty messages cheap.
"""

from collections.abc import Callable
from typing import Any

from tierlog.wire.schema import EMPTY, REQUIRED, Struct


def constructor_of(cls: type[Struct]) -> Callable[..., None]:
    """The `__init__` of a schema class: keywords only, defaults as the fields say."""
    fields = cls.fields_as_written.values()
    names: dict[str, Any] = {"EMPTY": EMPTY}
    parameters = ["self"]
    body = []
    for field in fields:
        body.append(f"    self.{field.name} = {field.name}")
        if field.default is REQUIRED:
            parameters.append(field.name)
            continue
        names[f"default_{field.name}"] = field.default
        parameters.append(f"{field.name}=default_{field.name}")
        if field.default is EMPTY:
            # A list of its own for every instance: they are mutable.
            body[-1] = f"    self.{field.name} = [] if {field.name} is EMPTY else {field.name}"
    if len(parameters) > 1:
        parameters.insert(1, "*")
    source = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(body) or "    pass")
    exec(compile(source, f"<constructor of {cls.__name__}>", "exec"), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__name__}.__init__"
    return made
