"""Connections by address and lane, made when asked for.

A broker answers one connection in order, so a fetch that waits for data would hold up everything
behind it. Hence lanes: control, produce and fetch requests travel on connections of their own.
"""

import asyncio
from typing import TypeAlias

from tierlog.client.connection import Connection
from tierlog.client.errors import NotConnected
from tierlog.client.settings import ClientSettings

Address: TypeAlias = tuple[str, int]

CONTROL = "control"
PRODUCE = "produce"
FETCH = "fetch"


class Pool:
    """At most one open connection for each address and lane."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._closed = False
        self._open: dict[tuple[Address, str], Connection] = {}
        self._locks: dict[tuple[Address, str], asyncio.Lock] = {}

    def find(self, address: Address, lane: str = CONTROL) -> Connection | None:
        connection = self._open.get((address, lane))
        return connection if connection is not None and connection.is_open else None

    async def get(self, address: Address, lane: str = CONTROL) -> Connection:
        """The open connection, or a new one; callers at the same time share it."""
        key = address, lane
        self._check_open()
        if (connection := self.find(address, lane)) is not None:
            return connection
        async with self._locks.setdefault(key, asyncio.Lock()):
            if (connection := self.find(address, lane)) is not None:
                return connection
            connection = await self._connect(address)
            self._open[key] = connection
            if self._closed:  # meanwhile
                connection.abort()
            self._check_open()
            return connection

    def _check_open(self) -> None:
        if self._closed:
            raise NotConnected("the client is closed")

    async def _connect(self, address: Address) -> Connection:
        settings = self._settings
        return await Connection.connect(
            *address,
            client_id=settings.client_id,
            timeout_s=settings.request_timeout_s,
            connect_timeout_s=settings.connect_timeout_s,
            frame_bytes_max=settings.frame_bytes_max,
            versions_max=settings.versions_max,
        )

    async def close(self) -> None:
        self._closed = True
        connections, self._open = list(self._open.values()), {}
        for connection in connections:
            await connection.close()
