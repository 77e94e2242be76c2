"""Numba, where it is installed, with a cache that is safe to load from.

What Numba caches is code and pickles: whoever can write to the cache runs as this user. So it lies
in a directory of the user's own, `~/.cache/tierlog/numba`, which must belong to this user and be
closed to all others. Where `NUMBA_CACHE_DIR` is set, that is taken instead: whoever sets it vouches
for it. Where neither can be had, nothing is cached.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


def compiler() -> Callable[[Callable[..., Any]], Callable[..., Any]] | None:
    """A decorator that compiles, or None where Numba cannot be imported."""
    try:
        import numba
    except ImportError:
        return None
    directory = os.environ.get("NUMBA_CACHE_DIR") or _private_cache()
    if directory is not None:
        numba.config.CACHE_DIR = directory  # type: ignore[attr-defined]  # made at run time

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        result: Callable[..., Any] = numba.njit(
            cache=directory is not None, nogil=True, error_model="numpy"
        )(function)
        return result

    return compiled


def _private_cache() -> str | None:
    path = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tierlog" / "numba"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except (OSError, RuntimeError) as fault:
        logger.info("compiled code is not cached: %s", fault)
        return None
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        logger.warning("compiled code is not cached: %s can be written to by others", path)
        return None
    return str(path)


def yield_to_others(step: int) -> None:
    """For worker processes that must never be in anybody's way."""
    os.nice(step)
