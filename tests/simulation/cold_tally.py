"""What happened in a seed of the simulated cold tier, counted.

A scenario that is clean because nothing happens in it proves nothing: `test_cold` asks that each
of these happens in a good share of the seeds, and that they meet.
"""

from collections import Counter
from collections.abc import Iterable

from tests.simulation.cold_clients import ColdLedger
from tests.simulation.cold_node import ColdLives

FEATURES = (
    "merges",
    "expiries",
    "trims",
    "collections",
    "orphans",
    "sweeps",
    "scrubs",
    "restores",
    "rewinds",
    "tables",
)


def tally(lives: ColdLives, ledger: ColdLedger) -> Counter[str]:
    """How often each came to its end, in all lives of the node."""
    oracle, stats = lives.bucket.oracle, lives.stats
    return Counter(
        {
            "acknowledged": ledger.history.acknowledged(),
            "merges": sum(one.merged_objects for one in stats),
            "expiries": oracle.expiry_count,
            "trims": oracle.trim_count,
            "collections": sum(one.receipt_count for one in stats),
            "orphans": sum(one.collected_orphans for one in stats),
            "sweeps": sum(one.swept_topics for one in stats),
            "scrubs": sum(one.scrubbed_bytes > 0 for one in stats),
            "restores": lives.restore_count,
            "rewinds": sum(map(len, ledger.past.rewinds.values())),
            "tables": sum(one.version for one in oracle.tables.values()),
        }
    )


def share(tallies: Iterable[Counter[str]], *features: str) -> float:
    """Of the seeds, how many had all of these."""
    all_of_them = list(tallies)
    return sum(all(one[name] for name in features) for one in all_of_them) / len(all_of_them)
