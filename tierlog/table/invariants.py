"""What always holds of a TABLE, by name.

Checked before every publish, so that a bug of ours ends as an error and not in the bucket, and when
a TABLE is read. Of pages only their references are looked at; `codec.open_page` looks inside.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from tierlog.cold.errors import InvariantBroken
from tierlog.table.codec import FILES_MAX, GARBAGE_MAX, SKIPS_MAX
from tierlog.table.keys import parse_file_key, parse_page_key
from tierlog.table.manifest import (
    MISSING,
    PAGES_MAX,
    SOURCES_MAX,
    FilePageRef,
    Row,
    Skip,
    Table,
    TableFile,
    rows_of,
)


def check(table: Table, *, previous: Table | None) -> None:
    """`InvariantBroken` names the first that does not hold. `previous` is the TABLE that this one
    replaces; None for a first one, or where only the value itself is in question."""
    for name, holds in OF_ONE.items():
        for reason in holds(table):
            raise InvariantBroken(name, reason)
    if previous is not None:
        for name, follows in OF_TWO.items():
            for reason in follows(table, previous):
                raise InvariantBroken(name, reason)


# Of one TABLE. Each yields what is wrong.


def _bounds(table: Table) -> Iterator[str]:
    for what, count, most in (
        ("files", len(table.files), FILES_MAX),
        ("pages", len(table.pages), PAGES_MAX),
        ("skips", len(table.skips), SKIPS_MAX),
        ("garbage", len(table.garbage), GARBAGE_MAX),
        ("sources", max((len(one.sources) for one in table.files), default=0), SOURCES_MAX),
    ):
        if count > most:
            yield f"{count} {what}, at most {most} are read"


def _tiling(table: Table) -> Iterator[str]:
    """Pages, files and skips lie end to end, from `table_start` to `converted_end`."""
    expected = table.table_start
    for row in rows_of(table):
        if row.start != expected:
            yield f"behind offset {expected} comes {row.start}"
        expected = row.end
    if expected != table.converted_end:
        yield f"it lists up to {expected} and says {table.converted_end}"


def _order(table: Table) -> Iterator[str]:
    """Pages come before the files, and files by offset: a reader looks for them so."""
    listed: tuple[TableFile | FilePageRef, ...] = (*table.pages, *table.files)
    for one, two in pairwise(listed):
        if two.start < one.end:
            yield f"offset {two.start} comes behind {one.end}"


def _keys(table: Table) -> Iterator[str]:
    """A key says what it names, and nothing is named twice or is garbage as well."""
    for file in table.files:
        name = parse_file_key(file.key)
        if name is None or name.is_dead or (name.start, name.end) != (file.start, file.end):
            yield f"{file.key} is not the key of [{file.start}, {file.end})"
    for ref in table.pages:
        page = parse_page_key(ref.key)
        if page is None or page.start != ref.start:
            yield f"{ref.key} is not the key of a page that begins at {ref.start}"
    listed = [key for file in table.files for key in file.keys]
    listed += (ref.key for ref in table.pages)
    garbage = {one.key for one in table.garbage}
    if len(set(listed)) < len(listed) or garbage.intersection(listed):
        yield "an object is named twice, or is garbage and listed"
    if len(garbage) < len(table.garbage):
        yield "an object is garbage twice"


def _totals(table: Table) -> Iterator[str]:
    listed: tuple[TableFile | FilePageRef, ...] = (*table.pages, *table.files)
    sizes = sum(one.size if isinstance(one, TableFile) else one.bytes for one in listed)
    for what, total, found in (
        ("rows", table.rows, sum(one.rows for one in listed)),
        ("bytes", table.bytes, sizes),
        ("dead records", table.dead_records, sum(one.dead_records for one in listed)),
    ):
        if total != found:
            yield f"{total} {what} are not those of what is listed, {found}"


# Of two, the second of which the first replaces.


def _identity(table: Table, previous: Table) -> Iterator[str]:
    for name in ("topic_id", "partition"):
        if getattr(table, name) != getattr(previous, name):
            yield f"{name} changes"


def _version(table: Table, previous: Table) -> Iterator[str]:
    if table.version != previous.version + 1:
        yield f"version {table.version} follows {previous.version}"
    if table.nonce == previous.nonce:
        yield "the nonce is that of the one before"
    if table.schema < previous.schema:
        yield f"the schema goes back from {previous.schema} to {table.schema}"


def _ends(table: Table, previous: Table) -> Iterator[str]:
    if table.converted_end < previous.converted_end:
        yield f"converted_end goes back from {previous.converted_end} to {table.converted_end}"
    if table.table_start < previous.table_start:
        yield f"table_start goes back from {previous.table_start} to {table.table_start}"


def _commit(table: Table, previous: Table) -> Iterator[str]:
    """What is new lies behind what was converted, or stands for the very offsets of what was
    there."""
    borders = _borders(previous)
    for row in rows_of(table):
        is_behind = row.start >= previous.converted_end
        if not is_behind and not {row.start, row.end} <= borders and not _is_known(row, previous):
            yield f"[{row.start}, {row.end}) has other borders than before"


def _rows(table: Table, previous: Table) -> Iterator[str]:
    """Files that stand in the place of others have their rows, and those are garbage now. (Where a
    source was converted again the rows may be others: then the sources are.)"""
    garbage = {one.key for one in table.garbage}
    here = {key for file in table.files for key in file.keys}
    known = {file.key for file in previous.files}
    for file in table.files:
        if file.key in known or file.start >= previous.converted_end:
            continue
        gone = [one for one in previous.files if file.start <= one.start < file.end]
        if not gone or (gone[0].start, gone[-1].end) != (file.start, file.end):
            yield f"{file.key} stands in the place of what was not there"
        elif _sources(gone) == file.sources and _counts(gone) != _counts([file]):
            yield f"{file.key} has other rows than what it stands in the place of"
    if table.pages == previous.pages:  # What moved into a page is not seen from here.
        for one in previous.files:
            for key in one.keys:
                if key not in here and key not in garbage:
                    yield f"{key} left, and is not garbage"


def _leaving(table: Table, previous: Table) -> Iterator[str]:
    """Garbage leaves when it may be deleted, not before, and is never listed again."""
    garbage = {one.key for one in table.garbage}
    was_garbage = {one.key for one in previous.garbage}
    for garb in previous.garbage:
        if garb.key not in garbage and table.published_ms < garb.not_before_ms:
            yield f"{garb.key} left the garbage before its time"
    for file in table.files:
        if was_garbage.intersection(file.keys):
            yield f"{file.key} was garbage, and is listed again"


def _borders(table: Table) -> set[int]:
    return {border for row in rows_of(table) for border in (row.start, row.end)}


def _is_known(row: Row, previous: Table) -> bool:
    """What moved into a page keeps its offsets; a page's own border may lie behind a file's."""
    if isinstance(row, Skip):
        return row in previous.skips
    if isinstance(row, FilePageRef):
        return row in previous.pages
    return row in previous.files


def _sources(files: list[TableFile]) -> tuple[object, ...]:
    return tuple(source for file in files for source in file.sources)


def _counts(files: list[TableFile]) -> tuple[int, int, int]:
    return (
        sum(one.rows for one in files),
        sum(one.control_records for one in files),
        sum(one.dead_records for one in files),
    )


def is_whole(file: TableFile) -> bool:
    """Whether every source was there to be read."""
    return all(one.sha256 != MISSING for one in file.sources)


OF_ONE: dict[str, Callable[[Table], Iterator[str]]] = {
    "bounds": _bounds,
    "tiling": _tiling,
    "order": _order,
    "keys": _keys,
    "totals": _totals,
}
OF_TWO: dict[str, Callable[[Table, Table], Iterator[str]]] = {
    "identity": _identity,
    "version": _version,
    "ends": _ends,
    "commit": _commit,
    "rows": _rows,
    "leaving": _leaving,
}
