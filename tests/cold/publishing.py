"""Publishers of one partition on one scripted store, in virtual time."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.cold.makers import an_entry
from tests.cold.scripted import ScriptedStore
from tierlog.cold.changes import Append
from tierlog.cold.codec import decode_head
from tierlog.cold.entry import Entry
from tierlog.cold.head import Head, Incarnation, Writer
from tierlog.cold.layout import PartitionKeys, cluster_prefix
from tierlog.cold.localcopy import LocalCopies
from tierlog.cold.publisher import Place, Publisher
from tierlog.cold.tree import LIMITS, Limits
from tierlog.sim import SimWorld
from tierlog.types import LeaderEpoch, Offset

T = TypeVar("T")

CLUSTER = "test-cluster"
TOPIC_ID = "0123456789abcdef0123456789abcdef"
KEYS = PartitionKeys(cluster_prefix("", CLUSTER), TOPIC_ID, 0)
FIRST_LIFE = Incarnation(1, "first life")
SECOND_LIFE = Incarnation(2, "second life")


class Scene:
    """A host, the bucket, and as many leaders as a test needs."""

    def __init__(self, world: SimWorld) -> None:
        self.env = world.env("node")
        self.store = ScriptedStore(self.env.clock)
        self.copies = LocalCopies(self.env, "/data/cold")

    def leader(
        self,
        epoch: int,
        process: str = "a process",
        *,
        incarnation: Incarnation = FIRST_LIFE,
        ancestors: tuple[Incarnation, ...] = (),
        copies: LocalCopies | None = None,
    ) -> Publisher:
        return Publisher(
            self.store,
            KEYS,
            self.env,
            place=Place(topic="orders", topic_id=TOPIC_ID, partition=0, partition_count=1),
            writer=Writer(LeaderEpoch(epoch), process),
            incarnation=incarnation,
            ancestors=ancestors,
            copies=copies,
        )

    def append(self, *entries: Entry, limits: Limits = LIMITS, trimmed_to: int = 0) -> Append:
        return Append(
            entries,
            store=self.store,
            keys=KEYS,
            env=self.env,
            limits=limits,
            trimmed_to=Offset(trimmed_to),
        )

    def published(self) -> Head:
        """HEAD as it stands in the bucket."""
        return decode_head(self.store.shelf.items[KEYS.head].data, key=KEYS.head)


def play(scenario: Callable[[Scene], Coroutine[Any, Any, T]]) -> T:
    world = SimWorld(1)

    async def run() -> T:
        scene = Scene(world)
        await scene.copies.open()
        return await scenario(scene)

    return world.run(run())


def segments(count: int) -> list[Entry]:
    return [an_entry(number) for number in range(count)]
