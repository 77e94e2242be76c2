"""Local copies of HEAD objects and of STATE: what is cold is known while the store is away; what it
loses can be put back.

One file a partition and one of the cluster, below `<data>/cold/`, the bytes of the object as they
stand in the bucket (`zcat` reads them). Replaced whole and synced before a publish, or a change of
STATE, is reported, so that nothing is ever dropped from the disk that only a HEAD unknown to the
next start would find.

A copy that cannot be read is none: the bucket has the original, and a copy is only ever behind it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tierlog.cold.clusterstate import decode_state, encode_state
from tierlog.cold.codec import decode_head, encode_head
from tierlog.cold.refusals import CopyFailed
from tierlog.errors import TierlogError
from tierlog.hot import smallfile

if TYPE_CHECKING:
    from tierlog.cold.clusterstate import ClusterState
    from tierlog.cold.head import Head
    from tierlog.env import Env

logger = logging.getLogger(__name__)

SUFFIX = ".head"
STATE_NAME = "STATE"


class LocalCopies:
    """All of one node. `open` before anything else."""

    def __init__(self, env: Env, path: str) -> None:
        self.path = path
        self._env = env

    async def open(self) -> None:
        await self._env.tasks.in_thread(smallfile.make_directory, self._env.disk, self.path)

    async def load(self, topic_id: str, partition: int) -> Head | None:
        name = _name(topic_id, partition)
        try:
            head = decode_head(await self._read(name), key=name)
        except FileNotFoundError:
            return None
        except TierlogError as fault:
            logger.warning("%s/%s is not used: %s", self.path, name, fault)
            return None
        return head if (head.topic_id, head.partition) == (topic_id, partition) else None

    async def save(self, head: Head) -> None:
        """Durable when it returns. Raises `CopyFailed`."""
        await self._replace(_name(head.topic_id, head.partition), encode_head(head))

    async def load_state(self, cluster_id: str) -> ClusterState | None:
        try:
            state = decode_state(await self._read(STATE_NAME))
        except FileNotFoundError:
            return None
        except TierlogError as fault:
            logger.warning("%s/%s is not used: %s", self.path, STATE_NAME, fault)
            return None
        return state if state.cluster_id == cluster_id else None

    async def save_state(self, state: ClusterState) -> None:
        """Durable when it returns. Raises `CopyFailed`."""
        await self._replace(STATE_NAME, encode_state(state))

    async def _read(self, name: str) -> bytes:
        return await self._env.tasks.in_thread(
            smallfile.read_all, self._env.disk, f"{self.path}/{name}"
        )

    async def _replace(self, name: str, data: bytes) -> None:
        saving = self._env.tasks.in_thread(smallfile.replace, self._env.disk, self.path, name, data)
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            # The thread goes on: nobody may save another one beside it.
            await asyncio.wait({saving})
            raise
        except OSError as fault:
            raise CopyFailed(f"{self.path}/{name}", fault) from fault

    async def remove(self, topic_id: str, partition: int) -> None:
        """Of a deleted topic. Not synced: one that comes back means nothing."""
        path = f"{self.path}/{_name(topic_id, partition)}"
        try:
            await self._env.tasks.in_thread(self._env.disk.unlink, path)
        except FileNotFoundError:
            return


def _name(topic_id: str, partition: int) -> str:
    return f"{topic_id}-{partition}{SUFFIX}"
