"""Why something was not published, by what the caller should do next.

A key has a topic's id in it, which nobody knows by heart: `of` is the partition as people call it,
where whoever raises knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from tierlog.cold.errors import ColdCorrupt, ColdError
from tierlog.errors import Kind

if TYPE_CHECKING:
    from tierlog.cold.head import Incarnation, Writer
    from tierlog.types import Offset


class Named(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...


def name_of(one: Named) -> str:
    """Of a partition, as people write it: orders-0."""
    return f"{one.topic}-{one.partition}"


def object_of(key: str, of: str) -> str:
    return f"{of} ({key})" if of else key


class SwapLost(ColdError):
    """Somebody else replaced the object first. Nothing of this change is in it: read and judge."""

    kind: ClassVar[Kind] = Kind.RETRY

    def __init__(self, key: str, *, of: str = "") -> None:
        super().__init__(f"{object_of(key, of)} was replaced by somebody else")
        self.key = key


class SwapUncertain(ColdError):
    """The store did not say whether the change happened. It may happen yet: read first."""

    kind: ClassVar[Kind] = Kind.RETRY

    def __init__(self, key: str, *, said: str, of: str = "") -> None:
        super().__init__(
            f"{object_of(key, of)}: the store does not say whether it was replaced ({said}); "
            "the next try reads it first"
        )
        self.key = key
        self.said = said


class Fenced(ColdError):
    """A newer leader publishes this partition. This process never will again: stop."""

    kind: ClassVar[Kind] = Kind.FENCED

    def __init__(self, key: str, *, mine: Writer, found: Writer, why: str, of: str = "") -> None:
        super().__init__(
            f"{object_of(key, of)}: {why}; this process stops publishing the partition"
        )
        self.key = key
        self.mine = mine
        self.found = found


class FencedByNewer(Fenced):
    """A later leader epoch has claimed the partition."""

    def __init__(self, key: str, *, mine: Writer, found: Writer, of: str = "") -> None:
        super().__init__(
            key,
            mine=mine,
            found=found,
            of=of,
            why=f"leader epoch {found.leader_epoch} claimed it, this one is {mine.leader_epoch}",
        )


class FencedByTwin(Fenced):
    """Another process has the same leader epoch: two nodes run on copies of one disk."""

    def __init__(self, key: str, *, mine: Writer, found: Writer, of: str = "") -> None:
        super().__init__(
            key,
            mine=mine,
            found=found,
            of=of,
            why=f"process {found.process} has leader epoch {found.leader_epoch} too: two nodes run "
            "on copies of one data directory. Stop one of them and never start it on that copy",
        )


class RunChanged(ColdError):
    """The segments that were merged are not listed any more, or not as they were: something expired
    or was deleted meanwhile. Nothing was changed; the merged object is an orphan."""

    kind: ClassVar[Kind] = Kind.RETRY

    def __init__(self, start: Offset, end: Offset, *, of: str = "") -> None:
        super().__init__(f"{of or 'the manifest'}: [{start}, {end}) is not listed as it was")
        self.start = start
        self.end = end


class ForeignIncarnation(ColdError):
    """The bucket belongs to another life of the cluster, such as one restored from it.

    Whoever meets this stops taking records and serves reads only.
    """

    kind: ClassVar[Kind] = Kind.FENCED

    def __init__(self, key: str, *, mine: Incarnation, found: Incarnation, of: str = "") -> None:
        super().__init__(
            f"{object_of(key, of)} belongs to incarnation {found.number} ({found.id}) of the "
            f"cluster, this node to {mine.number} ({mine.id}): the cluster was restored elsewhere "
            "from this bucket, or another one writes below the same prefix. This node "
            "serves reads only; keep its data directory until nobody misses what was not uploaded"
        )
        self.key = key
        self.mine = mine
        self.found = found


class ForeignObject(ColdError):
    """The object is well formed and says that it belongs to another place."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, key: str, *, says: str, of: str = "") -> None:
        super().__init__(
            f"{object_of(key, of)} says that it belongs to {says}: "
            "objects were moved or overwritten"
        )
        self.key = key


