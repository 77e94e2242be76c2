"""What must be true of every TABLE that lands in the simulated bucket.

Judged by the formats alone: versions rise by one, the watermark never goes back nor passes what
HEAD has published, files and skips tile their offsets, and each file lies in the bucket with its
hash before a TABLE lists it.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256

from tierlog.objectstore.shelf import Shelf
from tierlog.table.codec import decode_table, open_page
from tierlog.table.manifest import Table, rows_of

TABLE = "/TABLE"


def faults(shelf: Shelf, data: bytes, *, key: str, before: Table | None, end: int) -> Iterator[str]:
    """What is wrong with it, in sentences. `end`: up to where HEAD has published."""
    table = decode_table(data, key=key)
    if before is not None and table.version != before.version + 1:
        yield f"{key} of version {table.version} follows {before.version}"
    if before is not None and table.converted_end < before.converted_end:
        yield f"{key} goes back from {before.converted_end} to {table.converted_end}"
    if table.converted_end > end:
        yield f"{key} covers up to {table.converted_end}; {end} is published"
    at = table.table_start
    for row in rows_of(table):
        if row.start != at:
            yield f"{key} has a border at {at} and goes on at {row.start}"
        at = row.end
    if at != table.converted_end:
        yield f"{key} ends at {at}, not at {table.converted_end}"
    prefix = key.removesuffix(TABLE) + "/"
    for name, hashed in hashes(shelf, table, prefix).items():
        item = shelf.items.get(prefix + name)
        if item is None or sha256(item.data).hexdigest() != hashed:
            yield f"{key} lists {name}, which is not there with its hash"


def hashes(shelf: Shelf, table: Table, prefix: str) -> Mapping[str, str]:
    """Of everything that a reader of the table may ask for."""
    listed = {ref.key: ref.sha256 for ref in table.pages}
    pages = [
        open_page(ref, shelf.items[prefix + ref.key].data)
        for ref in table.pages
        if prefix + ref.key in shelf.items
    ]
    for file in (*table.files, *(one for page in pages for one in page.files)):
        listed[file.key] = file.sha256
        listed |= {one.key: one.sha256 for one in file.dead}
    return listed
