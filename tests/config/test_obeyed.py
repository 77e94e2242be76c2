"""A setting is obeyed by somebody, or its documentation says that it is not."""

import re
from pathlib import Path

import pytest

import tierlog
from tierlog.config import NodeSettings, TopicConfig, describe_node, describe_topic
from tierlog.config.definition import NOT_OBEYED, Definition, definitions_of

TOPIC = definitions_of(TopicConfig)
NODE = definitions_of(NodeSettings)
DEFAULTS = {line.broker: name for name, line in TOPIC.items() if line.broker is not None}
"""Node settings that are read as the defaults of topic settings, which is all they do."""

ROOT = Path(tierlog.__file__).parent
TABLES = {ROOT / "config" / name for name in ("topic.py", "node.py", "definition.py")}
READERS = "\n".join(path.read_text() for path in sorted(ROOT.rglob("*.py")) if path not in TABLES)
OF_ITSELF = (ROOT / "config" / "node.py").read_text()


def has_reader(line: Definition, owner: str) -> bool:
    """Whether the attribute is read off something that is called like its owner, or by its name
    off what the bucket says of a topic."""
    by_name = f'configs.get("{line.name}"'
    return by_name in READERS or re.search(rf"\b_?{owner}\.{line.attribute}\b", READERS) is not None


def is_read_by_the_table(line: Definition) -> bool:
    """Addresses and watermarks: what others read is derived there."""
    return re.search(rf"\bself\.{line.attribute}\b", OF_ITSELF) is not None


@pytest.mark.parametrize("name", TOPIC)
def test_a_topic_setting_is_marked_as_obeyed_if_and_only_if_it_has_a_reader(name: str) -> None:
    assert has_reader(TOPIC[name], "config") == TOPIC[name].obeyed


@pytest.mark.parametrize("name", sorted(NODE.keys() - DEFAULTS.keys()))
def test_a_node_setting_is_marked_as_obeyed_if_and_only_if_it_has_a_reader(name: str) -> None:
    line = NODE[name]
    assert (has_reader(line, "settings") or is_read_by_the_table(line)) == line.obeyed


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_of_topics_is_obeyed_as_the_topic_setting_is(name: str) -> None:
    assert NODE[name].obeyed == TOPIC[DEFAULTS[name]].obeyed


def test_clients_read_which_settings_are_not_acted_upon() -> None:
    entries = [*describe_topic({}, NodeSettings()), *describe_node(NodeSettings())]
    told = {each.name for each in entries if each.documentation.endswith(NOT_OBEYED)}
    lines = [*TOPIC.values(), *NODE.values()]
    assert told == {line.name for line in lines if not line.obeyed}
    assert {"preallocate", "log.preallocate"} <= told
    assert not {"flush.ms", "retention.ms", "num.partitions", "s3.endpoint"} & told
