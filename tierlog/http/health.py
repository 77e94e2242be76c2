"""Is it alive, and may it be sent traffic?

`/healthz` fails when only a restart can help: the log directory is broken. That the loop runs is
shown by the answer itself. `/readyz` also fails before the node serves and while it drains. An
object store that is away fails neither: the node serves without it. `/healthz` says so beside "ok".
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from tierlog.http.message import Request, Response
from tierlog.http.problem import Problem

if TYPE_CHECKING:
    from tierlog.http.view import NodeView


class Phase(Enum):
    """The life of a node; the value says why it is not ready."""

    STARTING = "the node is starting: its partitions are being opened"
    SERVING = "the node serves"
    DRAINING = "the node is stopping: it answers what is in flight and takes nothing new"


class Health:
    def __init__(self, view: NodeView) -> None:
        self._view = view

    async def healthz(self, _: Request) -> Response:
        self._check_whole()
        trouble = self._view.store_trouble
        return Response(body=b"ok\n" if trouble is None else f"ok; {trouble}\n".encode())

    async def readyz(self, _: Request) -> Response:
        self._check_whole()
        phase = self._view.phase
        if phase is not Phase.SERVING:
            raise Problem(503, phase.value, members={"phase": phase.name.lower()})
        return Response(body=b"ready\n")

    def _check_whole(self) -> None:
        fault = self._view.fault
        if fault is not None:
            raise Problem(503, fault, members={"phase": "broken"})
