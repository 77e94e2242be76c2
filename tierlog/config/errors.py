"""The one error of settings: something a person asked for cannot be had, and why."""

from tierlog.errors import Kind, TierlogError


class InvalidConfig(TierlogError):
    """A setting is unknown, out of its range or at odds with another. The sentence says all."""

    kind = Kind.INVALID

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name
        self.sentence = sentence

    def found_in(self, where: str) -> "InvalidConfig":
        """The same complaint with the place where the value was read."""
        return InvalidConfig(self.name, f"{self.sentence} (from {where})")
