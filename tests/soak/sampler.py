"""Takes samples beside a soak, in a thread of its own, and prints some of them as a live table."""

import contextlib
import threading
import time
from collections.abc import Callable
from types import TracebackType

from botocore.exceptions import BotoCoreError, ClientError

from tests.soak import sampling
from tests.soak.sampling import Sample
from tests.soak.world import World

HEADINGS = (
    "   time  life  memory  worker    disk   cache   store  objects  segments  files  receipts"
    "      acked"
)
LINES_A_HEADING = 20


class Sampler:
    def __init__(self, world: World, *, say: Callable[[str], None], shown_s: float = 10.0) -> None:
        self.samples: list[Sample] = []
        self._world = world
        self._say = say
        self._shown_s = shown_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        began, shown, lines = time.monotonic(), 0.0, 0
        while not self._ending.wait(1.0):
            at_s = time.monotonic() - began
            # Nobody is asked while the node or the store is away: those samples are left out.
            with contextlib.suppress(OSError, BotoCoreError, ClientError):
                self.samples.append(self._take(at_s))
                if at_s - shown >= self._shown_s:
                    shown = at_s
                    if lines % LINES_A_HEADING == 0:
                        self._say(HEADINGS)
                    self._say(self._line(self.samples[-1]))
                    lines += 1

    def _take(self, at_s: float) -> Sample:
        node = self._world.node
        return sampling.take(
            at_s=at_s, life=node.lives, pid=node.pid, data=node.data, shelf=self._world.shelf
        )

    def _line(self, one: Sample) -> str:
        loads = list(self._world.loads.values())
        acked = self._world.acked + sum(each.acked_end for load in loads for each in load.ledgers)
        minutes, seconds = divmod(int(one.at_s), 60)
        sizes = (one.memory_bytes, one.worker_bytes, one.disk_bytes, one.cache_bytes)
        shown = "".join(f"{size / 1e6:6.1f}MB" for size in (*sizes, one.store_bytes))
        return (
            f"{minutes:4d}:{seconds:02d}{one.life:6d}{shown}{one.store_objects:9d}"
            f"{one.segments:10d}{one.files:7d}{one.receipts:10d}{acked:11,d}"
        )
