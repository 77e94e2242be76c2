"""A broker that exists to listen: it answers real clients with our codecs and keeps every frame.

Everything a client sends is decoded by `tierlog.wire`, answered from `World`, and kept as an
`Exchange`. What our codecs cannot read, or any other failure, becomes a `fault` and ends that
connection; a test that drives a client asserts that there were none.

Requests of one connection are handled one after the other, so answers keep their order. A fetch
without data waits for some, as long as it allowed. `Recording` runs the recorder on a thread of its
own, for clients that block.
"""

import asyncio
import contextlib
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.compat import admin_answers as admin
from tests.compat import data_answers as data
from tests.compat import group_answers as groups
from tests.compat.world import World
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.framing import SIZE_BYTES, frame_size
from tierlog.wire.header import (
    RequestHeader,
    decode_request,
    encode_response,
)
from tierlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.wire.messages.fetch import FetchRequest
from tierlog.wire.messages.produce import ProduceRequest
from tierlog.wire.registry import Registry
from tierlog.wire.schema import Request, Response

Handler = Callable[[World, Any, int], Response | None]

START_SECONDS_MAX = 10.0

HANDLERS: Mapping[ApiKey, Handler] = {
    ApiKey.PRODUCE: data.produce,
    ApiKey.FETCH: data.fetch,
    ApiKey.LIST_OFFSETS: data.list_offsets,
    ApiKey.METADATA: data.metadata,
    ApiKey.INIT_PRODUCER_ID: data.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: data.add_partitions_to_txn,
    ApiKey.END_TXN: data.end_txn,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: groups.join_group,
    ApiKey.SYNC_GROUP: groups.sync_group,
    ApiKey.HEARTBEAT: groups.heartbeat,
    ApiKey.LEAVE_GROUP: groups.leave_group,
    ApiKey.OFFSET_COMMIT: groups.offset_commit,
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.ADD_OFFSETS_TO_TXN: groups.add_offsets_to_txn,
    ApiKey.TXN_OFFSET_COMMIT: groups.txn_offset_commit,
    ApiKey.CREATE_TOPICS: admin.create_topics,
    ApiKey.DELETE_TOPICS: admin.delete_topics,
    ApiKey.CREATE_PARTITIONS: admin.create_partitions,
    ApiKey.DESCRIBE_CONFIGS: admin.describe_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: admin.incremental_alter_configs,
    ApiKey.DESCRIBE_CLUSTER: admin.describe_cluster,
    ApiKey.LIST_GROUPS: admin.list_groups,
    ApiKey.DESCRIBE_GROUPS: admin.describe_groups,
    ApiKey.DELETE_GROUPS: admin.delete_groups,
}

CEILINGS: Mapping[ApiKey, int] = {
    # v4 and v5 are spoken between brokers and by KIP-890 producers, which the recorder is not for.
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
}
"""Highest version offered, where it is not the highest we can read."""


CLASSIC: Mapping[ApiKey, int] = {
    api: min(
        request_type(api).flexible.first - 1, CEILINGS.get(api, request_type(api).versions.last)
    )
    for api in (*HANDLERS, ApiKey.API_VERSIONS)
}
"""An older broker: no flexible version. APIs that have no other are not offered at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its answer, without size prefix; no answer to acks=0."""

    api: ApiKey
    version: int
    request: bytes
    response: bytes | None


class Recorder:
    """The broker itself, for use inside a running loop."""

    def __init__(self, *, ceilings: Mapping[ApiKey, int] = CEILINGS) -> None:
        self.world = World()
        self.exchanges: list[Exchange] = []
        self.faults: list[str] = []
        self._registry = _registry(ceilings)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, self.world.host, 0)
        self.world.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the recorder stops
        except Exception as fault:  # noqa: BLE001 - whatever it is, the test must see it
            self._complain(f"{type(fault).__name__}: {fault}")
        finally:
            self._connections.discard(task)
            writer.close()

    def _complain(self, fault: str) -> None:
        if fault not in self.faults:  # clients try again and again
            self.faults.append(fault)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = frame_size(await reader.readexactly(SIZE_BYTES))
            frame = await reader.readexactly(size)
            answer = await self._answer(frame)
            if answer is not None:
                writer.write(answer)
                await writer.drain()

    async def _answer(self, frame: bytes) -> bytes | None:
        """The answer with its size prefix; keeps both frames."""
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
        row = self._registry.find(api_key, version)
        if row is None:
            return self._refuse(api_key, version, correlation_id)
        header, request = decode_request(frame)
        response = await self._respond(request, header, row.handler)
        answer = None if response is None else _encoded(response, header)
        self._keep(header, frame, answer)
        return answer

    async def _respond(
        self, request: Request, header: RequestHeader, handler: Handler
    ) -> Response | None:
        if isinstance(request, FetchRequest):
            await self._wait_for_data(request)
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(error_code=0, api_keys=self._registry.api_versions())
        response = handler(self.world, request, header.api_version)
        if isinstance(request, ProduceRequest):
            async with self.world.appended:
                self.world.appended.notify_all()
        return response

    async def _wait_for_data(self, request: FetchRequest) -> None:
        """The long poll: until somebody appends, or the client's patience ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.max_wait_ms / 1000), self.world.appended:
                await self.world.appended.wait_for(lambda: data.has_data(self.world, request))

    def _refuse(self, api_key: int, version: int, correlation_id: int) -> bytes:
        """ApiVersions beyond us is answered in v0, with what we do speak; all else is a fault."""
        if api_key != ApiKey.API_VERSIONS:
            raise LookupError(f"API {api_key} v{version} is not offered")
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._registry.api_versions()
        )
        return b"".join(encode_response(response, 0, correlation_id=correlation_id))

    def _keep(self, header: RequestHeader, frame: bytes, answer: bytes | None) -> None:
        self.exchanges.append(
            Exchange(
                api=ApiKey(header.api_key),
                version=header.api_version,
                request=frame,
                response=None if answer is None else answer[SIZE_BYTES:],
            )
        )


def _registry(ceilings: Mapping[ApiKey, int]) -> Registry[Handler]:
    registry: Registry[Handler] = Registry()
    for api, handler in {**HANDLERS, ApiKey.API_VERSIONS: _api_versions}.items():
        ceiling = ceilings.get(api)
        if ceiling is None or ceiling >= request_type(api).versions.first:
            registry.register(api, handler, version_max=ceiling)
    return registry


def _api_versions(world: World, request: Any, version: int) -> Response:
    raise AssertionError("answered by the recorder itself, which knows the table")


def _encoded(response: Response, header: RequestHeader) -> bytes:
    parts = encode_response(response, header.api_version, correlation_id=header.correlation_id)
    return b"".join(parts)


@contextlib.contextmanager
def recording(*, ceilings: Mapping[ApiKey, int] = CEILINGS) -> Iterator[Recorder]:
    """A recorder on a thread of its own, stopped at the end of the block."""
    recorder = Recorder(ceilings=ceilings)
    started = threading.Event()
    stop: list[Callable[[], object]] = []

    async def live() -> None:
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(ending.set))
        await recorder.start()
        started.set()
        await ending.wait()
        await recorder.stop()

    thread = threading.Thread(target=lambda: asyncio.run(live()), name="recorder")
    thread.start()
    assert started.wait(START_SECONDS_MAX), "the recorder did not start"
    try:
        yield recorder
    finally:
        stop[0]()
        thread.join()
