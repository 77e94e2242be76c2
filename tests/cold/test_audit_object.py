"""A merged object, read to its last byte."""

from dataclasses import replace

from tests.cold.test_merger import merge, slow_topic
from tests.cold.tiering import KEYS, TOPIC, TOPIC_ID, TierNode, head_in, play_node
from tierlog.cold.audit import Kind, Subject
from tierlog.cold.audit_object import Fault, ObjectAudit
from tierlog.cold.entry import Entry


async def merged(node: TierNode) -> Entry:
    bucket = await slow_topic(node)
    await merge(node)
    (entry,) = head_in(bucket).entries
    assert entry.replaces is not None
    return entry


async def audited(node: TierNode, entry: Entry) -> Fault | None:
    subject = Subject(TOPIC.name, TOPIC_ID, 0)
    key = KEYS.full(entry.key)
    return await ObjectAudit(node.store, key, entry, subject, node.env.tasks).run()


def test_a_merged_object_is_sound_to_whoever_reads_every_byte() -> None:
    async def scenario(node: TierNode) -> None:
        assert await audited(node, await merged(node)) is None

    play_node(scenario)


def test_an_entry_whose_sources_do_not_lead_to_it_is_unsound() -> None:
    async def scenario(node: TierNode) -> None:
        entry = await merged(node)
        fault = await audited(node, replace(entry, chain="0" * 64))
        assert fault is not None
        assert fault.kind is Kind.OBJECT_UNSOUND
        assert "do not lead to its place" in fault.found

    play_node(scenario)
