"""The hash chain over the entries of a partition.

`c_i = SHA-256(c_{i-1} || canonical bytes of entry_i without c)`, from a first value that names the
topic and the partition. Whoever kept any one value can tell later whether an entry before it was
dropped, reordered or rewritten. Over entries, not over HEADs: those are overwritten.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from tierlog.cold import canonical
from tierlog.cold.entry import Entry
from tierlog.cold.entry_codec import entry_value
from tierlog.cold.errors import ColdCorrupt


def genesis(topic_id: str, partition: int) -> str:
    """The value before a partition's first entry ever."""
    named = {"chain": "tierlog", "format": 1, "partition": partition, "topic_id": topic_id}
    return sha256(canonical.to_bytes(named)).hexdigest()


def after(before: str, entry: Entry) -> str:
    """The chain's value behind `entry`, whatever the entry itself says it is."""
    value = entry_value(entry)
    del value["chain"]
    return sha256(bytes.fromhex(before) + canonical.to_bytes(value)).hexdigest()


def linked(before: str, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries with their chain values."""
    done = []
    for entry in entries:
        before = after(before, entry)
        done.append(replace(entry, chain=before))
    return tuple(done)


def check(before: str, entries: Sequence[Entry], *, key: str) -> str:
    """The value behind the last of them; `ColdCorrupt` where one does not follow."""
    for entry in entries:
        before = after(before, entry)
        if entry.chain != before:
            raise ColdCorrupt(key, f"the chain breaks at the entry of offset {entry.base}")
    return before
