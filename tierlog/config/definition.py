"""What is known about one setting, and the words in which a table of settings is written.

A table is a frozen dataclass: one line per setting says its name, default, range and meaning, and
the attribute's type is the type that code sees. Parsing, ranges, descriptions for clients and error
sentences are all derived from that line. Bytes and milliseconds are plain whole numbers, as in
Kafka, and the attribute is the name with dots as underscores.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any, TypeAlias

from tierlog.config.errors import InvalidConfig

Value: TypeAlias = bool | int | float | str | frozenset[str]

NOT_OBEYED = "Accepted and kept; not acted upon yet."
"""What clients read about a setting that no code reads."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """Kafka's numbers for the types of settings (DescribeConfigs v3 and later)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


WHOLE = {ConfigType.INT, ConfigType.SHORT, ConfigType.LONG}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One line of a table."""

    name: str
    type: ConfigType
    default: Value
    documentation: str
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    """The only values of a string, or the only items of a list; none: any."""
    broker: str | None = None
    """Of a topic setting: the node setting that is its default."""
    obeyed: bool = True
    """Whether anything acts upon it."""

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def told(self) -> str:
        """The documentation as clients read it."""
        return self.documentation if self.obeyed else f"{self.documentation} {NOT_OBEYED}"

    def parse(self, text: str) -> Value:
        """The typed value of what a person wrote. Raises `InvalidConfig`."""
        value = self._converted(text.strip())
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        """Raises `InvalidConfig` where the value is out of its range."""
        if isinstance(value, str | frozenset):
            self._check_choice(value)
        elif self.at_least is not None and self.at_most is not None:
            self._check_range(value, self.at_least, self.at_most)

    def text(self, value: Value) -> str | None:
        """How clients see a value; None where a string is not set."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, frozenset):
            return ",".join(sorted(value))
        return None if value == "" else str(value)

    def _check_choice(self, value: str | frozenset[str]) -> None:
        items = {value} if isinstance(value, str) else value
        if self.choices and not items <= set(self.choices):
            raise self._refused(self.text(value) or "", f"one of {', '.join(self.choices)}")

    def _check_range(self, value: float, low: float, high: float) -> None:
        if not low <= value <= high:  # In this form a nan is refused too.
            raise InvalidConfig(
                self.name, f"{self.name} is {value}; it must lie in [{low}, {high}]"
            )

    def _converted(self, text: str) -> Value:
        if self.type is ConfigType.BOOLEAN:
            return self._boolean(text)
        if self.type in WHOLE:
            return self._whole_number(text)
        if self.type is ConfigType.DOUBLE:
            return self._decimal(text)
        if self.type is ConfigType.LIST:
            return frozenset(list_items(text))
        return text

    def _boolean(self, text: str) -> bool:
        if text.lower() not in {"true", "false"}:
            raise self._refused(text, "true or false")
        return text.lower() == "true"

    def _whole_number(self, text: str) -> int:
        # Not int() alone: it takes 1_000 and digits of other scripts, which Kafka refuses.
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
            raise self._refused(text, f"a whole number{self._unit()}")
        return int(text)

    def _decimal(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise self._refused(text, "a number") from None

    def _unit(self) -> str:
        if self.name.endswith(".bytes"):
            return " of bytes, without a unit"
        return " of milliseconds, without a unit" if self.name.endswith(".ms") else ""

    def _refused(self, text: str, wanted: str) -> InvalidConfig:
        return InvalidConfig(self.name, f"{self.name} is '{text}'; it must be {wanted}")


def list_items(text: str) -> list[str]:
    """The items of a list as written, each once, in their order."""
    return list(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))


def definitions_of(table: type) -> Mapping[str, Definition]:
    """The lines of a table by setting name, in the order of the table."""
    lines = [each.metadata["definition"] for each in fields(table)]
    return {line.name: line for line in lines}


# The words of a table. They return `Any` because a dataclass wants `x: int = field(...)`.


def line(definition: Definition) -> Any:
    return field(default=definition.default, metadata={"definition": definition})


def unobeyed(line_of_a_word: Any) -> Any:
    """The line that another word made, of a setting that is not acted upon yet."""
    return line(replace(line_of_a_word.metadata["definition"], obeyed=False))


def whole(
    name: str,
    default: int,
    documentation: str,
    *,
    at_least: int = 0,
    at_most: int = INT_MAX,
    broker: str | None = None,
) -> Any:
    """A whole number of 32 bits."""
    return line(
        Definition(
            name=name,
            type=ConfigType.INT,
            default=default,
            documentation=documentation,
            at_least=at_least,
            at_most=at_most,
            broker=broker,
        )
    )


def long(
    name: str,
    default: int,
    documentation: str,
    *,
    at_least: int = 0,
    at_most: int = LONG_MAX,
    broker: str | None = None,
) -> Any:
    """A whole number of 64 bits."""
    return line(
        Definition(
            name=name,
            type=ConfigType.LONG,
            default=default,
            documentation=documentation,
            at_least=at_least,
            at_most=at_most,
            broker=broker,
        )
    )


def decimal(
    name: str,
    default: float,
    documentation: str,
    *,
    at_least: float,
    at_most: float,
    broker: str | None = None,
) -> Any:
    return line(
        Definition(
            name=name,
            type=ConfigType.DOUBLE,
            default=default,
            documentation=documentation,
            at_least=at_least,
            at_most=at_most,
            broker=broker,
        )
    )


def flag(name: str, default: bool, documentation: str, *, broker: str | None = None) -> Any:
    return line(
        Definition(
            name=name,
            type=ConfigType.BOOLEAN,
            default=default,
            documentation=documentation,
            broker=broker,
        )
    )


def text(
    name: str,
    default: str,
    documentation: str,
    *,
    choices: tuple[str, ...] = (),
    broker: str | None = None,
) -> Any:
    return line(
        Definition(
            name=name,
            type=ConfigType.STRING,
            default=default,
            documentation=documentation,
            choices=choices,
            broker=broker,
        )
    )


def names(
    name: str,
    default: frozenset[str],
    documentation: str,
    *,
    choices: tuple[str, ...] = (),
    broker: str | None = None,
) -> Any:
    """A list; which items are in it counts, not their order."""
    return line(
        Definition(
            name=name,
            type=ConfigType.LIST,
            default=default,
            documentation=documentation,
            choices=choices,
            broker=broker,
        )
    )
