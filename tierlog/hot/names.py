"""Names of the files in a partition's directory. Kafka's, where Kafka has the file."""

from tierlog.types import Offset

LOG = "log"
INDEX = "index"
TIME_INDEX = "timeindex"
SNAPSHOT = "snapshot"
STRAY = ".stray"
TEMPORARY = ".tmp"
CLEANED = ".cleaned"
SWAP = ".swap"
TORN = "torn"
DAMAGED = "damaged"
CHECKPOINT = "partition.checkpoint"
END_MARK = "durable.end"
DELETED = ".deleted"
KEPT = ".kept"


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


def is_leftover(name: str) -> bool:
    """Whether this is a small file, segment or aside file that was never renamed into place."""
    stem = name.removesuffix(TEMPORARY)
    return stem != name and (
        stem == CHECKPOINT
        or parse_offset(stem, LOG) is not None
        or any(parse_aside(stem, kind) is not None for kind in (TORN, DAMAGED))
    )


def is_unswapped(name: str) -> bool:
    """Whether this is a file that a cleaning wrote and that is not in its place."""
    stem = name.removesuffix(CLEANED).removesuffix(SWAP)
    return stem != name and any(
        parse_offset(stem, kind) is not None for kind in (LOG, INDEX, TIME_INDEX)
    )


def is_partition(name: str) -> bool:
    """Whether a log directory takes this for the name of a partition: `{topic uuid}-{index}` is."""
    return bool(name) and "." not in name and "/" not in name


def deleted_name(path: str, token: bytes) -> str:
    """What a partition's directory is called once it is deleted. The token: it may come again."""
    return f"{path}.{token.hex()}{DELETED}"


def kept_name(path: str, token: bytes) -> str:
    """What a partition's directory is called once it is put aside for people to look at."""
    return f"{path}.{token.hex()}{KEPT}"


def is_deleted(name: str) -> bool:
    return name.endswith(DELETED)
