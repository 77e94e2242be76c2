"""Which node lives on these data, and what its topics started from when it last did.

Data belong to one node: clients and partitions know it by its number. And a default of the node may
not make of a topic what a change of the topic itself could not: a start that would is refused, and
the sentence names the topic.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tierlog.config import InvalidConfig, NodeSettings, check_change, topic_config
from tierlog.config.definition import INT_MAX
from tierlog.config.rules import NODE, TOPIC
from tierlog.metastore import Put, values
from tierlog.metastore.values import TopicState

if TYPE_CHECKING:
    from tierlog.metastore import Entry, MetaStore


async def register(metastore: MetaStore, settings: NodeSettings) -> None:
    """Raises `InvalidConfig` if this node, as it is set, may not live here."""
    key = values.broker_key(settings.node_id)
    known = {entry.key: entry for entry in (await metastore.list(values.BROKERS))[0]}
    if known and key not in known:
        _refuse_stranger(settings.node_id, next(iter(known)).removeprefix(values.BROKERS))
    before = _settings_of(known[key]) if key in known else settings
    topics, _ = await metastore.list(values.TOPICS)
    for entry in topics:
        _check_topic(TopicState.from_bytes(entry.value), before, settings)
    value = values.to_json({"defaults": _defaults_of(settings)})
    if key not in known or known[key].value != value:
        await metastore.txn([], [Put(key, value)])


def _refuse_stranger(node_id: int, owner: str) -> None:
    raise InvalidConfig(
        "node.id",
        f"node.id is {node_id}, and the data are those of node {owner}; start it with "
        f"--node-id {owner}, or name another --data directory",
    )


def _check_topic(topic: TopicState, before: NodeSettings, after: NodeSettings) -> None:
    try:
        config = topic_config(topic.configs, after)
        if after is not before:
            check_change(topic_config(topic.configs, before), config)
    except InvalidConfig as error:
        raise InvalidConfig(
            error.name,
            f"topic {topic.name} cannot live with the defaults that this node is given: "
            f"{error.sentence}",
        ) from None


def _defaults_of(settings: NodeSettings) -> dict[str, str]:
    """What topics start from, as text by name. All of it: a newer node may have other defaults."""
    lines = [NODE[each.broker] for each in TOPIC.values() if each.broker is not None]
    return {line.name: line.text(getattr(settings, line.attribute)) or "" for line in lines}


def _settings_of(entry: Entry) -> NodeSettings:
    found: dict[str, str] = json.loads(entry.value).get("defaults", {})
    lines: dict[str, Any] = {
        NODE[name].attribute: NODE[name].parse(text) for name, text in found.items() if name in NODE
    }
    # The limits of requests are no matter of topics, and were checked when they held.
    return NodeSettings(socket_request_max_bytes=INT_MAX, queued_max_request_bytes=INT_MAX, **lines)
