"""Jobs on Spark: a list of things, a function for each, and how far it is.

A task takes one thing, tells its bytes to an accumulator when it is done, and returns what the
driver wants to know. Tasks may be run twice (retries, speculation): what they write has a name of
its own for each attempt, and only the driver publishes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from tierlog.spark.reading import need_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from pyspark.sql import SparkSession

    Watcher: TypeAlias = Callable[[int, int], None]
    """Told bytes that are done, and all bytes."""

Thing = TypeVar("Thing")
Result = TypeVar("Result")

LOOK_S = 0.2

GROUP_BYTES, GROUP_COUNT = 64 << 20, 256
"""Of things that share a task. Starting one, and a client of the store in it, takes longer than
reading a small object; and what is lost with a task is done again."""


def job_session(master: str | None = None) -> SparkSession:
    """The running session, or one of its own: as spark-submit says, else this machine's cores."""
    need_spark()
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is not None:
        return found
    building = SparkSession.builder.appName("tierlog").config(
        "spark.ui.showConsoleProgress", "false"
    )
    if master is not None:
        building = building.master(master)
    return building.getOrCreate()


def grouped(
    things: Sequence[Thing],
    *,
    size_of: Callable[[Thing], int],
    bytes_max: int = GROUP_BYTES,
    count_max: int = GROUP_COUNT,
) -> list[list[Thing]]:
    """Neighbours together, in order. One that is too large is alone."""
    found: list[list[Thing]] = []
    size = 0
    for one in things:
        own = size_of(one)
        if not found or size + own > bytes_max or len(found[-1]) >= count_max:
            found.append([])
            size = 0
        found[-1].append(one)
        size += own
    return found


def run_tasks(
    spark: SparkSession,
    things: Sequence[Thing],
    work: Callable[[Thing], Result],
    *,
    size_of: Callable[[Thing], int],
    watcher: Watcher | None = None,
) -> list[Result]:
    """In the order of `things`; a task for each. Raises what Spark makes of a task's error."""
    if not things:
        return []
    context = spark.sparkContext
    done = context.accumulator(0)
    sizes = [size_of(one) for one in things]

    def counted(numbered: tuple[int, Thing]) -> Result:
        number, one = numbered
        found = work(one)
        done.add(sizes[number])
        return found

    spread = context.parallelize(list(enumerate(things)), len(things))
    if watcher is None:
        return spread.map(counted).collect()
    return _watched(lambda: spread.map(counted).collect(), lambda: watcher(done.value, sum(sizes)))


def _watched(work: Callable[[], list[Result]], look: Callable[[], None]) -> list[Result]:
    """The work in a thread; somebody looks now and then, and once at the end."""
    found: list[list[Result]] = []
    troubles: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001  (handed to the caller, whatever it is)
            troubles.append(error)

    thread = threading.Thread(target=run, name="tierlog-job", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(LOOK_S)
        look()
    if troubles:
        raise troubles[0]
    return found[0]
