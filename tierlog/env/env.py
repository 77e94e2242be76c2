"""The bundle of ports that a component is built with."""

from dataclasses import dataclass

from tierlog.env.clock import Clock, SystemClock
from tierlog.env.direct import DirectSenders
from tierlog.env.disk import Disk, LocalDisk
from tierlog.env.rng import Rng, SystemRng
from tierlog.env.senders import Senders
from tierlog.env.tasks import LocalTasks, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    clock: Clock
    rng: Rng
    disk: Disk
    tasks: Tasks
    senders: Senders


def local_env() -> Env:
    """This machine."""
    return Env(
        clock=SystemClock(),
        rng=SystemRng(),
        disk=LocalDisk(),
        tasks=LocalTasks(),
        senders=DirectSenders(),
    )
