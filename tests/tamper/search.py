"""Damage a bucket, and see who notices: `python -m tests.tamper.search`.

Each case takes a sound bucket, damages it once at random, and asks two questions. Does a deep audit
find it, and name the topic, the partition and the key? And does a consumer who reads everything
through the fetch proxy get the right bytes or an error, and never anything else? Every second
bucket keeps versions: there a deletion is a delete marker. `--write` puts the table into
`docs/verify.md`.
"""

import argparse
import asyncio
import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.tamper.bucket import PLACES, TOPICS, TestBucket, make_bucket, new_env
from tests.tamper.damages import DEEDS, Damage
from tests.tamper.versioned import VersionedStore
from tierlog.cold.audit import AuditReport, Kind
from tierlog.cold.pagecache import PageCache
from tierlog.cold.prefix import ColdPrefix
from tierlog.errors import TierlogError
from tierlog.fetchproxy import ColdRead, FetchProxy, ProxySettings
from tierlog.objectstore.memory import MemoryStore
from tierlog.records.batch import iter_batches
from tierlog.types import Offset

PAGE = Path(__file__).resolve().parents[2] / "docs" / "verify.md"
BEGIN, FINISH = "<!-- table: make tamper -->\n", "<!-- end of table -->\n"
CASES = 1000
PROXY = ProxySettings(
    cache_bytes=1 << 20,
    chunk_bytes=1 << 20,
    lead_bytes=1 << 20,
    memory_bytes=16 << 20,
    disk_free_min=0,
)


class Case(NamedTuple):
    seed: int
    damage: Damage
    store: str
    problems: list[str]
    outcome: str
    """What consumers got: records, or errors."""

    def __str__(self) -> str:
        lines = [f"{self.seed}: {self.damage} ({self.store})"]
        return "\n".join([*lines, *(f"    {one}" for one in self.problems)])


async def take(seed: int) -> Case:
    rng = Random(seed)
    store: type[MemoryStore] = VersionedStore if seed % 2 else MemoryStore
    bucket = await make_bucket(seed % 7, store)
    victims = await bucket.victims()
    damage: Damage | None = None
    while damage is None:
        damage = await rng.choice(DEEDS)(bucket, rng, victims)
    report = await bucket.auditor().run()
    problems = unfound(report, damage)
    outcome = await consume(bucket, problems)
    return Case(seed, damage, "versions" if seed % 2 else "plain", problems, outcome)


# The audit


def unfound(report: AuditReport, damage: Damage) -> list[str]:
    """Keys that were hit and that no finding names; a finding in the wrong place; a sound partition
    that is blamed."""
    named = {one.key: one for one in report.findings}
    problems = [
        f"not found: {key}"
        for key in damage.keys
        if key not in named and not is_hidden(key, report)
    ]
    for key, finding in named.items():
        if key not in damage.keys:
            problems.append(f"blamed: {finding.sentence}")
        elif (finding.topic, finding.partition) != place_of(key):
            problems.append(f"misplaced: {finding.sentence}")
    return problems


def is_hidden(key: str, report: AuditReport) -> bool:
    """Whether it was swapped with what leads to it: of what a manifest lists that cannot be read
    nobody knows anything, until that is put right and the audit repeated."""
    unreadable = {Kind.STATE_WRONG, Kind.HEAD_WRONG, Kind.PAGE_WRONG}
    return any(
        one.kind in unreadable and one.place in ("cluster", "{}-{}".format(*place_of(key)))
        for one in report.findings
    )


def place_of(key: str) -> tuple[str | None, int | None]:
    parts = key.split("/")
    return (TOPICS[parts[2]].name, int(parts[3])) if parts[1] == "t" else (None, None)


# A consumer


async def consume(bucket: TestBucket, problems: list[str]) -> str:
    """Read every partition from its first offset to its last, as a node without a copy would."""
    got: Counter[str] = Counter()
    for place in PLACES:
        try:
            head = await bucket.publisher(place, epoch=9).refresh()
        except TierlogError:
            got["errors"] += 1
            continue
        if head is None:
            got["errors"] += 1
            continue
        env = new_env(bucket.clock)
        prefix = ColdPrefix(bucket.keys(place), PageCache(bucket.store), head=head)
        proxy = FetchProxy(env, bucket.store, PROXY, "/cache")
        await proxy.start()
        await read_all(bucket, place, prefix, proxy, got, problems)
        await proxy.close()
    return "errors and records" if got["errors"] else "records"


async def read_all(
    bucket: TestBucket,
    place: tuple[str, int],
    prefix: ColdPrefix,
    proxy: FetchProxy,
    got: Counter[str],
    problems: list[str],
) -> None:
    known, offset = bucket.batches[place], int(prefix.log_start)
    while offset < prefix.uploaded_end:
        try:
            answer = proxy.read(prefix, Offset(offset), bytes_max=512)
            read = answer if isinstance(answer, ColdRead) else await answer
        except TierlogError:
            got["errors"] += 1
            offset += 1
            continue
        data = bytes(read.records)
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_bytes]
            if known.get(header.base_offset) != batch:
                problems.append(f"{place} serves other bytes at offset {header.base_offset}")
        got["records"] += 1
        offset = max(read.next_offset, offset + 1)


# The table


def table(cases: Sequence[Case]) -> list[str]:
    by_name: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_name[case.damage.name].append(case)
    lines = [
        "| damage     | cases | found and located | wrong bytes served |",
        "| ---------- | ----: | ----------------: | -----------------: |",
    ]
    for name, of_name in [*sorted(by_name.items()), ("all", list(cases))]:
        wrong = sum(any("serves" in one for one in case.problems) for case in of_name)
        missed = sum(any("serves" not in one for one in case.problems) for case in of_name)
        lines.append(
            f"| {name:<10} | {len(of_name):>5} | {len(of_name) - missed:>17} | {wrong:>18} |"
        )
    return lines


def take_one(seed: int) -> Case:
    logging.disable(logging.CRITICAL)
    return asyncio.run(take(seed))


def write_page(lines: Sequence[str]) -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(FINISH)
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n\n{FINISH}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=CASES)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"the table into {PAGE.name}")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.count)
    with ProcessPoolExecutor(options.processes) as pool:
        cases = list(pool.map(take_one, seeds, chunksize=20))
    failed = [case for case in cases if case.problems]
    for case in failed:
        print(case)
    lines = table(cases)
    print("\n".join(lines))
    if options.write:
        write_page(lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
