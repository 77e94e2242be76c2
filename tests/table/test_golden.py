"""The formats of the table, held against bytes of an earlier day."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.table import golden
from tests.table.makers import START_MS
from tierlog.table import codec
from tierlog.table.invariants import check
from tierlog.table.schema import SCHEMA

MANIFESTS = ("TABLE.hex", "page.hex")


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_written_as_it_always_was(name: str) -> None:
    assert golden.plain(golden.build()[name]) == golden.kept_plain(name)


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_compressed_file_is_that_of_the_plain_one(name: str) -> None:
    assert golden.plain(golden.kept(name)) == golden.kept_plain(name)


def test_a_table_of_an_earlier_day_is_read() -> None:
    table = codec.decode_table(golden.kept("TABLE.hex"), key="TABLE")
    check(table, previous=None)
    assert table.pages[0].rows == golden.a_manifest().pages[0].rows
    assert table.files == golden.a_manifest().files
    assert codec.open_page(table.pages[0], golden.kept("page.hex")) == golden.a_page()


def test_rows_of_an_earlier_day_are_read() -> None:
    data = golden.kept("rows.hex")
    rows = pq.read_table(pa.BufferReader(data), use_threads=False)
    assert rows.schema.names == SCHEMA.names
    assert rows.cast(SCHEMA).column("offset").to_pylist() == [5, 7, 8]
    assert rows.column("key").to_pylist() == [b"k", None, b""]
    assert rows.column("sequence").to_pylist() == [2**31 - 1, 1, -1]
    assert rows.column("timestampType").to_pylist() == [0, 0, 1]
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [1000 * START_MS, 1000 * (START_MS + 5), 1000 * (START_MS + 9)]
    headers = [{"key": "h", "value": b"x"}, {"key": "n", "value": None}]
    assert rows.column("headers").to_pylist() == [headers, None, None]


def test_rows_are_written_with_the_same_content_today() -> None:
    one, two = (
        pq.read_table(pa.BufferReader(data), use_threads=False)
        for data in (golden.kept("rows.hex"), golden.a_parquet_file())
    )
    assert one.equals(two, check_metadata=True)
