"""The oracle of the bucket: what it holds against whom."""

from dataclasses import replace

import pytest

from tests.cold.test_topicreceipt import RECEIPT
from tests.simulation.cold_oracle import Broken, Oracle
from tierlog.cold.layout import topic_receipt_key
from tierlog.cold.topicreceipt import TopicReceipt, encode
from tierlog.objectstore.shelf import Item, Shelf
from tierlog.sim.bucket import Landed

KEY = "a-cluster/" + topic_receipt_key(RECEIPT.topic_id)
LATER = replace(RECEIPT, swept_ms=RECEIPT.swept_ms + 1)
EMPTY = replace(LATER, partitions=())


def landed(receipt: TopicReceipt) -> Landed:
    item = Item(data=encode(receipt), etag="etag", crc32c=0, modified_ms=0)
    return Landed(kind="put_if_absent", key=KEY, item=item, host="node", seconds=1.0)


def test_a_receipt_of_a_topic_is_never_replaced() -> None:
    oracle = Oracle(Shelf())
    oracle.landed(landed(RECEIPT))
    with pytest.raises(Broken, match="written twice"):
        oracle.landed(landed(LATER))


def test_a_store_that_lies_may_replace_it_by_one_that_quotes_as_much() -> None:
    oracle = Oracle(Shelf(), trusts=False)
    oracle.landed(landed(RECEIPT))
    oracle.landed(landed(LATER))
    with pytest.raises(Broken, match="written twice"):
        oracle.landed(landed(EMPTY))
