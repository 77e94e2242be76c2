"""Deliberate faults in the cleaner, to prove that its searches can find them; as in `bugs.py`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.planted.bugs import Bug, without_fdatasync
from tests.powerloss import cleaning as powerloss
from tests.simulation.cleaner import cleaner
from tierlog.hot import names
from tierlog.hot.cleaning import Sweep
from tierlog.hot.job import SyncJob
from tierlog.hot.salvage import remove_segment
from tierlog.records.header import BatchHeader
from tierlog.records.keyed import KeyedRecord, Skimmed, emptied
from tierlog.records.record import decode_records, encode_batch
from tierlog.sim.world import simulate
from tierlog.types import Bytes, Offset, TimestampMs


def hunt_cut_cleanings(seed: int) -> str | None:
    """The first broken promise of the power cuts in a seed's cleanings."""
    failures = powerloss.search_seed(seed, every=5).failures
    return failures[0] if failures else None


def hunt_simulation(seed: int) -> str | None:
    """What went wrong with the compacted logs of a simulated node, if anything did."""
    try:
        simulate(cleaner, seed=seed)
    except AssertionError as failure:
        return str(failure).splitlines()[0]
    return None


@contextmanager
def newest_value_dropped() -> Iterator[None]:
    """A record stays only if it comes behind the last place of its key."""

    def off_by_one(self: Sweep, skimmed: Skimmed) -> list[KeyedRecord]:
        return [
            one
            for one in skimmed.records
            if one.key is not None and self.keys.last(one.key) < one.offset
        ]

    with patch.object(Sweep, "kept_of", off_by_one):
        yield


@contextmanager
def tombstones_count_from_their_timestamp() -> Iterator[None]:
    """`delete.retention.ms` is counted from when a key was deleted, not from its cleaning."""

    def too_early(
        self: Sweep, header: BatchHeader, kept: Sequence[KeyedRecord]
    ) -> TimestampMs | None:
        if header.has_delete_horizon or all(one.has_value for one in kept):
            return None
        return TimestampMs(header.max_timestamp + self.delete_retention_ms // 4)

    with patch.object(Sweep, "horizon_for", too_early):
        yield


@contextmanager
def cleaned_files_not_synced() -> Iterator[None]:
    """The new segment takes its place before its bytes are on the disk."""
    with without_fdatasync(names.CLEANED):
        yield


@contextmanager
def swap_without_its_checkpoint() -> Iterator[None]:
    """The old segments go first, then the checkpoint is written that lists the new one."""
    vouch = SyncJob._vouch

    def eager(job: SyncJob) -> None:
        if job.checkpoint is not None and job.checkpoint.replaced:
            for base in job.checkpoint.replaced[1:]:
                remove_segment(job.disk, job.directory, base)
        vouch(job)

    with patch.object(SyncJob, "_vouch", eager):
        yield


@contextmanager
def offsets_renumbered() -> Iterator[None]:
    """What is left of a batch closes ranks."""

    def closing_ranks(skimmed: Skimmed, kept: Sequence[KeyedRecord], **_: Any) -> Bytes:
        header = skimmed.header
        if not kept:
            return emptied(header)
        stays = {one.offset for one in kept}
        whole = bytes(_packed(skimmed))
        records = [record for record in decode_records(whole) if record.offset in stays]
        return encode_batch(
            [
                record._replace(offset=Offset(header.base_offset + place))
                for place, record in enumerate(records)
            ],
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            leader_epoch=header.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )

    with patch("tierlog.hot.cleaning.without_others", closing_ranks):
        yield


def _packed(skimmed: Skimmed) -> Bytes:
    """The batch as it was, plain."""
    from tierlog.records.keyed import _sealed

    header = skimmed.header
    return _sealed(header._replace(attributes=header.attributes & ~7), skimmed.data)


CLEANER_BUGS = (
    Bug("clean: drop the newest value", newest_value_dropped, hunt_simulation, 0),
    Bug("clean: tombstones go early", tombstones_count_from_their_timestamp, hunt_simulation, 0),
    Bug("clean: swap without fdatasync", cleaned_files_not_synced, hunt_cut_cleanings, 0),
    Bug("clean: remove before it is listed", swap_without_its_checkpoint, hunt_cut_cleanings, 0),
    Bug("clean: renumber what is left", offsets_renumbered, hunt_simulation, 0),
)