class HeadMissing(ColdError):
    """The store shows no HEAD, though records have left this disk for it."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, key: str, *, end: Offset, of: str = "") -> None:
        super().__init__(
            f"{object_of(key, of)} is not there, though records below offset {end} have left the "
            "disk for this store: see whether it is the right one, and mounted; put HEAD back from "
            f"a version or a backup, or delete the records up to {end} to go on without them"
        )
        self.key = key
        self.end = end


class HeadLost(ColdError):
    """The store shows no HEAD, or an older one than it has shown before. `repair` puts it back."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(
        self, key: str, *, known_version: int, found_version: int | None, of: str = ""
    ) -> None:
        found = "is gone" if found_version is None else f"is back at version {found_version}"
        super().__init__(
            f"{object_of(key, of)} {found}, this node has seen version {known_version}: the store "
            "lost a write, or somebody restored or removed objects. Nothing is published "
            "until it is repaired"
        )
        self.key = key
        self.known_version = known_version
        self.found_version = found_version


class HeadGarbled(HeadLost):
    """What stands in HEAD's place cannot be read, and this node has a copy. `repair` puts it back:
    a newer tierlog's HEAD is not garbled (`NewerFormat`)."""

    def __init__(self, key: str, *, known_version: int, why: str, of: str = "") -> None:
        ColdError.__init__(
            self,
            f"{object_of(key, of)} cannot be read ({why}), this node has seen version "
            f"{known_version}: somebody or something wrote over it. Nothing is published until it "
            "is repaired",
        )
        self.key = key
        self.known_version = known_version
        self.found_version = None


class HeadUnreadable(ColdCorrupt):
    """What stands in HEAD's place cannot be read, and this node knows no other."""

    def __init__(self, key: str, *, why: str, of: str = "") -> None:
        ColdError.__init__(
            self,
            f"{object_of(key, of)} cannot be read ({why}), and this node has no copy of it: put "
            "its newest sound version back; without one 'tierlog restore' makes it anew from the "
            "segments",
        )
        self.key = key
        self.reason = why


class HeadForked(ColdError):
    """The store's HEAD is not a successor of the one that was there: nobody can merge them."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, key: str, *, what: str, of: str = "") -> None:
        super().__init__(
            f"{object_of(key, of)} does not follow from the HEAD that this node has seen: {what}. "
            "The store took two writes where it should have taken one. Nothing is "
            "published: keep the data directory and the bucket as they are, and compare both"
        )
        self.key = key


class NotNext(ColdError):
    """A segment does not begin where HEAD ends: go on at `next_offset`."""

    def __init__(self, key: str, *, base: int, next_offset: int, of: str = "") -> None:
        super().__init__(
            f"{object_of(key, of)}: a segment from {base} on cannot follow offset {next_offset}"
        )
        self.key = key
        self.base = base
        self.next_offset = next_offset


class CopyFailed(ColdError):
    """HEAD, or STATE, is written, its local copy is not. Free some space; a retry saves it."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE

    def __init__(self, path: str, fault: OSError) -> None:
        super().__init__(f"{path}: the local copy was not written: {fault}")
        self.path = path


class TopicDeleted(ColdError):
    """The topic stands as deleted in the bucket: nothing of it is published any more."""

    def __init__(self, topic_id: str, *, of: str = "") -> None:
        super().__init__(f"topic {object_of(topic_id, of)} is deleted")
        self.topic_id = topic_id


class ClusterUnknown(ColdError):
    """The bucket does not say what a cluster needs to know of itself."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)


class StateLost(ColdError):
    """The store has no STATE of a cluster that was founded in it, or none that can be read, and it
    cannot be put back."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE

    def __init__(self, key: str, sentence: str | None = None) -> None:
        super().__init__(
            sentence
            or f"the store has no {key}, and it had: this is another bucket or folder, or it was "
            "emptied, or it is not mounted; nothing is uploaded or dropped until it is back"
        )
        self.key = key


class HoldRefused(ColdError):
    """A hold that cannot be placed as it was asked for: tell whoever asked."""

    def __init__(self, sentence: str, *, of: str = "") -> None:
        super().__init__(f"{of}: {sentence}" if of else sentence)


class PolicyDiffers(ColdError):
    """HEAD names another policy than the one to expire by: it is told first (U7b), and nothing goes
    by either of them meanwhile."""

    kind: ClassVar[Kind] = Kind.RETRY

    def __init__(self, *, of: str) -> None:
        super().__init__(f"{of}: the bucket does not know the topic's retention yet")
