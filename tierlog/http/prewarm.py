"""`/prewarm`: load ranges of offsets into the node's chunk cache, one run at a time.

POST begins a run and answers at once; GET tells how far it is, or how the last one ended; DELETE
ends it where it is, and what was loaded stays. `dry_run=1` answers what a run would take; `taken`
is what the parts of a plan before this one would have taken of the cache's room.

    POST /prewarm?topic=T&spans=0:100-200,1:0-50[&budget=BYTES][&dry_run=1[&taken=BYTES]]

Nothing that a consumer could not do: whoever may read a topic may have it cached. A page in a
browser may not (`check_header`).
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.fetchproxy.prewarm import Wish
from tierlog.http.message import Request, Response, check_header
from tierlog.http.problem import Problem
from tierlog.types import Offset

if TYPE_CHECKING:
    from tierlog.fetchproxy.prewarm import Prewarm, Prewarmed
    from tierlog.fetchproxy.proxy import FetchProxy
    from tierlog.http.view import NodeView

_SPAN: Final = re.compile(r"([0-9]{1,9}):([0-9]{1,18})-([0-9]{1,18})")
_BYTES: Final = re.compile(r"[0-9]{1,18}")


class PrewarmRoute:
    def __init__(self, view: NodeView) -> None:
        self._view = view
        self._last: Prewarm | None = None
        self._running: asyncio.Task[None] | None = None

    async def begin(self, request: Request) -> Response:
        check_header(request)
        proxy = self._proxy()
        wishes, budget = self._wishes(request), _bytes(request, "budget")
        if request.query.get("dry_run") == "1":
            taken = _bytes(request, "taken") or 0
            run = proxy.prewarm(wishes, bytes_max=budget, taken_bytes=taken)
            try:
                return self._told(proxy, await run.price())
            except TierlogError as error:
                raise Problem(503, f"the manifest cannot be read now: {error}") from None
        if self._running is not None and not self._running.done():
            raise Problem(409, "a run is under way; wait for it, or end it with DELETE")
        self._last = run = proxy.prewarm(wishes, bytes_max=budget)
        self._running = self._view.node.env.tasks.spawn(run.run(), name="prewarm")
        return self._told(proxy, run.state, status=202)

    async def show(self, _: Request) -> Response:
        proxy = self._proxy()
        if self._last is None:
            raise Problem(404, "nothing was prewarmed since the node started")
        return self._told(proxy, self._last.state)

    async def end(self, request: Request) -> Response:
        check_header(request)
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        return await self.show(request)

    def _proxy(self) -> FetchProxy:
        tiering = self._view.tiering
        if tiering is None:
            raise Problem(404, "this node has no store, so nothing is cold")
        return tiering.proxy

    def _wishes(self, request: Request) -> list[Wish]:
        name = request.query.get("topic", "")
        topic = self._view.node.topics.by_name.get(name)
        if topic is None:
            raise Problem(404, f"there is no topic {name[:100]!r}")
        wishes = []
        for text in request.query.get("spans", "").split(","):
            found = _SPAN.fullmatch(text)
            if found is None:
                raise Problem(400, f"{text[:60]!r} is no span; write PARTITION:START-END")
            index, start, end = map(int, found.groups())
            if index >= len(topic.partitions):
                raise Problem(404, f"{name} has no partition {index}")
            cold = topic.partitions[index].cold
            if cold is not None and cold.head is not None:
                first = max(start, cold.log_start)
                wishes.append(Wish(cold, Offset(first), Offset(min(end, cold.uploaded_end))))
        return wishes

    def _told(self, proxy: FetchProxy, state: Prewarmed, *, status: int = 200) -> Response:
        dollars = proxy.price.of(gets=state.gets, get_bytes=state.loaded_bytes)
        body = {
            "bytes": state.bytes,
            "here_bytes": state.here_bytes,
            "loaded_bytes": state.loaded_bytes,
            "left_bytes": state.left_bytes,
            "gets": state.gets,
            "usd": dollars,
            "done": state.done,
            "error": state.error,
        }
        text = json.dumps(body) + "\n"
        return Response(status=status, body=text.encode(), content_type="application/json")


def _bytes(request: Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not _BYTES.fullmatch(text):
        raise Problem(400, f"{name} {text[:40]!r} is no number of bytes")
    return int(text)
