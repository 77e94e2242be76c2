"""TABLE and its pages as bytes: round trips, and what is refused."""

from dataclasses import replace

import pytest

from tests.cold.makers import TOPIC_ID
from tests.table.makers import a_file, a_table
from tierlog.cold import canonical
from tierlog.cold.errors import ColdCorrupt, NewerFormat
from tierlog.table import codec
from tierlog.table.keys import file_key, page_key, parse_file_key, parse_page_key
from tierlog.table.manifest import FilePage, Garbage, Skip, Table
from tierlog.types import LeaderEpoch, Offset


def a_full_table() -> Table:
    table = a_table([a_file(100, 200, dead=3), a_file(250, 300)])
    gone = a_file(0, 100)
    return replace(
        table,
        skips=(Skip(Offset(200), Offset(250), 5),),
        garbage=(Garbage(gone.key, "v1", 77, gone.size),),
        head_version=4,
    )


def test_a_table_comes_back_as_it_was() -> None:
    table = a_full_table()
    assert codec.decode_table(codec.encode_table(table), key="TABLE") == table


def test_a_page_comes_back_as_it_was() -> None:
    page = FilePage(topic_id=TOPIC_ID, partition=7, files=(a_file(0, 10, dead=1), a_file(10, 20)))
    data = codec.encode_page(page)
    ref = codec.refer(page, key=page_key(start=Offset(0), attempt=1), data=data)
    assert codec.open_page(ref, data) == page
    assert (ref.start, ref.end, ref.files, ref.rows, ref.dead_records) == (0, 20, 2, 19, 1)
    with pytest.raises(ColdCorrupt, match="not the published ones"):
        codec.open_page(ref, data[:-1] + b"x")


def changed(table: Table, **values: object) -> bytes:
    return canonical.compress(canonical.to_bytes(codec.table_value(table) | values))


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "an unknown field": ({"colour": "red"}, "colour"),
    "an end before the start": ({"converted_end": 1}, "converted_end"),
    "another kind": ({"kind": "head"}, "kind"),
    "files of no list": ({"files": 3}, "files"),
    "a number as text": ({"rows": "3"}, "rows"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_a_table_is_refused(what: str) -> None:
    values, place = REFUSED[what]
    with pytest.raises(ColdCorrupt, match=place):
        codec.decode_table(changed(a_full_table(), **values), key="TABLE")


@pytest.mark.parametrize("name", ["format", "schema"])
def test_a_newer_table_is_refused(name: str) -> None:
    with pytest.raises(NewerFormat, match="newer one"):
        codec.decode_table(changed(a_full_table(), **{name: 2}), key="TABLE")


def test_a_file_under_the_key_of_another_range_is_refused() -> None:
    table = a_table([replace(a_file(0, 10), key=a_file(0, 11).key)])
    with pytest.raises(ColdCorrupt, match="not that of such a file"):
        codec.decode_table(codec.encode_table(table), key="TABLE")


def test_keys_say_what_they_name() -> None:
    key = file_key(start=Offset(5), end=Offset(9), leader_epoch=LeaderEpoch(2), node=3, attempt=255)
    assert (
        key
        == "pq/00000000000000000005-00000000000000000008-e00000002-n00003-00000000000000ff.parquet"
    )
    name = parse_file_key(key)
    assert name == (5, 9, 2, 3, 255, False)
    assert parse_file_key(key.replace(".parquet", ".dead.parquet")) == (5, 9, 2, 3, 255, True)
    assert parse_file_key(key + "x") is None
    assert parse_page_key(page_key(start=Offset(5), attempt=255)) == (5, 255)
    assert parse_page_key(key) is None
