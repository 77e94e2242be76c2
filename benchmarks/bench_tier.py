"""What the cold tier of an idle node costs: 1,000 partitions with 100 cold segments each.

The real tier with all of its chores at their default periods, for an hour of virtual time: looks at
what waits for upload, drop, expiry, collection and merging; STATE; the search for orphans; the
scrubber's rounds over manifests and objects. CPU is of tier, simulated loop, disk and store
together. Requests are counted: what a client of S3 takes for each comes on top.

By chore: the same without the one or the other; what is missing then is its own. Bytes are not read
here: the 90-day round goes by bytes, `verify --deep` shows what one costs.
"""

from collections.abc import Iterator
from functools import partial

from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size
from benchmarks.tieridle import CPU, HOUR_S, LOOK, MEMORY, REQUESTS, SHARE, IdleTier
from tierlog.cold.orphanfinder import OrphanFinder
from tierlog.cold.scrubber import Scrubber
from tierlog.cold.sweeper import Sweeper

ALL = frozenset({OrphanFinder.name, Scrubber.name, Sweeper.name})
VARIANTS: dict[str, frozenset[str]] = {
    "everything": frozenset(),
    "without the scrubber": frozenset({Scrubber.name}),
    "without orphans": frozenset({OrphanFinder.name}),
    "looks alone": ALL,
}


def comparisons(size: Size) -> Iterator[Gauge]:
    is_full = size.name != "smoke"
    partitions, segments = (1000, 100) if is_full else (10, 100)
    seconds = HOUR_S if is_full else HOUR_S / 60
    yield Gauge(
        name=f"an idle tier, {partitions:,} partitions of {segments} segments",
        variants={
            name: partial(an_hour, partitions, segments, without, seconds)
            for name, without in VARIANTS.items()
        },
        promises={
            SHARE: Promise(hold=5.0, aim=1.0),
            CPU: Promise(),
            LOOK: Promise(),
            REQUESTS: Promise(),
            MEMORY: Promise(),
        },
        rounds=3 if is_full else 1,
        note="virtual time; no segment is read",
    )


def an_hour(partitions: int, segments: int, without: frozenset[str], seconds: float) -> Figures:
    return IdleTier(partitions=partitions, segments=segments, without=without).run(seconds=seconds)
