"""The formats of the bucket, held against bytes of an earlier day."""

import pytest

from tests.cold import golden
from tierlog.cold import chain, codec, invariants, sources
from tierlog.cold.page import IndexPage, LeafPage
from tierlog.cold.receipt import decode_receipt
from tierlog.cold.segment_object import SOURCES, parse_tail

MANIFESTS = (
    "HEAD.hex",
    "index.hex",
    "leaf.hex",
    "HEAD-expired.hex",
    "receipt.hex",
    "merged-leaf.hex",
)


def test_a_segment_object_is_written_as_it_always_was() -> None:
    assert golden.a_segment_object().hex() == golden.kept("segment.hex").hex()


def test_a_segment_object_of_an_earlier_day_is_read() -> None:
    data = golden.kept("segment.hex")
    footer = parse_tail(data, object_size=len(data), key=golden.KEY)
    assert (footer.base, footer.last, footer.batches, footer.records) == (1000, 1006, 4, 7)
    assert [start.leader_epoch for start in footer.leader_epochs] == [3, 4]


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_written_as_it_always_was(name: str) -> None:
    assert golden.plain(golden.build()[name]) == golden.kept_plain(name)


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_compressed_file_is_that_of_the_plain_one(name: str) -> None:
    assert golden.plain(golden.kept(name)) == golden.kept_plain(name)


def test_a_manifest_of_an_earlier_day_is_read() -> None:
    head, index, leaf = golden.a_manifest()
    assert codec.decode_head(golden.kept("HEAD.hex"), key="HEAD") == head
    invariants.check(head, previous=None)
    found = codec.decode_page(golden.kept("index.hex"), key="index")
    assert isinstance(found, IndexPage)
    assert list(found.leaves) == list(codec.rows_of(index))
    found = codec.decode_page(golden.kept("leaf.hex"), key="leaf")
    assert isinstance(found, LeafPage)
    assert list(found.entries) == list(codec.rows_of(leaf))


def test_a_merged_segment_object_is_written_and_read_as_it_always_was() -> None:
    data = golden.kept("merged-segment.hex")
    assert golden.a_merged_segment_object().hex() == data.hex()
    footer = parse_tail(data, object_size=len(data), key=golden.KEY)
    section = footer.section(SOURCES)
    assert section is not None
    found = sources.decode(data[section.position : section.position + section.size], key="k")
    assert [one.base for one in found] == [0, 1000]


def test_a_merged_entry_of_an_earlier_day_is_read_and_follows() -> None:
    found = codec.decode_page(golden.kept("merged-leaf.hex"), key="leaf")
    assert isinstance(found, LeafPage)
    assert list(found.entries) == list(golden.a_merged_leaf().entries)
    chain.check(found.chain_before, found.entries, key="leaf")
    assert found.entries[1].replaces is not None


def test_a_manifest_that_expired_is_read() -> None:
    head = golden.an_expired_manifest()
    assert codec.decode_head(golden.kept("HEAD-expired.hex"), key="HEAD") == head
    invariants.check(head, previous=None)
    assert any(one.segments_from >= 0 for one in head.garbage)
    assert head.expired
    assert head.policy is not None


def test_a_receipt_of_an_earlier_day_is_read() -> None:
    receipt = golden.a_receipt()
    found = decode_receipt(golden.kept("receipt.hex"), key="receipt")
    assert found == receipt
    assert found.key == ("receipt/00000000000000004000-00000000000000004999-" + found.key[-24:])
