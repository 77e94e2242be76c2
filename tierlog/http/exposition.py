"""`/metrics`: the families in the text format of Prometheus, or OpenMetrics for who asks for it.

The loop has its turn after every few hundred samples: a scrape of ten thousand topics must not be
felt by anybody who waits for an answer. One scrape is written at a time, whoever else scrapes
waits. Heads of families and foreign collectors are written by prometheus-client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from prometheus_client.exposition import generate_latest as generate_text
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from tierlog.http.families import FAMILIES
from tierlog.http.message import Request, Response
from tierlog.http.metrics import head_of, text_of

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

    from tierlog.http.view import NodeView

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text"
OPENMETRICS_TYPE: Final = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
EOF: Final = b"# EOF\n"
"""Ends an OpenMetrics text; the plain one has no end mark."""

READINGS_A_TURN: Final = 500
"""About a millisecond."""

Generate: TypeAlias = Callable[["Collector"], bytes]


class Exposition:
    def __init__(self, view: NodeView, collectors: Sequence[Collector] = ()) -> None:
        self._view = view
        self._collectors = collectors
        self._turn = asyncio.Lock()

    async def handle(self, request: Request) -> Response:
        if accepts_openmetrics(request.headers.get("accept", "")):
            body = await self._written(generate_openmetrics) + EOF
            return Response(body=body, content_type=OPENMETRICS_TYPE)
        return Response(body=await self._written(generate_text), content_type=TEXT_TYPE)

    async def _written(self, generate: Generate) -> bytes:
        async with self._turn:
            pieces = []
            for piece in self.pieces(generate):
                pieces.append(piece)
                await asyncio.sleep(0)
            return b"".join(pieces)

    def pieces(self, generate: Generate) -> Iterator[bytes]:
        for family in FAMILIES:
            yield written(head_of(family), generate)
            readings = iter(family.read(self._view))
            while some := list(islice(readings, READINGS_A_TURN)):
                yield "".join([text_of(family, reading) for reading in some]).encode()
        for collector in self._collectors:
            for foreign in collector.collect():
                yield written(foreign, generate)


def written(family: Metric, generate: Generate) -> bytes:
    return generate(_One(family)).removesuffix(EOF)


class _One:
    """A registry of one family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def accepts_openmetrics(accept: str) -> bool:
    kinds = (one.partition(";")[0].strip().lower() for one in islice(accept.split(","), 20))
    return OPENMETRICS in kinds
