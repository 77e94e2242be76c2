"""A segment object and a manifest that are the same every time, and their bytes as they must be.

    python -m tests.cold.golden

writes them anew: only when a format is meant to change, and then its version with it. Manifests are
kept twice: as canonical JSON, which every tierlog must write, and as the compressed bytes of the
day they were written, which every tierlog must read (another zlib may pack otherwise).
"""

from dataclasses import replace
from pathlib import Path

from tests.cold.makers import TOPIC_ID, Bucket, a_head, entries, merged_of
from tests.cold.segments import a_segment, new_scan
from tierlog.cold import canonical, chain, codec, shedding, sources, tree
from tierlog.cold.head import DELETE_RECORDS, RETENTION_MS, Garbage, Head, Hold, Policy, Skip
from tierlog.cold.layout import parse_segment_key
from tierlog.cold.page import LeafPage, Page
from tierlog.cold.receipt import Deleted, Receipt, encode_receipt, receipt_for
from tierlog.hot.epochs import EpochStart
from tierlog.types import LeaderEpoch, Offset

FOLDER = Path(__file__).parent / "golden"
KEY = "seg/00000000000000001000-00000000000000001006-e00000004-n00001-00000000000000ff.seg"
LIMITS = tree.Limits(entries_inline=2, leaf_entries=2, leaves_inline=1, index_leaves=2)


def a_segment_object() -> bytes:
    """Four batches of two leader epochs, an index entry for every second one."""
    segment = a_segment(4, epochs=(3, 4), value=b"value")
    scan = new_scan(segment, topic_id=TOPIC_ID, index_interval_bytes=100)
    scan.feed(segment.data)
    tail = scan.finish(
        key=KEY,
        producers=b"\x00\x01\x02",
        max_append_ms=1_700_000_001_000,
        lineage=(
            EpochStart(LeaderEpoch(1), Offset(0)),
            EpochStart(LeaderEpoch(3), Offset(900)),
            EpochStart(LeaderEpoch(4), Offset(1003)),
        ),
    )
    return segment.data + tail.data


def a_manifest() -> tuple[Head, Page, Page]:
    """A HEAD with something in every field, its index page and its leaf page."""
    bucket, head = Bucket(limits=LIMITS), a_head()
    for entry in entries(range(7)):
        head = bucket.append(head, [entry])
    head = replace(
        head,
        version=8,
        policy_version=1,
        holds=(Hold("hold-1", Offset(2000), Offset(4000), "a case"),),
        garbage=(*head.garbage, Garbage(KEY, "v1", 1_700_000_000_000)),
        skips=(Skip(Offset(7000), Offset(7500), 1_700_000_000_000),),
        next_offset=Offset(7500),
    )
    return head, bucket.read(head.indexes[-1]), bucket.read(head.leaves[-1])


def a_merged_segment_object() -> bytes:
    """Batches of what were two segments once, and their entries."""
    segment = a_segment(4, value=b"value")
    scan = new_scan(segment, topic_id=TOPIC_ID, index_interval_bytes=100)
    scan.feed(segment.data)
    uploads = chain.linked(chain.genesis(TOPIC_ID, 7), entries(range(2)))
    tail = scan.finish(
        key=KEY, producers=b"", max_append_ms=1_700_000_001_000, sources=sources.encode(uploads)
    )
    return segment.data + tail.data


def a_merged_leaf() -> LeafPage:
    """The second of its three entries stands in place of two."""
    before = chain.genesis(TOPIC_ID, 7)
    first, *run, last = chain.linked(before, entries(range(4)))
    merged = chain.replacing(merged_of(run), run, before=first.chain)
    return LeafPage(
        topic_id=TOPIC_ID, partition=7, chain_before=before, entries=(first, merged, last)
    )


def an_expired_manifest() -> Head:
    """The fields of what leaves: a policy, a page that went whole, segments that went alone, a
    start that is not garbage yet."""
    bucket, head = Bucket(limits=LIMITS), a_head()
    for entry in entries(range(7)):
        head = bucket.append(head, [entry])
    opened = {ref.key: bucket.read(ref) for ref in (*head.indexes, *head.leaves)}
    head = replace(head, version=9, policy=Policy(86_400_000, 1 << 30), policy_version=2)
    head = shedding.moved(head, Offset(5000), why=RETENTION_MS, now_ms=1_700_000_000_000)
    head = shedding.moved(head, Offset(5500), why=DELETE_RECORDS, now_ms=1_700_000_001_000)
    shed = shedding.shed(head, opened, not_before_ms=1_700_086_400_000)
    assert isinstance(shed, shedding.Shed)
    return shed.head


def a_receipt() -> Receipt:
    head = an_expired_manifest()
    (gone,) = (one for one in head.garbage if one.key.startswith("seg/"))
    name = parse_segment_key(gone.key)
    assert name is not None
    deleted = Deleted(
        key=gone.key,
        version_id="v1",
        sha256=gone.sha256,
        size=gone.size,
        base=name.base,
        last=name.last,
        why=gone.why,
        policy_version=gone.policy_version,
        expired_ms=gone.expired_ms,
        not_before_ms=gone.not_before_ms,
    )
    return receipt_for(head, [deleted], now_ms=1_700_086_401_000)


def build() -> dict[str, bytes]:
    head, index, leaf = a_manifest()
    return {
        "merged-segment.hex": a_merged_segment_object(),
        "merged-leaf.hex": codec.encode_page(a_merged_leaf()),
        "segment.hex": a_segment_object(),
        "HEAD.hex": codec.encode_head(head),
        "index.hex": codec.encode_page(index),
        "leaf.hex": codec.encode_page(leaf),
        "HEAD-expired.hex": codec.encode_head(an_expired_manifest()),
        "receipt.hex": encode_receipt(a_receipt()),
    }


def plain(data: bytes) -> bytes:
    return canonical.decompress(data, key="golden", size_max=1 << 20)


def kept(name: str) -> bytes:
    return bytes.fromhex((FOLDER / name).read_text())


def kept_plain(name: str) -> bytes:
    return (FOLDER / name).with_suffix(".json").read_bytes().rstrip(b"\n")


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, data in build().items():
        lines = [data[start : start + 32].hex() for start in range(0, len(data), 32)]
        (FOLDER / name).write_text("".join(f"{line}\n" for line in lines))
        if "segment" not in name:
            (FOLDER / name).with_suffix(".json").write_bytes(plain(data) + b"\n")


if __name__ == "__main__":
    write()
