"""When each orphan was first seen: one small file a partition below `<data>/cold/orphans/`.

    {"format": 1, "seen": {"seg/...": 1700000000000}}

Times are this node's own. The file is there while there are orphans, and replaced whole. A file
that is lost or cannot be read means that everything is seen for the first time: orphans then stay
longer, which is the safe side.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from tierlog.hot import smallfile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierlog.env import Env

logger = logging.getLogger(__name__)

FORMAT = 1


class Sightings:
    def __init__(self, env: Env, path: str) -> None:
        self._env = env
        self._path = path

    async def load(self, topic_id: str, partition: int) -> dict[str, int]:
        """By key relative to the partition."""
        path = f"{self._path}/{_name(topic_id, partition)}"
        try:
            data = await self._env.tasks.in_thread(smallfile.read_all, self._env.disk, path)
        except FileNotFoundError:
            return {}
        try:
            return _decoded(data)
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            logger.warning("%s is not used: %s", path, fault)
            return {}

    async def save(self, topic_id: str, partition: int, seen: Mapping[str, int]) -> None:
        """Durable when it returns."""
        name = _name(topic_id, partition)
        if seen:
            await self._env.tasks.in_thread(self._replace, name, _encoded(seen))
        else:
            await self._env.tasks.in_thread(self._remove, f"{self._path}/{name}")

    def _replace(self, name: str, data: bytes) -> None:
        smallfile.make_directory(self._env.disk, self._path)
        smallfile.replace(self._env.disk, self._path, name, data)

    def _remove(self, path: str) -> None:
        if self._env.disk.exists(path):
            self._env.disk.unlink(path)


def _encoded(seen: Mapping[str, int]) -> bytes:
    return json.dumps({"format": FORMAT, "seen": dict(seen)}, sort_keys=True).encode() + b"\n"


def _decoded(data: bytes) -> dict[str, int]:
    value = json.loads(data)
    if value["format"] != FORMAT:
        raise ValueError(f"format {value['format']}")
    return {str(key): int(first_ms) for key, first_ms in value["seen"].items()}


def _name(topic_id: str, partition: int) -> str:
    return f"{topic_id}-{partition}.json"
