"""One file per API of groups and offsets, as in the broker's room; `add_to` registers them all."""

from tierlog.broker.dispatch import RawHandler, register
from tierlog.groups.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from tierlog.wire.registry import Registry

MODULES = (
    offset_commit,
    offset_fetch,
    find_coordinator,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    describe_groups,
    list_groups,
    delete_groups,
    offset_delete,
    consumer_group_heartbeat,
    consumer_group_describe,
)
"""By API key."""


def add_to(registry: Registry[RawHandler]) -> None:
    for module in MODULES:
        register(registry, module)
