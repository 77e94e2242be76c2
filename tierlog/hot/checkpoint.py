"""The checkpoint of a partition: what a restart may believe without reading the batches.

`partition.checkpoint` is one line of JSON, then `crc32c=` and eight hex digits of that line.
It is replaced whole (`smallfile`), always after what it speaks of is fsynced:

- `durable_end`: everything below it was fsynced. A bad batch below it is damage, never a torn tail.
- `segments`: base offset, next offset, size, largest timestamp, the last offset of the batch that
  has it, wall clock of the first append. Their bytes up to `size` and their index files are fsynced
  and agree. A segment on disk that is longer, or missing here, is scanned from there on.
- `log_start`, `epochs` (leader epoch, start offset), and the `boot` of the machine that wrote it:
  in the same boot the page cache survived, and only the very end may be torn.
- `trimmed_to`: what lies below it was given up on purpose; at most `log_start`. Absent in files of
  older versions, which did not tell: then nothing is known to be given up.
- `cleaned_to`: the first dirty offset of a compacted log; lost, it is cleaned again. `compacted`:
  offsets may have gaps inside a segment, for ever. `replaced`: the segment listed at the first of
  these bases was made of all of them (`swapping.py`). Each is left out where it says nothing.
- `clean`: the log was closed in order. Files and checkpoint then agree and nothing is scanned.

A checkpoint that is missing or damaged costs a scan of the whole log, never a record.
"""

import json
from dataclasses import dataclass

from crc32c import crc32c

from tierlog.env import Disk
from tierlog.hot import names, smallfile
from tierlog.hot.epochs import EpochStart
from tierlog.hot.errors import NewerFormat
from tierlog.hot.segment import SegmentNumbers
from tierlog.types import LeaderEpoch, Offset, Position, TimestampMs

VERSION = 1

NOTHING_TRIMMED = Offset(0)
"""Also where nobody wrote it down."""

NEVER_CLEANED = Offset(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    boot: str
    clean: bool
    log_start: Offset
    trimmed_to: Offset = NOTHING_TRIMMED
    durable_end: Offset
    segments: tuple[SegmentNumbers, ...]
    epochs: tuple[EpochStart, ...]
    cleaned_to: Offset = NEVER_CLEANED
    compacted: bool = False
    replaced: tuple[Offset, ...] = ()


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    cleaning = {
        "cleaned_to": checkpoint.cleaned_to,
        "compacted": checkpoint.compacted,
        "replaced": checkpoint.replaced,
    }
    line = json.dumps(
        {
            "version": VERSION,
            "boot": checkpoint.boot,
            "clean": checkpoint.clean,
            "log_start": checkpoint.log_start,
            "trimmed_to": checkpoint.trimmed_to,
            "durable_end": checkpoint.durable_end,
            "segments": checkpoint.segments,
            "epochs": checkpoint.epochs,
            **{name: value for name, value in cleaning.items() if value},
        }
    ).encode()
    return b"%s\ncrc32c=%08x\n" % (line, crc32c(line))


def decode_checkpoint(data: bytes) -> Checkpoint | None:
    """None when the bytes are not what was written. A newer version is refused, not guessed at."""
    line, _, rest = data.partition(b"\n")
    if rest != b"crc32c=%08x\n" % crc32c(line):
        return None
    fields = json.loads(line)
    if fields["version"] > VERSION:
        raise NewerFormat(names.CHECKPOINT, found=fields["version"], known=VERSION)
    return Checkpoint(
        boot=fields["boot"],
        clean=fields["clean"],
        log_start=Offset(fields["log_start"]),
        trimmed_to=Offset(fields.get("trimmed_to", NOTHING_TRIMMED)),
        durable_end=Offset(fields["durable_end"]),
        segments=tuple(_numbers(*entry) for entry in fields["segments"]),
        epochs=tuple(
            EpochStart(LeaderEpoch(epoch), Offset(start)) for epoch, start in fields["epochs"]
        ),
        cleaned_to=Offset(fields.get("cleaned_to", NEVER_CLEANED)),
        compacted=fields.get("compacted", False),
        replaced=tuple(Offset(base) for base in fields.get("replaced", ())),
    )


def _numbers(
    base: int, following: int, size: int, timestamp: int, timestamp_offset: int, first_ms: int
) -> SegmentNumbers:
    return SegmentNumbers(
        Offset(base),
        Offset(following),
        Position(size),
        TimestampMs(timestamp),
        Offset(timestamp_offset),
        first_ms,
    )


def load_checkpoint(disk: Disk, directory: str) -> Checkpoint | None:
    try:
        return decode_checkpoint(smallfile.read_all(disk, f"{directory}/{names.CHECKPOINT}"))
    except FileNotFoundError:
        return None


def store_checkpoint(disk: Disk, directory: str, checkpoint: Checkpoint) -> None:
    smallfile.replace(disk, directory, names.CHECKPOINT, encode_checkpoint(checkpoint))
