"""A job for a worker process that is to be killed, in a module that the worker can import."""

import signal
from pathlib import Path

from tierlog.table.plans import ConvertPlan, Made


def stand_still(plan: ConvertPlan) -> Made:
    """Until it is killed."""
    Path(plan.out).with_name("standing").touch()
    signal.pause()
    raise AssertionError("it was to be killed")
