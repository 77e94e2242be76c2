"""A slow topic's small segments are merged in a real store: the same records by fewer requests."""

from pathlib import Path

from tests.compat.cold import MARKS, Place, create, eventually, make_cold, raw_batches
from tests.compat.drivers.base import Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.compat.samples import placed, read, timed, write

pytestmark = MARKS

TOPIC = "slow"
SEGMENTS = 24
GETS = 'tierlog_store_requests_total{kind="get"}'
MERGED = "tierlog_tier_merged_segments_total"
NO_MERGES = ["tierlog.merge.max.bytes=0"]
MERGES = ["tierlog.merge.interval.ms=200"]


def gets_to_read(node: RunningNode, count: int) -> tuple[list[Record], float]:
    before = node.metric(GETS)
    found = read(Confluent(), node.address, TOPIC, count)
    return found, node.metric(GETS) - before


def test_small_segments_are_merged_and_read_the_same_by_fewer_requests(
    place: Place, tmp_path: Path
) -> None:
    written = timed([Record(key=b"%d" % n, value=b"%d " % n * 150) for n in range(2 * SEGMENTS)])
    with place.running(tmp_path, sets=NO_MERGES) as node:
        create(node.address, TOPIC, segment_bytes="1024")
        for first in range(0, len(written), 2):
            write(Confluent(), node.address, TOPIC, written[first : first + 2], Sending())
        make_cold(node, TOPIC)
        batches = raw_batches(node.address, TOPIC, end=len(written))
        Confluent().admin(node.address).alter(TOPIC, segment_bytes=str(1 << 20))
    with place.running(tmp_path, sets=[*NO_MERGES, "tierlog.cache.bytes=0"]) as node:
        found, before = gets_to_read(node, len(written))
        assert found == placed(written)
    with place.running(tmp_path, sets=[*MERGES, "tierlog.cache.bytes=0"]) as node:
        eventually(lambda: node.metric(MERGED) >= SEGMENTS - 8, "small segments are merged")
        found, after = gets_to_read(node, len(written))
        assert found == placed(written)
        assert raw_batches(node.address, TOPIC, end=len(written)) == batches
        assert after * 2 <= before, f"{after} of {before} requests"
