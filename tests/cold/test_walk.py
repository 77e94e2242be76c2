"""A walk over a manifest whose front is garbage finds nothing wrong with it."""

import pytest

from tests.cold.test_merger import slow_topic, small_pages
from tests.cold.tiering import KEYS, TOPIC_ID, TierNode, head_in, play_node
from tierlog.cold.expirer import PartitionExpirer
from tierlog.cold.walk import Walk
from tierlog.types import Offset

SEGMENTS, RECORDS = 60, 2


@pytest.mark.parametrize("segments", [1, 5, 6, 7, 12, 13, 23, 24, 25, 59])
def test_pages_may_begin_with_what_is_garbage(segments: int) -> None:
    async def scenario(node: TierNode) -> None:
        with small_pages():
            bucket = await slow_topic(node, SEGMENTS)
            assert len(head_in(bucket).indexes) > 1
            start = Offset(segments * RECORDS)
            await node.tier.move_log_start(TOPIC_ID, 0, start)
            (expirer,) = (one for one in node.partition.chores if isinstance(one, PartitionExpirer))
            await expirer.run()
            head = head_in(bucket)
            assert head.garbage_end == start
            walk = Walk(node.store, KEYS, head)
            await walk.run()
            assert not walk.problems
            assert walk.records == (SEGMENTS - segments) * RECORDS

    play_node(scenario)
