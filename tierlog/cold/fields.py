"""Reading the fields of a decoded JSON value, every one checked.

Objects of the bucket are input (U9): a field that is missing, of another type, out of bounds or
unknown is `ColdCorrupt` with the key and the place, never a KeyError further on. Unknown fields are
refused as well: whoever rewrites a manifest would drop them, and a dropped hold deletes data. So
what is added later stands only where it says something: older readers refuse just those objects.
"""

from typing import NoReturn

from tierlog.cold.errors import ColdCorrupt

INTEGER_MAX = 2**63 - 1
TEXT_CHARACTERS_MAX = 1024
DIGEST_CHARACTERS = 64
_HEX = frozenset("0123456789abcdef")


class Fields:
    """The fields of one JSON object. Each is taken once; `close` refuses what is left."""

    __slots__ = ("_left", "key", "place")

    def __init__(self, value: object, *, key: str, place: str) -> None:
        self.key = key
        self.place = place
        if not isinstance(value, dict):
            raise ColdCorrupt(key, f"{place} is not an object")
        self._left: dict[str, object] = dict(value)

    def _take(self, name: str) -> object:
        try:
            return self._left.pop(name)
        except KeyError:
            raise ColdCorrupt(self.key, f"{self.place} lacks {name}") from None

    def has(self, name: str) -> bool:
        """Of a field that stands only where it says something."""
        return name in self._left

    def refuse(self, name: str, why: str) -> NoReturn:
        raise ColdCorrupt(self.key, f"{self.place}: {name} {why}")

    def integer(self, name: str, low: int = 0, high: int = INTEGER_MAX) -> int:
        value = self._take(name)
        # Not isinstance: True is an int, too.
        if type(value) is not int or not low <= value <= high:
            self.refuse(name, f"is not a whole number of [{low}, {high}]")
        return value

    def text(self, name: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
        value = self._take(name)
        if not isinstance(value, str) or len(value) > characters_max:
            self.refuse(name, f"is not a text of at most {characters_max} characters")
        # JSON can spell half a character, which nobody could write down again.
        if not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value):
            self.refuse(name, "is no text")
        return value

    def maybe_text(self, name: str) -> str | None:
        if name in self._left and self._left[name] is None:
            del self._left[name]
            return None
        return self.text(name)

    def digest(self, name: str) -> str:
        value = self.text(name, DIGEST_CHARACTERS)
        if not is_digest(value):
            self.refuse(name, "is not a SHA-256 in hexadecimal digits")
        return value

    def flag(self, name: str) -> bool:
        value = self._take(name)
        if not isinstance(value, bool):
            self.refuse(name, "is neither true nor false")
        return value

    def items(self, name: str, count_max: int, count_min: int = 0) -> list[object]:
        value = self._take(name)
        if not isinstance(value, list) or not count_min <= len(value) <= count_max:
            self.refuse(name, f"is not a list of {count_min} to {count_max}")
        return value

    def pairs(self, name: str, count_max: int) -> list[tuple[int, int]]:
        """A list of [number, number]."""
        found = []
        for item in self.items(name, count_max):
            if not isinstance(item, list) or len(item) != 2:
                self.refuse(name, "is not a list of pairs")
            one, two = item
            if type(one) is not int or type(two) is not int:
                self.refuse(name, "is not a list of pairs of numbers")
            if not (0 <= one <= INTEGER_MAX and 0 <= two <= INTEGER_MAX):
                self.refuse(name, "has a number out of bounds")
            found.append((one, two))
        return found

    def texts(self, name: str, count_max: int) -> list[str]:
        found = []
        for item in self.items(name, count_max):
            if not isinstance(item, str) or len(item) > TEXT_CHARACTERS_MAX:
                self.refuse(name, "is not a list of texts")
            found.append(item)
        return found

    def inner(self, name: str) -> "Fields":
        return Fields(self._take(name), key=self.key, place=f"{self.place}.{name}")

    def maybe_inner(self, name: str) -> "Fields | None":
        """Of a member that format 1 did not always have: None where it is not there."""
        return self.inner(name) if name in self._left else None

    def inners(self, name: str, count_max: int) -> list["Fields"]:
        return [
            Fields(item, key=self.key, place=f"{self.place}.{name}[{number}]")
            for number, item in enumerate(self.items(name, count_max))
        ]

    def close(self) -> None:
        if self._left:
            names = ", ".join(sorted(self._left)[:3])
            raise ColdCorrupt(self.key, f"{self.place} has fields that format 1 lacks: {names}")


def is_digest(text: str) -> bool:
    return len(text) == DIGEST_CHARACTERS and _HEX.issuperset(text)
