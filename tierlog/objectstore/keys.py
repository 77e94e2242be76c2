"""Which keys every store takes: the narrowest common ground of S3, its imitators and a folder."""

import re

from tierlog.objectstore.errors import StoreBadRequest

KEY_BYTES_MAX = 1024
"""S3's own limit."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NO_NAMES = frozenset(("", ".", ".."))


def check_key(key: str) -> str:
    """The key itself; raises `StoreBadRequest` for one that some store would bend or refuse."""
    if problem := _problem(key):
        raise StoreBadRequest(f"{key[:100]!r} cannot be the key of an object: {problem}")
    return key


def _problem(key: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "it is not text"
    if not 0 < size <= KEY_BYTES_MAX:
        return f"it must have 1 to {KEY_BYTES_MAX} bytes"
    if not _NO_NAMES.isdisjoint(key.split("/")):
        return "a part between slashes is empty or made of dots"
    if _CONTROL.search(key):
        return "it holds a control character"
    return ""
