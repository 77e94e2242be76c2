"""From a frame to its handler and back: the table of what this node serves.

A handler is registered with the versions it is right for; ApiVersions tells just these. A request
for anything else ends the connection, as in Kafka: its answer could not be read. The one exception
is ApiVersions itself, which is answered in v0 so that the client can find a version.

Typed handlers take a message and return one; raw ones (Produce, Fetch) take the frame, because
their bytes must not be copied.
"""

from __future__ import annotations

import inspect
import logging
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tierlog.broker.call import Call
from tierlog.broker.limits import REQUEST_ELEMENTS_MAX
from tierlog.broker.request import Answer, CloseConnection, Parts
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type
from tierlog.wire.codec import decode_whole
from tierlog.wire.errors import WireError
from tierlog.wire.header import encode_response, read_request_header

if TYPE_CHECKING:
    import asyncio

    from tierlog.broker.node import Node
    from tierlog.broker.request import Peer
    from tierlog.broker.stats import ApiStats
    from tierlog.wire.registry import Registry
    from tierlog.wire.schema import Response

logger = logging.getLogger(__name__)

RawHandler: TypeAlias = Callable[[memoryview, int, Call], Answer]
"""Frame, position of the body, call."""
TypedHandler: TypeAlias = Callable[[Any, Call], "Response | Awaitable[Response]"]

NEVER_FLEXIBLE: Final = 1 << 16
_HEAD: Final = struct.Struct(">hhih").unpack_from
_HEAD_BYTES: Final = 10


class Row:
    """What serves one API."""

    __slots__ = ("answer", "flexible_from", "stats", "version_max", "version_min")

    def __init__(
        self,
        answer: RawHandler,
        *,
        version_min: int,
        version_max: int,
        flexible_from: int,
        stats: ApiStats,
    ) -> None:
        self.answer = answer
        self.version_min = version_min
        self.version_max = version_max
        self.flexible_from = flexible_from
        self.stats = stats


