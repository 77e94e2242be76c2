"""The simulated world: a disk, a loop, a network and a clock that one seed drives.

Code that takes its `Env` and asks the running loop for connections runs here unchanged, in virtual
time, under faults that would take years to meet outside. The same seed gives the same history, so a
failure is a number. Knows the ports only; scenarios of other rooms are handed in by name.
"""

from tierlog.sim.disk import PowerCut, SimDisk
from tierlog.sim.power import DataFate, NameFate

__all__ = ["DataFate", "NameFate", "PowerCut", "SimDisk"]
