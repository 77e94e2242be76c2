"""Settings as clients see them: value, where it comes from, and what it would be otherwise.

A node's setting counts as static when it differs from its default. Synonyms are listed from the
one that wins downwards, as in Kafka.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from tierlog.config.definition import ConfigType, Definition
from tierlog.config.node import NodeSettings
from tierlog.config.rules import NODE, TOPIC, topic_config


class ConfigSource(IntEnum):
    """Kafka's numbers for where a value comes from."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool = False
    type: ConfigType
    documentation: str
    synonyms: tuple[Synonym, ...]


def describe_topic(overrides: Mapping[str, str], node: NodeSettings) -> list[ConfigEntry]:
    """Every topic setting, by name."""
    config = topic_config(overrides, node)
    entries = []
    for name in sorted(TOPIC):
        definition = TOPIC[name]
        effective = definition.text(getattr(config, definition.attribute))
        synonyms = _topic_synonyms(definition, overrides, node)
        first = synonyms[0] if synonyms else None
        # A value that another setting implies is nobody's wish: it counts as a default.
        wished = first is not None and (name in overrides or first.value == effective)
        entries.append(
            ConfigEntry(
                name=name,
                value=overrides.get(name, effective),
                source=first.source if first and wished else ConfigSource.DEFAULT,
                is_read_only=False,
                type=definition.type,
                documentation=definition.told,
                synonyms=synonyms,
            )
        )
    return entries


def describe_node(node: NodeSettings) -> list[ConfigEntry]:
    """Every node setting, by name. None of them can be changed while the node runs."""
    entries = []
    for name in sorted(NODE):
        synonyms = _node_synonyms(NODE[name], node)
        entries.append(
            ConfigEntry(
                name=name,
                value=synonyms[0].value,
                source=synonyms[0].source,
                is_read_only=True,
                type=NODE[name].type,
                documentation=NODE[name].told,
                synonyms=synonyms,
            )
        )
    return entries


def _topic_synonyms(
    definition: Definition, overrides: Mapping[str, str], node: NodeSettings
) -> tuple[Synonym, ...]:
    own = overrides.get(definition.name)
    first = () if own is None else (_own(definition.name, own),)
    if definition.broker is None:
        return first
    return (*first, *_node_synonyms(NODE[definition.broker], node))


def _own(name: str, value: str) -> Synonym:
    return Synonym(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG)


def _node_synonyms(definition: Definition, node: NodeSettings) -> tuple[Synonym, ...]:
    name, value = definition.name, getattr(node, definition.attribute)
    default = Synonym(name, definition.text(definition.default), ConfigSource.DEFAULT)
    if value == definition.default:
        return (default,)
    return (Synonym(name, definition.text(value), ConfigSource.STATIC_BROKER), default)
