"""What an audit says of a table, on tables that a node has made."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.cold.tiering import KEYS, TOPIC_ID, bucket_of
from tests.hot.support import append
from tests.table.tabling import TableNode, files_in, play_tables, table_in
from tests.table.test_keeper import spoilt
from tests.table.test_mending import Items, cut, filled, flip, lose
from tierlog.cold.audit import Finding, Kind, Subject, TableAudit
from tierlog.cold.audit_partition import AuditSettings
from tierlog.table import audit as table_audit
from tierlog.table.audit import ObjectReader, TableAuditor, objects_of

SUBJECT = Subject("orders", TOPIC_ID, 0)


async def audited(node: TableNode, *, is_deep: bool) -> TableAudit:
    auditor = TableAuditor(node.store, node.env.tasks)
    return await auditor.run(KEYS, SUBJECT, AuditSettings(is_deep=is_deep))


def told(findings: tuple[Finding, ...]) -> list[tuple[Kind, str, int | None]]:
    return [(one.kind, one.key, one.start) for one in findings]


def test_a_sound_table_is_sound_and_a_deep_audit_reads_all_of_it() -> None:
    async def scenario(node: TableNode) -> None:
        assert await audited(node, is_deep=True) == TableAudit()  # There is none yet.
        await filled(node, 70)
        table = table_in(bucket_of(node))
        assert table.pages
        for is_deep in (False, True):
            audit = await audited(node, is_deep=is_deep)
            assert (audit.findings, audit.files, audit.bytes) == ((), 70, table.bytes)
            assert audit.read_bytes == (table.bytes if is_deep else 0)

    play_tables(scenario)


@pytest.mark.parametrize(
    ("spoil", "is_deep", "kind"),
    [
        (lose, False, Kind.FILE_MISSING),
        (cut, False, Kind.FILE_WRONG),
        (flip, True, Kind.FILE_WRONG),
    ],
)
def test_what_is_wrong_with_a_file_is_told(
    spoil: Callable[[Items, str], None], is_deep: bool, kind: Kind
) -> None:
    async def scenario(node: TableNode) -> None:
        files = await filled(node, 3)
        key = KEYS.full(files[1].key)
        spoil(bucket_of(node).shelf.items, key)
        assert told((await audited(node, is_deep=is_deep)).findings) == [(kind, key, 1)]

    play_tables(scenario)


@pytest.mark.parametrize("tail_bytes", [8, 64 << 10])
def test_a_file_with_another_number_of_rows_than_its_table_says_is_told(
    monkeypatch: pytest.MonkeyPatch, tail_bytes: int
) -> None:
    """Its bytes are those that were published."""
    monkeypatch.setattr(table_audit, "TAIL_BYTES", tail_bytes)

    async def scenario(node: TableNode) -> None:
        (file,) = await filled(node, 1)
        reader = ObjectReader(node.store, node.env.tasks, KEYS, SUBJECT, AuditSettings())
        for rows, due in ((file.rows, None), (file.rows + 8, "1 rows instead of 9")):
            (one,) = objects_of(replace(file, rows=rows))
            found = await reader.stat_and_read(one)
            assert (found and found.found) == due

    play_tables(scenario)


def test_dead_letters_are_looked_at_as_well() -> None:
    async def scenario(node: TableNode) -> None:
        await node.open()
        node.produce(b"one")
        append(node.log, spoilt(), leader_epoch=1)
        await node.produce_sealed(b"three")
        await node.converted()
        (file,) = files_in(bucket_of(node))
        assert (await audited(node, is_deep=True)).findings == ()
        flip(bucket_of(node).shelf.items, KEYS.full(file.dead[0].key))
        found = told((await audited(node, is_deep=True)).findings)
        assert found == [(Kind.FILE_WRONG, KEYS.full(file.dead[0].key), 0)]

    play_tables(scenario)


def test_a_page_and_a_manifest_that_cannot_be_read_are_told() -> None:
    async def scenario(node: TableNode) -> None:
        await filled(node, 70)
        items = bucket_of(node).shelf.items
        lose(items, KEYS.full(table_in(bucket_of(node)).pages[0].key))
        assert told((await audited(node, is_deep=False)).findings) == [
            (Kind.TABLE_WRONG, KEYS.table, None)
        ]
        flip(items, KEYS.table)
        assert told((await audited(node, is_deep=False)).findings) == [
            (Kind.TABLE_WRONG, KEYS.table, None)
        ]

    play_tables(scenario)
