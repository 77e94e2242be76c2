"""`/holds`: what of the topics nobody may delete; placed and released here.

    GET    /holds[?topic=T]                                      those that there are
    POST   /holds?topic=T&id=ID&reason=TEXT&spans=0:5-90,1:-     of partition 0, and all of 1
    DELETE /holds?topic=T&id=ID                                  of every partition that has it

A span without a start begins where the partition does; one without an end covers what comes, too.
200 means that HEAD of every partition says so. Anything less is a problem that tells of each
partition: 503 where asking again with the same id may help, 409 where it does not. As with records
and settings, whoever reaches the node may do it; a page in a browser may not (`check_header`).
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from tierlog.broker.errors import BrokerError, UnknownTopic
from tierlog.broker.holds import Span, is_known
from tierlog.cold.holds import NO_END
from tierlog.cold.refusals import HoldRefused
from tierlog.http.message import Request, Response, check_header
from tierlog.http.problem import Problem
from tierlog.types import Offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.broker.holds import Holds, Listed, Told
    from tierlog.broker.topics import Topic
    from tierlog.cold.head import Hold
    from tierlog.http.view import NodeView

ROWS_MAX: Final = 10_000
"""Of one answer: some 2 MB."""
NAMED_MAX: Final = 3
"""Partitions whose trouble stands in the sentence; all of them stand beside it."""
_SPAN: Final = re.compile(r"([0-9]{1,9}):([0-9]{0,18})-([0-9]{0,18})")


class HoldsRoute:
    def __init__(self, view: NodeView) -> None:
        self._view = view

    async def show(self, request: Request) -> Response:
        name = request.query.get("topic")
        topics = list(self._view.node.topics) if name is None else [self._topic(name)]
        rows = self._holds().listed(topics)
        unknown = [
            f"{topic.name}-{one.index}"
            for topic in topics
            for one in topic.partitions
            if not is_known(one)
        ]
        body = {
            "holds": [_row(one) for one in islice(rows, ROWS_MAX)],
            "left_out": sum(1 for _ in rows),
            "unknown": unknown[:ROWS_MAX],
        }
        return _json(body)

    async def place(self, request: Request) -> Response:
        check_header(request)
        topic, hold_id = self._topic(request.query.get("topic", "")), request.query.get("id", "")
        reason, spans = request.query.get("reason", ""), _spans(request, topic)
        try:
            told = await self._holds().place(topic, spans, hold_id=hold_id, reason=reason)
        except HoldRefused as error:
            raise Problem(400, str(error)) from None
        except BrokerError as error:
            raise _problem(error) from None
        return _answer(topic, hold_id, told, verb="placed")

    async def release(self, request: Request) -> Response:
        check_header(request)
        topic, hold_id = self._topic(request.query.get("topic", "")), request.query.get("id", "")
        try:
            told = await self._holds().release(topic, hold_id)
        except BrokerError as error:
            raise _problem(error) from None
        if not told:
            raise Problem(404, f"{topic.name} has no hold {hold_id[:80]!r}")
        return _answer(topic, hold_id, told, verb="released")

    def _holds(self) -> Holds:
        tiering = self._view.tiering
        if tiering is None:
            raise Problem(404, "this node has no store, so nothing can be held")
        return tiering.holds

    def _topic(self, name: str) -> Topic:
        topic = self._view.node.topics.by_name.get(name)
        if topic is None:
            raise Problem(404, f"there is no topic {name[:250]!r}", members={"topic": name[:250]})
        return topic


def _spans(request: Request, topic: Topic) -> list[Span]:
    spans: dict[int, Span] = {}
    for text in request.query.get("spans", "").split(","):
        found = _SPAN.fullmatch(text)
        if found is None:
            raise Problem(400, f"{text[:60]!r} is no span; write PARTITION:[START]-[END]")
        index, start, end = (int(one) if one else None for one in found.groups())
        assert index is not None, "the pattern asks for it"
        if index >= len(topic.partitions):
            raise Problem(404, f"{topic.name} has no partition {index}")
        spans[index] = Span(index=index, start=_offset(start), end=_offset(end))
    return list(spans.values())


def _offset(value: int | None) -> Offset | None:
    return None if value is None else Offset(value)


def _problem(error: BrokerError) -> Problem:
    return Problem(404 if isinstance(error, UnknownTopic) else 409, str(error))


def _answer(topic: Topic, hold_id: str, told: Sequence[Told], *, verb: str) -> Response:
    """Raises `Problem` unless all is done."""
    rows = [
        {
            "partition": one.partition,
            "start": None if one.hold is None else one.hold.start,
            "end": None if one.hold is None else _end(one.hold),
            "error": one.error,
            "is_retriable": one.is_retriable,
        }
        for one in told
    ]
    body: dict[str, object] = {"topic": topic.name, "id": hold_id, "partitions": rows}
    if all(one.error is None for one in told):
        return _json(body)
    is_retriable = any(one.is_retriable for one in told)
    raise Problem(503 if is_retriable else 409, _sentence(hold_id, told, verb=verb), members=body)


def _sentence(hold_id: str, told: Sequence[Told], *, verb: str) -> str:
    failed = [one for one in told if one.error is not None]
    some = "; ".join(f"partition {one.partition}: {one.error}" for one in failed[:NAMED_MAX])
    more = f"; and {len(failed) - NAMED_MAX} more" if len(failed) > NAMED_MAX else ""
    text = f"hold {hold_id} was not {verb} on {len(failed)} of {len(told)} partitions; {some}{more}"
    if not any(one.is_retriable for one in failed):
        return text
    return f"{text}. Once the store answers, ask again with the same id: what is done stays done"


def _row(listed: Listed) -> dict[str, object]:
    hold = listed.hold
    return {
        "topic": listed.topic,
        "partition": listed.partition,
        "id": hold.id,
        "start": hold.start,
        "end": _end(hold),
        "reason": hold.reason,
        "is_placed": listed.is_placed,
    }


def _end(hold: Hold) -> int | None:
    return None if hold.end == NO_END else hold.end


def _json(body: dict[str, object]) -> Response:
    return Response(body=json.dumps(body).encode() + b"\n", content_type="application/json")
