"""What goes wrong between Spark and the bucket, for whoever wrote the query."""

from tierlog.errors import Kind, TierlogError


class SparkError(TierlogError):
    """Of this room."""


class OptionRefused(SparkError):
    """An option is unknown, malformed, or does not fit another."""

    kind = Kind.INVALID

    def __init__(self, option: str, sentence: str) -> None:
        super().__init__(sentence)
        self.option = option
        self._sentence = sentence

    def __reduce__(self) -> tuple[type["OptionRefused"], tuple[str, str]]:
        """Spark carries errors between processes."""
        return OptionRefused, (self.option, self._sentence)


class NotReadable(SparkError):
    """What was asked for is not there: a topic, a partition, offsets."""

    kind = Kind.INVALID


class DataLost(SparkError):
    """Offsets that were asked for are gone, and `failOnDataLoss` says that this matters."""

    kind = Kind.UNAVAILABLE


class SparkMissing(SparkError):
    """The extra `spark` is not installed."""

    kind = Kind.UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("this needs Spark: pip install 'tierlog[spark]', and Java 17 or later")
