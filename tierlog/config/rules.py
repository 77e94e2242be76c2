"""From what a topic says to what holds for it: defaults, implications, combinations, changes.

Overrides are the texts that clients sent, by setting name; they are what is stored. A setting that
a topic leaves open may be implied by another one (a compacted topic is not tiered); saying the
opposite aloud is refused, never silently mended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from tierlog.config.definition import ConfigType, Definition, Value, definitions_of, list_items
from tierlog.config.errors import InvalidConfig
from tierlog.config.node import NodeSettings
from tierlog.config.topic import TopicConfig

TOPIC = definitions_of(TopicConfig)
NODE = definitions_of(NodeSettings)

WINDOW_MS = 600_000
"""Of a compliance topic: the default of `local.retention.ms`."""

Operation = Literal["set", "delete", "append", "subtract"]


@dataclass(frozen=True, slots=True)
class Change:
    """One line of IncrementalAlterConfigs."""

    name: str
    op: Operation
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Implied:
    """While `reason` holds, `name` is `value`; asking for another is refused with the reason."""

    name: str
    value: Value
    reason: str


def topic_config(overrides: Mapping[str, str], node: NodeSettings) -> TopicConfig:
    """The effective settings of a topic. Raises `InvalidConfig`."""
    values: dict[str, Any] = {each.name: node_default(each, node) for each in TOPIC.values()}
    values |= {name: topic_definition(name).parse(text) for name, text in overrides.items()}
    _apply_implications(values, overrides)
    if values["tierlog.compliance"]:
        _keep_repair_window(values, overrides)
    _settle_local_retention(values, overrides)
    _check_together(values, node)
    return TopicConfig(**{TOPIC[name].attribute: value for name, value in values.items()})


def altered(overrides: Mapping[str, str], changes: Sequence[Change]) -> dict[str, str]:
    """The overrides after the changes; `topic_config` must judge them afterwards."""
    result = dict(overrides)
    touched: set[str] = set()
    for change in changes:
        if change.name in touched:
            raise InvalidConfig(change.name, f"{change.name} is changed twice in one request")
        touched.add(change.name)
        _alter(result, change)
    return result


def check_change(before: TopicConfig, after: TopicConfig) -> None:
    """Refuses what a living topic may not become, although a new one might be it."""
    if before.remote_storage_enable and not after.remote_storage_enable:
        raise InvalidConfig(
            "remote.storage.enable",
            "remote.storage.enable cannot be turned off, nor compaction on, while a topic lives; "
            "create another topic with remote.storage.enable=false, where retention acts already",
        )
    if before.tierlog_compliance:
        _check_compliance_change(before, after)


def topic_definition(name: str) -> Definition:
    """Raises `InvalidConfig` with the nearest known name."""
    if name in TOPIC:
        return TOPIC[name]
    own = next((each.name for each in TOPIC.values() if each.broker == name), None)
    if own is not None:
        hint = f"; it is a node setting, and a topic's own is {own}"
    elif name in NODE:
        hint = "; it is a setting of the node"
    else:
        hint = nearest(name, TOPIC)
    raise InvalidConfig(name, f"unknown topic setting {name}{hint}")


def nearest(name: str, known: Mapping[str, object]) -> str:
    """The end of a sentence about an unknown name: what was probably meant, if anything."""
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def node_default(definition: Definition, node: NodeSettings) -> Value:
    """What a topic has that says nothing."""
    if definition.broker is None:
        return definition.default
    value: Value = getattr(node, NODE[definition.broker].attribute)
    return value


def exceeds(value: int, limit: int) -> bool:
    """Whether one limit is wider than another; -1 is none at all."""
    return limit != -1 and (value == -1 or value > limit)


def _implications(values: Mapping[str, Any]) -> list[Implied]:
    """What the present values imply. The strictest rule comes first and speaks alone."""
    if values["tierlog.compliance"]:
        reason = "tierlog.compliance=true"
        return [
            Implied("message.timestamp.type", "LogAppendTime", reason),
            Implied("flush.messages", 1, reason),
            Implied("unclean.leader.election.enable", False, reason),
            Implied("remote.storage.enable", True, reason),
        ]
    if "compact" in values["cleanup.policy"]:
        reason = "cleanup.policy with compact"
        untiered = Implied("remote.storage.enable", False, reason)
        return [untiered, Implied("tierlog.table.enable", False, reason)]
    if not values["remote.storage.enable"]:
        return [Implied("tierlog.table.enable", False, "remote.storage.enable=false")]
    return []


def _apply_implications(values: dict[str, Any], overrides: Mapping[str, str]) -> None:
    for implied in _implications(values):
        if implied.name in overrides and values[implied.name] != implied.value:
            definition = TOPIC[implied.name]
            wanted, given = definition.text(implied.value), overrides[implied.name]
            raise InvalidConfig(
                implied.name,
                f"{implied.reason} needs {implied.name}={wanted}, and this asks for {given}",
            )
        values[implied.name] = implied.value


def _keep_repair_window(values: dict[str, Any], overrides: Mapping[str, str]) -> None:
    """Storage rule U6: what a compliance topic has uploaded stays on the disk for ten minutes at
    least, since the store can be repaired from there. A node's default is widened, a wish refused.
    """
    whole_ms = values["retention.ms"]
    for name, least in (
        ("local.retention.ms", whole_ms if exceeds(WINDOW_MS, whole_ms) else WINDOW_MS),
        ("local.retention.bytes", values["retention.bytes"]),
    ):
        if values[name] == -2 or not exceeds(least, values[name]):
            continue
        if name in overrides:
            raise InvalidConfig(
                name,
                f"tierlog.compliance=true needs {name} of at least {least}, and this asks for "
                f"{overrides[name]}: until then the store is repaired from the disk",
            )
        values[name] = least


def _settle_local_retention(values: dict[str, Any], overrides: Mapping[str, str]) -> None:
    """-2 is the value of retention.*; a default is cut to fit; a wish that does not is refused."""
    for local, whole in (
        ("local.retention.ms", "retention.ms"),
        ("local.retention.bytes", "retention.bytes"),
    ):
        tiered = values["remote.storage.enable"]
        too_wide = exceeds(values[local], values[whole])
        if tiered and too_wide and local in overrides and values[local] != -2:
            raise InvalidConfig(
                local,
                f"{local} is {values[local]}; it must be at most {whole} ({values[whole]})",
            )
        if not tiered or too_wide or values[local] == -2:
            values[local] = values[whole]


def _check_together(values: Mapping[str, Any], node: NodeSettings) -> None:
    if values["tierlog.compliance"] and "compact" in values["cleanup.policy"]:
        raise InvalidConfig(
            "cleanup.policy", "a topic with tierlog.compliance=true cannot be compacted"
        )
    if values["remote.storage.enable"] and not node.remote_log_storage_system_enable:
        raise InvalidConfig(
            "remote.storage.enable",
            "remote.storage.enable=true needs a node with remote.log.storage.system.enable=true",
        )
    low, high = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if low > high:
        raise InvalidConfig(
            "min.compaction.lag.ms",
            f"min.compaction.lag.ms is {low}; it must be at most max.compaction.lag.ms ({high})",
        )


def _check_compliance_change(before: TopicConfig, after: TopicConfig) -> None:
    if not after.tierlog_compliance:
        raise InvalidConfig("tierlog.compliance", "tierlog.compliance is for ever: it stays true")
    for name in ("retention.ms", "retention.bytes"):
        old, new = (getattr(each, TOPIC[name].attribute) for each in (before, after))
        if exceeds(old, new):
            raise InvalidConfig(
                name, f"{name} of a compliance topic may grow and never shrink: {old} to {new}"
            )


def _alter(result: dict[str, str], change: Change) -> None:
    definition = topic_definition(change.name)
    if change.op == "delete":
        result.pop(change.name, None)
        return
    if change.value is None:
        raise InvalidConfig(change.name, f"{change.name} needs a value to {change.op}")
    if change.op == "set":
        result[change.name] = change.value
    else:
        result[change.name] = _edited_list(result, definition, change.op, change.value)


def _edited_list(
    overrides: Mapping[str, str], definition: Definition, op: Operation, value: str
) -> str:
    if definition.type is not ConfigType.LIST:
        raise InvalidConfig(
            definition.name, f"{definition.name} is not a list: it can be set, not {op}ed"
        )
    # As in Kafka, a list that was never set starts from its default.
    present = overrides.get(definition.name, definition.text(definition.default) or "")
    given, items = list_items(value), list_items(present)
    if op == "append":
        return ",".join(dict.fromkeys([*items, *given]))
    return ",".join(item for item in items if item not in given)
