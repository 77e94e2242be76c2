"""The hash chain over the entries of a partition.

`c_i = SHA-256(c_{i-1} || canonical bytes of entry_i without c)`, from a first value that names the
topic and the partition. Whoever kept any one value can tell later whether an entry before it was
dropped, reordered or rewritten. Over entries, not over HEADs: those are overwritten.

An entry that replaces others (a merge) is an explicit link. It says the value before them, and its
own `chain` is the value behind them, so everything that follows stays valid, and every value that
somebody kept can still be checked. Two things hold the link:
- `link = SHA-256(before || canonical bytes of the entry without link)` binds the new entry to its
  place, as a chain value does.
- The entries that went are kept in the merged object. `replay` follows the chain through them:
  only the very entries that were published lead from `before` to `chain`. Each has the Merkle root
  over its batches, and the merged object has these batches verbatim.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from tierlog.cold import canonical, merkle
from tierlog.cold.entry import Entry, Replaced
from tierlog.cold.entry_codec import entry_value
from tierlog.cold.errors import ColdCorrupt


def genesis(topic_id: str, partition: int) -> str:
    """The value before a partition's first entry ever."""
    named = {"chain": "tierlog", "format": 1, "partition": partition, "topic_id": topic_id}
    return sha256(canonical.to_bytes(named)).hexdigest()


def after(before: str, entry: Entry) -> str:
    """The chain's value behind `entry`, whatever the entry itself says it is.

    Behind a link that does not hold, it is a value that no entry has.
    """
    if entry.replaces is None:
        return sha256(bytes.fromhex(before) + unchained(entry)).hexdigest()
    expected = link(before, entry)
    is_held = (entry.replaces.before, entry.replaces.link) == (before, expected)
    return entry.chain if is_held else expected


def follows(before: str, entry: Entry) -> bool:
    """Whether `entry` may stand where the chain has the value `before`."""
    return after(before, entry) == entry.chain


def unchained(entry: Entry) -> bytes:
    """The canonical bytes that the chain is over."""
    value = entry_value(entry)
    del value["chain"]
    return canonical.to_bytes(value)


def linked(before: str, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries with their chain values. Not for one that replaces others: see `replacing`."""
    done = []
    for entry in entries:
        assert entry.replaces is None, "a link has its value"
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


# Links


def link(before: str, entry: Entry) -> str:
    """What `entry.replaces.link` must be."""
    assert entry.replaces is not None
    bare = entry_value(replace(entry, replaces=None))
    bare["replaces"] = {
        name: value for name, value in entry.replaces._asdict().items() if name != "link"
    }
    return sha256(bytes.fromhex(before) + canonical.to_bytes(bare)).hexdigest()


def replacing(merged: Entry, sources: Sequence[Entry], *, before: str) -> Entry:
    """`merged` as the entry that stands in place of `sources`, which are published and end to end.

    Sources as they were uploaded: of a merged one, those that it replaced itself.
    """
    replaced = Replaced(before, len(sources), root_of(sources))
    entry = replace(merged, chain=sources[-1].chain, replaces=replaced)
    return replace(entry, replaces=replaced._replace(link=link(before, entry)))


def root_of(sources: Iterable[Entry]) -> str:
    return merkle.root(b"".join(merkle.leaf_hash(unchained(one)) for one in sources)).hex()


def replay(entry: Entry, sources: Sequence[Entry], *, key: str) -> None:
    """`ColdCorrupt` unless these are the entries that `entry` says it replaces: they lead from its
    `before` to its `chain`, and tile its offsets and records."""
    replaced = entry.replaces
    assert replaced is not None
    if len(sources) != replaced.segments or root_of(sources) != replaced.merkle_root:
        raise ColdCorrupt(key, "its sources are not those that the manifest speaks of")
    if check(replaced.before, sources, key=key) != entry.chain:
        raise ColdCorrupt(key, "its sources do not lead to its place in the chain")
    ends = (entry.base, *(one.next_offset for one in sources))
    if ends != (*(one.base for one in sources), entry.next_offset):
        raise ColdCorrupt(key, "its sources do not tile its offsets")
    if sum(one.records for one in sources) != entry.records:
        raise ColdCorrupt(key, "its sources have other records")
