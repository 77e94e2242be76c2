"""The simulated world: a disk, a loop, a network and a clock that one seed drives.

Code that takes its `Env` and asks the running loop for connections runs here unchanged, in virtual
time, under faults that would take years to meet outside. The same seed gives the same history, so a
failure is a number. Knows the ports only; scenarios of other rooms are handed in by name.
"""

from tierlog.sim.disk import PowerCut, SimDisk
from tierlog.sim.loop import SimDeadlock, SimLoop, SimOverrun
from tierlog.sim.network import SimNetwork
from tierlog.sim.power import DataFate, NameFate
from tierlog.sim.world import HostDied, SimWorld, simulate

__all__ = [
    "DataFate",
    "HostDied",
    "NameFate",
    "PowerCut",
    "SimDeadlock",
    "SimDisk",
    "SimLoop",
    "SimNetwork",
    "SimOverrun",
    "SimWorld",
    "simulate",
]
