"""How many files this process may have open."""

import resource


def raise_files_max(wanted: int) -> int:
    """Ask for so many; returns how many there may be. The hard limit stays as it was given."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if target <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (OSError, ValueError):  # Some systems refuse what they say is possible.
        return soft
    return target
