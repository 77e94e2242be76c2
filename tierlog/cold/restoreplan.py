"""What a restore has decided: a file in the data directory that it prepares.

Written before the bucket is touched and removed last. A restore that was cut off finds in it who it
is, so that it knows its own claims again and goes on instead of fencing itself. While the file is
there the directory is half made: no node may start on it (`is_unfinished`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierlog.cold import canonical
from tierlog.cold.fields import Fields
from tierlog.cold.head import Incarnation
from tierlog.hot import smallfile
from tierlog.hot.names import TEMPORARY

if TYPE_CHECKING:
    from tierlog.env import Disk

NAME = "restore.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    cluster_id: str
    after: Incarnation
    """The life that ends."""
    incarnation: Incarnation
    """The life that begins."""
    process: str
    """Under which every HEAD is claimed."""


def is_unfinished(disk: Disk, data: str) -> bool:
    """Whether a restore into this directory was begun and has not ended."""
    return disk.exists(f"{data}/{NAME}")


def has_content(disk: Disk, data: str) -> bool:
    """Whether there is anything but a plan that was cut off half written."""
    return any(name != NAME + TEMPORARY for name in disk.listdir(data))


def write_plan(disk: Disk, data: str, plan: Plan) -> None:
    value = {
        "format": 1,
        "cluster_id": plan.cluster_id,
        "after": plan.after._asdict(),
        "incarnation": plan.incarnation._asdict(),
        "process": plan.process,
    }
    smallfile.make_directory(disk, data)
    smallfile.replace(disk, data, NAME, canonical.to_bytes(value) + b"\n")


def read_plan(disk: Disk, data: str) -> Plan | None:
    try:
        found = smallfile.read_all(disk, f"{data}/{NAME}")
    except FileNotFoundError:
        return None
    fields = Fields(canonical.from_bytes(found, key=NAME), key=NAME, place=NAME)
    fields.integer("format", 1, 1)
    plan = Plan(
        cluster_id=fields.text("cluster_id"),
        after=_read_incarnation(fields.inner("after")),
        incarnation=_read_incarnation(fields.inner("incarnation")),
        process=fields.text("process"),
    )
    fields.close()
    return plan


def _read_incarnation(fields: Fields) -> Incarnation:
    found = Incarnation(fields.integer("number", 1), fields.text("id"))
    fields.close()
    return found


def remove_plan(disk: Disk, data: str) -> None:
    disk.unlink(f"{data}/{NAME}")
    disk.sync_dir(data)
