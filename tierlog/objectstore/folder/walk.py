"""Keys of a folder in the order of a store: by the bytes of the whole key.

A directory is looked at once, when the walk comes to it. What vanishes meanwhile is left out.
"""

from collections.abc import Iterator

from tierlog.env import Disk

OWN = ".tierlog"
"""The one name at the top that is no object."""


def keys_below(disk: Disk, root: str, *, prefix: str, after: str) -> Iterator[str]:
    """Keys that begin with `prefix` and come after `after`."""
    directory = prefix.rpartition("/")[0]
    start = f"{directory}/" if directory else ""
    wanted, last = prefix.encode(), after.encode()
    for key in _below(disk, root, start, wanted, last):
        if key.encode() > last:
            yield key


def _below(disk: Disk, root: str, start: str, wanted: bytes, last: bytes) -> Iterator[str]:
    for name in _names(disk, root, start):
        key = f"{start}{name}"
        raw = key.encode()
        if name.endswith("/"):
            # Everything below begins with `raw`: skip it when none of that can be asked for.
            is_past = raw < last[: len(raw)]
            if not is_past and (raw.startswith(wanted) or wanted.startswith(raw)):
                yield from _below(disk, root, key, wanted, last)
        elif raw.startswith(wanted):
            yield key


def _names(disk: Disk, root: str, start: str) -> list[str]:
    """Directories with their slash, which counts in the order: `a.b` comes before `a/b`."""
    try:
        found = disk.scan(f"{root}/{start}")
    except (FileNotFoundError, NotADirectoryError):
        return []
    names = [
        f"{each.name}/" if each.is_directory else each.name
        for each in found
        if start or each.name != OWN
    ]
    return sorted((name for name in names if _is_text(name)), key=str.encode)


def _is_text(name: str) -> bool:
    """A stranger's file with bytes that are no text is no object of ours."""
    return name.isprintable() or not any("\ud800" <= char <= "\udfff" for char in name)
