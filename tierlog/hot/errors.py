"""What can go wrong with a local log, by what the caller should do next."""

from typing import ClassVar

from tierlog.errors import Kind, TierlogError
from tierlog.types import Offset, ProducerEpoch, ProducerId


class LogError(TierlogError):
    """Root of this room."""


class LogBroken(LogError):
    """A write or fsync failed, so the page cache can no longer be believed.

    Latched for the whole log directory: nothing is appended or acknowledged again until a restart
    has re-read what is really on the disk.
    """

    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class DiskFull(LogError):
    """The append would eat into the reserve. Nothing was written; it may be tried again."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class TooManyFiles(LogError):
    """The process may not open another file. Nothing was written; it may be tried again."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class LogClosed(LogError):
    """The log was closed. Its owner is shutting down or gave the partition away."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class ReadFailed(LogError):
    """The disk did not give back what a reader asked for. Other reads may work."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE

    def __init__(self, path: str, fault: OSError) -> None:
        super().__init__(f"reading {path} failed: {fault}")
        self.path = path


class DirectoryInUse(LogError):
    """Another process holds the lock of this log directory."""

    kind: ClassVar[Kind] = Kind.FENCED


class AlreadyOpen(LogError):
    """This process has the partition open already; two writers would overwrite each other."""

    kind: ClassVar[Kind] = Kind.FENCED


class NewerFormat(LogError):
    """A file was written by a newer tierlog. Nothing was changed: run that version, or newer."""

    def __init__(self, name: str, *, found: int, known: int) -> None:
        super().__init__(
            f"{name} has format version {found}, this tierlog reads up to {known}: "
            "start the version that wrote it, or a newer one"
        )


class InvalidSeed(LogError):
    """What a log should begin with cannot be read. Nothing was begun."""

    kind: ClassVar[Kind] = Kind.CORRUPT


class OffsetOutOfRange(LogError):
    """The offset lies outside [log_start, log_end]."""

    def __init__(self, offset: int, *, log_start: Offset, log_end: Offset) -> None:
        super().__init__(f"offset {offset} is outside [{log_start}, {log_end}]")
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end


class DamagedOffsets(LogError):
    """Records that were durable cannot be read back. Carries the range, ends exclusive.

    The broken bytes are kept; another copy (replica or bucket) can fill the range.
    """

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, start: Offset, end: Offset, *, where: str, reason: str) -> None:
        super().__init__(f"offsets [{start}, {end}) are damaged in {where}: {reason}")
        self.start = start
        self.end = end
        self.where = where


class ProducerError(LogError):
    """An idempotent producer's batch does not fit what the partition remembers of it."""

    def __init__(self, producer_id: ProducerId, sentence: str) -> None:
        super().__init__(f"producer {producer_id}: {sentence}")
        self.producer_id = producer_id


class SequenceOutOfOrder(ProducerError):
    """A gap in the producer's sequence: an earlier batch of it is missing."""


class ProducerFenced(ProducerError):
    """A newer incarnation of the producer has written here."""

    kind: ClassVar[Kind] = Kind.FENCED

    def __init__(
        self, producer_id: ProducerId, *, got: ProducerEpoch, known: ProducerEpoch
    ) -> None:
        super().__init__(producer_id, f"epoch {got} is older than {known}, which has written here")
        self.got = got
        self.known = known


class CleaningOvertaken(LogError):
    """The log was trimmed, cut or closed while it was cleaned. Nothing is lost but the work."""

    kind: ClassVar[Kind] = Kind.RETRY
