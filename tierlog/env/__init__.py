"""The outside world as ports: clock, randomness, disk, tasks, replies.

Core code meets time, chance, files and threads only through an `Env`, so that the same code runs on
a real machine and in the simulated world of `tierlog.sim`. The network needs no port of its own:
code asks the running asyncio loop for servers and connections, and the simulated loop answers with
in-memory ones; only the way of replies out of a connection is a port, `Senders`. Object stores and
metastores are ports of their own rooms.
"""

from tierlog.env.clock import Clock, SystemClock
from tierlog.env.direct import DirectSenders
from tierlog.env.disk import Disk, DiskLock, File, Found, LocalDisk
from tierlog.env.env import Env, local_env
from tierlog.env.mapping import mapped_bytes
from tierlog.env.openfiles import raise_files_max
from tierlog.env.rng import Rng, SystemRng
from tierlog.env.senders import PlainSenders, Sender, Senders
from tierlog.env.slabs import Slabs, may_lend
from tierlog.env.tally import Tally
from tierlog.env.tasks import LocalTasks, Tasks, WorkerLost

__all__ = [
    "Clock",
    "DirectSenders",
    "Disk",
    "DiskLock",
    "Env",
    "File",
    "Found",
    "LocalDisk",
    "LocalTasks",
    "PlainSenders",
    "Rng",
    "Sender",
    "Senders",
    "Slabs",
    "SystemClock",
    "SystemRng",
    "Tally",
    "Tasks",
    "WorkerLost",
    "local_env",
    "mapped_bytes",
    "may_lend",
    "raise_files_max",
]
