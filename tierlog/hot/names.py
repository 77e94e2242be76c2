"""Names of the files in a partition's directory. Kafka's, where Kafka has the file."""

from tierlog.types import Offset

LOG = "log"
INDEX = "index"
TIME_INDEX = "timeindex"
SNAPSHOT = "snapshot"
DELETED = ".deleted"
TORN = "torn"
DAMAGED = "damaged"
CHECKPOINT = "partition.checkpoint"
END_MARK = "durable.end"


def segment_name(base_offset: Offset, suffix: str) -> str:
    return f"{base_offset:020d}.{suffix}"


def segment_path(directory: str, base_offset: Offset, suffix: str) -> str:
    return f"{directory}/{segment_name(base_offset, suffix)}"


def aside_name(start: Offset, end: Offset, suffix: str) -> str:
    """Of the file that keeps bytes which recovery took out of the log."""
    return f"{start:020d}-{end:020d}.{suffix}"


def parse_offset(name: str, suffix: str) -> Offset | None:
    """The base offset in a file's name, or None when the name is of another kind."""
    stem, dot, found = name.partition(".")
    if not dot or found != suffix or len(stem) != 20 or not stem.isascii() or not stem.isdigit():
        return None
    return Offset(int(stem))


def parse_aside(name: str, suffix: str) -> tuple[Offset, Offset] | None:
    stem, dot, found = name.partition(".")
    start, dash, end = stem.partition("-")
    digits = start + end
    if not dot or found != suffix or not dash or not (start and end):
        return None
    if not digits.isascii() or not digits.isdigit():
        return None
    return Offset(int(start)), Offset(int(end))
