"""What settings can belong to: Kafka's resource types, and who answers to a resource's name.

Topics and this node have settings here. The settings of the node are read when it starts, so they
can be looked at and not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.broker.errors import InvalidRequest
from tierlog.broker.topics import check_name

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.broker.node import Node
    from tierlog.broker.topics import Topic

TOPIC: Final = 2
BROKER: Final = 4
NAMES: Final = {
    TOPIC: "topic",
    BROKER: "broker",
    8: "broker logger",
    16: "client metrics",
    32: "group",
}

EVERY_NODE: Final = ""
"""As the name of a broker: what is set for all of them at run time, which is nothing."""


def topic_of(name: str, node: Node) -> Topic:
    """Raises `UnknownTopic`, or says what is wrong with the name itself."""
    topic = node.topics.by_name.get(name)
    if topic is not None:
        return topic
    check_name(name)
    return node.topics.named(name)


async def in_bucket(topic: Topic, call: Call, *, only_checks: bool) -> None:
    """Returns once the bucket knows how long the topic's records live (U7b)."""
    if not only_checks and (tiering := call.node.tiering) is not None:
        await tiering.tell_policy(topic)


def check_node(name: str, node: Node) -> None:
    """A node speaks for itself alone."""
    if name not in (EVERY_NODE, str(node.node_id)):
        raise InvalidRequest(
            f"broker {name!r} is asked for; this is broker {node.node_id}, and an empty name "
            "stands for all of them"
        )


def has_no_settings(resource_type: int) -> InvalidRequest:
    name = NAMES.get(resource_type, f"resource of type {resource_type}")
    return InvalidRequest(f"a {name} has no settings here; topics and brokers have")


def cannot_change(resource_type: int, name: str, node: Node) -> InvalidRequest:
    """Why the settings of something other than a topic stay as they are."""
    if resource_type != BROKER:
        return has_no_settings(resource_type)
    try:
        check_node(name, node)
    except InvalidRequest as error:
        return error
    return InvalidRequest(
        "the settings of a broker are read-only at run time; change them where the node is "
        "started, and start it again"
    )
