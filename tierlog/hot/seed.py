"""What a log that begins at an offset must remember of what was written before it.

A restore, or a partition whose records are ahead in the bucket, begins a log where another copy
ended. Without the producers a retry would be appended twice; without the epochs nobody could say
who wrote last. Planted before the first checkpoint, which vouches for it: cut off before that, the
log is begun anew.
"""

from dataclasses import dataclass

from tierlog.env import Disk
from tierlog.hot import names, smallfile
from tierlog.hot.epochs import EpochStart, LeaderEpochs
from tierlog.hot.errors import InvalidSeed
from tierlog.hot.producers import Producers
from tierlog.hot.replay import drop_snapshots
from tierlog.hot.salvage import remove_segment
from tierlog.hot.snapshot import decode_snapshot
from tierlog.types import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    producers: bytes = b""
    """A producer snapshot (`snapshot.py`) at the offset where the log begins; empty: none known."""
    epochs: tuple[EpochStart, ...] = ()
    """Leader epochs up to there."""


def seeded_epochs(seed: Seed, start: Offset) -> LeaderEpochs:
    """What `trim` would have left: the epoch that wrote last, moved to where the log begins."""
    epochs = LeaderEpochs(seed.epochs)
    epochs.truncate(Offset(start + 1))
    epochs.trim(start)
    return epochs


def plant_producers(disk: Disk, directory: str, seed: Seed, start: Offset) -> Producers:
    """Write the snapshot. Its name is made durable with the checkpoint that follows."""
    if not seed.producers:
        return Producers()
    producers = decode_snapshot(seed.producers)
    if producers is None:
        raise InvalidSeed(f"{directory}: the producer snapshot to begin with cannot be read")
    path = names.segment_path(directory, start, names.SNAPSHOT)
    smallfile.write_all(disk, path, seed.producers)
    return producers


def clear_unbegun(disk: Disk, directory: str, bases: list[Offset]) -> None:
    """Remove what a beginning left that was cut off before its checkpoint: empty files."""
    for base in bases:
        remove_segment(disk, directory, base)
    drop_snapshots(disk, directory, lambda _: True)
