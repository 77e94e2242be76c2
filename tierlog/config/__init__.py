"""Settings of a node and of topics: one table each, and everything that is derived from it.

`topic.py` and `node.py` are the tables; `definition.py` says what a line of them means. From them
come parsing and its error sentences, the effective settings of a topic (`rules.py`), what clients
see (`describe.py`) and the settings of a node from command line, environment and file (`load.py`).
Pure: who reads files and variables is the caller. What a setting does belongs to the room that
obeys it.
"""

from tierlog.config.address import Address, parse_address
from tierlog.config.definition import ConfigType, Definition
from tierlog.config.describe import (
    ConfigEntry,
    ConfigSource,
    Synonym,
    describe_node,
    describe_topic,
)
from tierlog.config.errors import InvalidConfig
from tierlog.config.load import load_node_settings
from tierlog.config.node import NodeSettings
from tierlog.config.rules import Change, altered, check_change, topic_config
from tierlog.config.store import check_apart, default_store, store_folder
from tierlog.config.topic import TopicConfig

__all__ = [
    "Address",
    "Change",
    "ConfigEntry",
    "ConfigSource",
    "ConfigType",
    "Definition",
    "InvalidConfig",
    "NodeSettings",
    "Synonym",
    "TopicConfig",
    "altered",
    "check_apart",
    "check_change",
    "default_store",
    "describe_node",
    "describe_topic",
    "load_node_settings",
    "parse_address",
    "store_folder",
    "topic_config",
]
