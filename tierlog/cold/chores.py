"""What is done for a tiered partition besides uploading it and dropping what is cold.

A chore names the time from which it wants a turn; the tier looks at that number every second, for
every partition, so it is a plain attribute. Its turn comes in one of the tier's few slots, after
uploads and drops. It does a bounded piece of work and moves its time on; what the store raises
passes through, and the partition is tried again after a pause.

A node has chores of its own as well (sweeps, scrubs): each runs beside the uploads, in a task of
its own, never twice at once. What it raises puts off the chore alone, and is told; findings are
noted, not raised.

Chores of a partition that was fenced are not run: what is in its bucket is another leader's.
"""

from typing import Protocol

from tierlog.cold.tiersettings import TopicTiering


class Chore(Protocol):
    @property
    def due_from_ms(self) -> float:
        """Wall clock; infinity: not until something changes, which the chore watches itself."""
        ...

    def reconfigure(self, tiering: TopicTiering) -> None:
        """The topic was altered."""
        ...

    def clock_set_back(self) -> None:
        """What was put off by the clock before may lie too far ahead."""
        ...

    async def run(self) -> None:
        """One piece of work, so that others have their turns."""
        ...


class NodeChore(Protocol):
    """One that is not due may be run, too, after the clock was set back: it plans anew."""

    @property
    def name(self) -> str: ...

    @property
    def due_from_ms(self) -> float: ...

    async def run(self) -> None: ...
