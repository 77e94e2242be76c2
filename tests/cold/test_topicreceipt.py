"""The receipt of a deleted topic: what is written is read, and bytes of an earlier day too."""

import gzip
from pathlib import Path

import pytest

from tierlog.cold import canonical, topicreceipt
from tierlog.cold.errors import ColdCorrupt, NewerFormat
from tierlog.cold.head import Incarnation
from tierlog.cold.topicreceipt import LastHead, TopicReceipt

FOLDER = Path(__file__).parent / "golden"
KEY = "cluster/receipts/topic-x"
RECEIPT = TopicReceipt(
    cluster_id="9f8e7d6c-0000-4000-8000-000000000009",
    incarnation=Incarnation(2, "9f8e7d6c-0000-4000-8000-000000000001"),
    node=3,
    topic="orders",
    topic_id="0123456789abcdef0123456789abcdef",
    deleted_ms=1_700_000_000_000,
    swept_ms=1_700_086_400_000,
    partitions=(
        LastHead(
            partition=0,
            version=17,
            sha256="ab" * 32,
            log_start=100,
            next_offset=2_000,
            records=1_900,
            bytes=123_456,
        ),
    ),
)


def test_a_receipt_is_written_as_it_always_was() -> None:
    kept = (FOLDER / "topic-receipt.json").read_bytes()
    assert gzip.decompress(topicreceipt.encode(RECEIPT)) == kept.rstrip(b"\n")


def test_a_receipt_of_an_earlier_day_is_read() -> None:
    data = bytes.fromhex((FOLDER / "topic-receipt.hex").read_text())
    assert topicreceipt.decode(data, key=KEY) == RECEIPT


def spoiled(old: bytes, new: bytes) -> bytes:
    whole = gzip.decompress(topicreceipt.encode(RECEIPT))
    assert old in whole
    return canonical.compress(whole.replace(old, new))


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(NewerFormat):
        topicreceipt.decode(spoiled(b'"format":1', b'"format":2'), key=KEY)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"kind":"topic"', b'"kind":"other"'),
        (b'"node":3', b'"node":-3'),
        (b'"node":3', b'"node":3,"zzz":1'),
        (b'"records":1900', b'"records":"many"'),
    ],
)
def test_what_is_no_receipt_is_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(ColdCorrupt):
        topicreceipt.decode(spoiled(old, new), key=KEY)