class Dispatcher:
    """The service behind every connection of a node."""

    def __init__(self, node: Node, registry: Registry[RawHandler]) -> None:
        self._node = node
        self._monotonic = node.env.clock.monotonic
        self._client_ids: dict[bytes, str] = {}
        self._produce_stats = node.stats.api(ApiKey.PRODUCE)
        self._fetch_stats = node.stats.api(ApiKey.FETCH)
        self._topics = node.topics
        self._space = node.space
        self._rows = {
            int(row.api): Row(
                row.handler,
                version_min=row.version_min,
                version_max=row.version_max,
                flexible_from=flexible_from(row.api),
                stats=node.stats.api(row.api),
            )
            for row in registry
        }

    def handle(self, frame: memoryview, peer: Peer) -> Answer:
        began = self._monotonic()
        openings = peer.openings
        if openings is not None and (found := openings.find(frame)) is not None:
            correlation_id, batch, route = found
            if route.generation == self._topics.generation and not self._space.is_pressing:
                stats = self._produce_stats
                stats.requests += 1
                answer = route.serve(batch, route, correlation_id, peer)
                if type(answer) is list:
                    stats.seconds.note(self._monotonic() - began)
                else:
                    self._note_when_done(answer, stats, began)
                return answer
        fetches = peer.fetches
        if fetches is not None and (asked := fetches.find(frame)) is not None:
            correlation_id, offset, source = asked
            if source.generation == self._topics.generation:
                parts = source.answer(offset, correlation_id)
                if parts is not None:
                    stats = self._fetch_stats
                    stats.requests += 1
                    stats.seconds.note(self._monotonic() - began)
                    return parts
        return self._handle_any(frame, peer, began)

    def _handle_any(self, frame: memoryview, peer: Peer, began: float) -> Answer:
        """The long road: nothing about the request is known yet."""
        try:
            api_key, version, correlation_id, length = _HEAD(frame)
        except struct.error:
            raise CloseConnection(f"a request of {len(frame)} bytes has no header") from None
        row = self._rows.get(api_key)
        if row is None or not row.version_min <= version <= row.version_max:
            return self._not_served(api_key, version, correlation_id, peer)
        stats = row.stats
        stats.requests += 1
        try:
            client_id, position = self._client_id(frame, length, version >= row.flexible_from)
            call = Call(self._node, peer, api_key, version, correlation_id, client_id)
            answer = row.answer(frame, position, call)
        except WireError as error:
            stats.errors += 1
            raise CloseConnection(f"{ApiKey(api_key).name} v{version}: {error}") from error
        self._note_when_done(answer, stats, began)
        return answer

    def _note_when_done(self, answer: Answer, stats: ApiStats, began: float) -> None:
        if answer is None or isinstance(answer, list):
            stats.seconds.note(self._monotonic() - began)
        else:
            answer.add_done_callback(partial(self._note_late, stats, began))

    def _client_id(
        self, frame: memoryview, length: int, is_flexible: bool
    ) -> tuple[str | None, int]:
        """The client id and the position of the body; the good road of `read_request_header`."""
        position = _HEAD_BYTES + length
        if length < 0 or position >= len(frame) or (is_flexible and frame[position]):
            header, position = read_request_header(frame)
            return header.client_id, position
        text = bytes(frame[_HEAD_BYTES:position])
        known = self._client_ids.get(text)
        if known is None:
            header, position = read_request_header(frame)
            assert header.client_id is not None
            if len(self._client_ids) < CLIENT_IDS_MAX and length <= CLIENT_ID_BYTES_MAX:
                self._client_ids[text] = header.client_id
            return header.client_id, position
        return known, position + is_flexible

    def _note_late(self, stats: ApiStats, began: float, _: asyncio.Future[Parts | None]) -> None:
        stats.seconds.note(self._monotonic() - began)

    def _not_served(self, api_key: int, version: int, correlation_id: int, peer: Peer) -> Answer:
        if api_key == ApiKey.API_VERSIONS:
            from tierlog.broker.handlers import api_versions

            call = Call(self._node, peer, api_key, 0, correlation_id, None)
            refusal = api_versions.refusal(call)
            return encode_response(refusal, 0, correlation_id=correlation_id)
        try:
            name = ApiKey(api_key).name
        except ValueError:
            name = f"API {api_key}"
        raise CloseConnection(f"{name} v{version} is not served here; ask ApiVersions for what is")


CLIENT_IDS_MAX = 1000
"""Remembered decoded client ids; beyond that they are decoded each time."""
CLIENT_ID_BYTES_MAX = 256
"""So are longer ones."""


def typed(handle: TypedHandler, api: ApiKey) -> RawHandler:
    """A raw handler around one that speaks in messages."""
    kind = request_type(api)
    is_async = inspect.iscoroutinefunction(handle)

    def answer(frame: memoryview, position: int, call: Call) -> Answer:
        request = decode_whole(
            kind, call.version, frame, position, elements_max=REQUEST_ELEMENTS_MAX
        )
        if is_async:
            work = _encoded_later(handle, request, call)
            return call.node.env.tasks.spawn(work, name=api.name)
        return _encoded(handle(request, call), call)

    return answer


def _encoded(response: Any, call: Call) -> Parts:
    return encode_response(response, call.version, correlation_id=call.correlation_id)


async def _encoded_later(handle: Any, request: Any, call: Call) -> Parts | None:
    # Called in here: a connection may be lost before the first step, and a coroutine that was made
    # and never awaited would be warned about.
    return _encoded(await handle(request, call), call)


def flexible_from(api: ApiKey) -> int:
    """The first version with a flexible header; none of an API may have one."""
    request = request_type(api)
    return next((one for one in request.versions if one in request.flexible), NEVER_FLEXIBLE)


def register(registry: Registry[RawHandler], module: Any) -> None:
    """Add a handler module: API, VERSIONS, and `answer` (raw) or `handle` (typed)."""
    first, last = module.VERSIONS
    raw = getattr(module, "answer", None)
    registry.register(
        module.API,
        raw if raw is not None else typed(module.handle, module.API),
        version_min=first,
        version_max=last,
    )
