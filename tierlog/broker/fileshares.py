"""How the files that the process may open are shared: logs, connections, everything else.

A connection takes two: its socket, and the sender's duplicate of it. Logs come along with few, at
the price of opening them again; a connection that finds none is lost. So logs get a quarter at
least, and connections as much of the rest as they may use.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from tierlog.hot.directory import FILES_MAX

logger = logging.getLogger(__name__)

PER_CONNECTION: Final = 2
FEW_CONNECTIONS: Final = 2000
OTHERS: Final = 128
"""HTTP, the metastore, logs that are being opened, directories that are synced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShares:
    logs: int
    connections: int
    files_max: int
    connections_wanted: int

    def warn_if_short(self) -> None:
        if self.connections < self.connections_wanted:
            # Few nodes need as many connections as they may have: only a small number is alarming.
            level = logging.WARNING if self.connections < FEW_CONNECTIONS else logging.INFO
            logger.log(
                level,
                "the process may open only %d files (ulimit -n): there can be %d connections, not "
                "the %d of max.connections, which would take %d files",
                self.files_max,
                self.connections,
                self.connections_wanted,
                files_wanted(connections_max=self.connections_wanted),
            )


def files_wanted(*, connections_max: int) -> int:
    """What leaves everybody as many as they can use."""
    return FILES_MAX + PER_CONNECTION * connections_max + OTHERS


def share_files(files_max: int, *, connections_max: int) -> FileShares:
    free = files_max - min(OTHERS, files_max // 8)
    logs = min(FILES_MAX, max(free // 4, free - PER_CONNECTION * connections_max))
    connections = min(connections_max, (free - logs) // PER_CONNECTION)
    return FileShares(
        logs=logs,
        connections=connections,
        files_max=files_max,
        connections_wanted=connections_max,
    )
