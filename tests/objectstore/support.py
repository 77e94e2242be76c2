"""A folder store on a simulated disk, without a loop of its own."""

from random import Random

from tests.inline import InlineTasks
from tierlog.env import Env, PlainSenders, SystemClock
from tierlog.sim import SimDisk
from tierlog.sim.ports import SimRng


def env_on(disk: SimDisk) -> Env:
    return Env(
        clock=SystemClock(),
        rng=SimRng(Random(disk.op_count)),
        disk=disk,
        tasks=InlineTasks(),
        senders=PlainSenders(),
    )
