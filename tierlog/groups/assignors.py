"""Server-side assignors: who should read what in the end, given who wants to read what. Pure.

`range` gives each topic's partitions out in runs, members in order, so that partitions of the same
number of topics that are read by the same members meet. `uniform` spreads all partitions evenly and
moves as few as it can. Both give every partition that anybody subscribes to exactly one owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tierlog.groups.assign_range import assign_range
from tierlog.groups.assign_uniform import assign_uniform
from tierlog.groups.assigning import Shares, Subscriber

Assignor: TypeAlias = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], Shares]

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
