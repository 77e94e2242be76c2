"""One file per API. Each opens with its versions; `registry()` is the table of them all.

A handler module has `API`, `VERSIONS` (first and last, inclusive) and either
`handle(request, call) -> response` (typed; async if it waits) or `answer(frame, position, call)`
(raw). What is not listed here is not advertised.
"""

from tierlog.broker.dispatch import RawHandler, register
from tierlog.broker.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from tierlog.wire.registry import Registry

MODULES = (
    produce,
    fetch,
    list_offsets,
    metadata,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    offset_for_leader_epoch,
    describe_configs,
    alter_configs,
    describe_log_dirs,
    create_partitions,
    incremental_alter_configs,
    describe_cluster,
    describe_topic_partitions,
)
"""By API key."""


def registry() -> Registry[RawHandler]:
    """What this node serves; the README's table and the ApiVersions answer come from it."""
    made: Registry[RawHandler] = Registry()
    for module in MODULES:
        register(made, module)
    return made
