"""The composition root: the one place that turns settings into a running node.

`serve` runs until it is told to stop (SIGTERM, SIGINT) or the disk fails: then it drains what is in
flight, syncs, writes the clean marker and returns, or raises what broke it. It neither seals nor
uploads on the way out.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

from prometheus_client import ProcessCollector

from tierlog.broker.dispatch import Dispatcher
from tierlog.broker.fileshares import FileShares, files_wanted, share_files
from tierlog.broker.handlers import registry
from tierlog.broker.limits import ConnectionLimits
from tierlog.broker.listener import Listener
from tierlog.broker.node import Node
from tierlog.cold import orphanreport
from tierlog.cold.auditor import Auditor
from tierlog.cold.auditstate import AuditState
from tierlog.cold.layout import cluster_prefix, is_data
from tierlog.cold.localcopy import LocalCopies
from tierlog.cold.restore import only_cluster
from tierlog.cold.restore import restore as restore_data
from tierlog.config import parse_address
from tierlog.config.directories import COLD
from tierlog.env import LocalTasks, local_env, raise_files_max
from tierlog.groups.handlers import add_to as add_groups
from tierlog.groups.lagwatch import LagWatch
from tierlog.groups.offsetscopy import copy_offsets
from tierlog.groups.placing import place_offsets
from tierlog.groups.service import GroupCoordinator
from tierlog.http import HttpServer, NodeView, Phase, node_router
from tierlog.objectstore.counted import Counted
from tierlog.objectstore.limited import Limited
from tierlog.objectstore.retrying import Retrying
from tierlog.objectstore.url import open_store
from tierlog.table.audit import TableAuditor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tierlog.broker.dispatch import RawHandler
    from tierlog.cold.audit import AuditReport, PartitionAudit
    from tierlog.cold.orphanreport import OrphanReport
    from tierlog.cold.report import Report
    from tierlog.config import NodeSettings
    from tierlog.env import Clock, Env
    from tierlog.objectstore.counted import StoreStats
    from tierlog.objectstore.port import ObjectStore
    from tierlog.wire.registry import Registry

logger = logging.getLogger(__name__)

REPEATS_S = 1.0
"""Signals that follow the first one within this time are the same wish: `timeout`, for one, tells
the process and then its whole group."""

SWITCH_S = 0.0005
"""How long a thread that wants the interpreter waits until a busy loop must let go of it. Python's
own 5 ms are felt: a sync thread asks four times between an append and the sight of it. At less than
this, large fetches were seen to pay for the switches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Where a node can be reached, once it can."""

    kafka: tuple[str, int]
    http: tuple[str, int] | None
    node_id: int
    store: str

    def line(self) -> str:
        """What `tierlog serve` prints for scripts to wait for."""
        http = "off" if self.http is None else address(self.http)
        kafka = address(self.kafka)
        return f"tierlog ready kafka={kafka} http={http} node={self.node_id} store={self.store}"


class NodeFailed(Exception):
    """The node had to stop; the cause says why."""


class Server:
    """A node with its listeners. Also what tests run in their own process.

    It opens no more than `files_max` files, if there is such a limit."""

    def __init__(self, env: Env, settings: NodeSettings, *, files_max: int | None = None) -> None:
        self._env = env
        self._settings = settings
        wanted = settings.max_connections
        self._files = share_files(
            files_wanted(connections_max=wanted) if files_max is None else files_max,
            connections_max=wanted,
        )
        self.node: Node
        self.listener: Listener
        self.view: NodeView
        self.http: HttpServer | None = None
        self._groups: GroupCoordinator | None = None
        self._lag: LagWatch | None = None
        self.store: ObjectStore | None = None
        self._store_stats: StoreStats | None = None

    async def start(self) -> Ready:
        settings = self._settings
        store = self._open_store()
        try:
            self.node = node = await Node.open(
                self._env, settings, settings.data, files_max=self._files.logs, store=store
            )
        except BaseException:
            await self._close_store()
            raise
        self.view = view = NodeView(node, version=_own_version())
        view.store, view.store_stats = settings.store, self._store_stats
        if isinstance(store, Retrying):
            view.retry_quota = store.quota
        try:
            http = await self._start_http()
            await node.start()
            self._groups = groups = GroupCoordinator(node)
            node.services[GroupCoordinator] = groups
            groups.start()
            copy_offsets(node, groups)
            self._lag = node.services[LagWatch] = LagWatch(node, groups)
            self._lag.start()
            table = served_apis()
            node.api_versions = table.api_versions()
            self.listener = view.listener = Listener(
                Dispatcher(node, table),
                self._env,
                connection_limits(settings, self._files),
                close_idle_files=node.directory.pool.close_idle,
                finish_waiting=node.long_polls.finish_all,
            )
            listen = parse_address(settings.listen, name="listen")
            kafka = await self.listener.start(listen.host, listen.port)
        except BaseException:
            await self._stop_http()
            await self._stop_groups()
            await node.stop()
            await self._close_store()
            raise
        self._files.warn_if_short()
        view.addresses["kafka"] = address(kafka)
        view.phase = Phase.SERVING
        return Ready(kafka=kafka, http=http, node_id=settings.node_id, store=settings.store)

    async def stop(self) -> None:
        """Drain, sync, mark clean. What can be stopped is stopped."""
        self.view.phase = Phase.DRAINING
        try:
            await self.listener.drain(self._settings.tierlog_drain_timeout_ms / 1000)
        finally:
            try:
                await self._stop_groups()
                await self.node.stop()
            finally:
                await self._stop_http()
                await self._close_store()
                self._env.senders.close()
                if isinstance(self._env.tasks, LocalTasks):
                    # What a worker still does is nobody's any more; waiting could take minutes.
                    self._env.tasks.end_workers()

    def _open_store(self) -> ObjectStore | None:
        """As settings say; counted, and patient with a store that hesitates."""
        if not self._settings.store:
            return None
        self.store, self._store_stats = node_store(self._env, self._settings)
        return self.store

    async def _close_store(self) -> None:
        if self.store is not None:
            await self.store.close()

    async def _start_http(self) -> tuple[str, int] | None:
        """First of all: whoever waits for the node can see how far it is."""
        wanted = self._settings.http_address
        if wanted is None:
            return None
        router = node_router(self.view, collectors=[ProcessCollector(registry=None)])
        self.http = HttpServer(router, self._env)
        bound = await self.http.start(wanted.host, wanted.port)
        self.view.addresses["http"] = address(bound)
        return bound

    async def _stop_groups(self) -> None:
        if self._lag is not None:
            await self._lag.stop()
        if self._groups is not None:
            await self._groups.stop()

    async def _stop_http(self) -> None:
        if self.http is not None:
            await self.http.close()


def served_apis() -> Registry[RawHandler]:
    """Every API that a node serves, from all rooms: ApiVersions and the README tell these."""
    table = registry()
    add_groups(table)
    return table


def node_store(env: Env, settings: NodeSettings) -> tuple[ObjectStore, StoreStats]:
    """As settings say, and what it is asked for. Each try counts; waiting for the rate does not."""
    counted = Counted(open_store(env, settings.store, settings), env.clock)
    rate = settings.remote_log_manager_copy_max_bytes_per_second
    limited = Limited(counted, env.clock, put_bytes_per_second=rate, is_bulk=is_data)
    return Retrying(limited, env), counted.stats


async def restore(settings: NodeSettings, *, cluster_id: str | None) -> Report:
    """Prepare the data directory of `settings` from its store alone."""
    env = local_env()
    store, _ = node_store(env, settings)
    try:
        return await restore_data(
            env,
            store,
            settings.data,
            cluster_id=cluster_id,
            node_id=settings.node_id,
            place_offsets=partial(place_offsets, env),
        )
    finally:
        await store.close()


async def find_orphans(settings: NodeSettings, *, cluster_id: str | None) -> OrphanReport:
    """What the store of `settings` has and nobody refers to. Changes nothing."""
    env = local_env()
    store, _ = node_store(env, settings)
    try:
        chosen = cluster_id or await only_cluster(store)
        return await orphanreport.report(
            store, cluster_prefix("", chosen), now_ms=env.clock.now_ms()
        )
    finally:
        await store.close()


class Watching(Protocol):
    """Who is told how far a verification is."""

    def begin(self, clock: Clock) -> None: ...
    def total(self, count: int) -> None: ...
    def bytes(self, count: int) -> None: ...
    def partition(self, audit: PartitionAudit) -> None: ...


async def verify(
    settings: NodeSettings,
    *,
    cluster_id: str | None,
    topics: Sequence[str],
    is_deep: bool,
    bytes_per_second: float | None,
    state_path: str | None,
    has_copies: bool,
    screen: Watching,
) -> AuditReport:
    """Audit the store of `settings`; with `has_copies` against the HEADs that its data directory
    has, too."""
    env = local_env()
    store, stats = node_store(env, settings)
    screen.begin(env.clock)
    try:
        cluster = cluster_id or await only_cluster(store)
        state = None
        if state_path is not None:
            state = AuditState(env.disk, state_path, cluster_id=cluster)
            state.open()
        auditor = Auditor(
            env,
            store,
            cluster_id=cluster,
            is_deep=is_deep,
            bytes_per_second=bytes_per_second,
            copies=LocalCopies(env, f"{settings.data}/{COLD}") if has_copies else None,
            state=state,
            tables=TableAuditor(store, env.tasks),
            on_total=screen.total,
            on_bytes=screen.bytes,
            on_partition=screen.partition,
        )
        report = await auditor.run(topics)
        if state is not None:
            state.finish()
            state.close()
    finally:
        await store.close()
    return replace(report, requests={kind: one.requests for kind, one in stats.kinds.items()})


def connection_limits(settings: NodeSettings, files: FileShares) -> ConnectionLimits:
    return ConnectionLimits(
        produce_bytes_max=settings.socket_request_max_bytes,
        in_flight_bytes_max=settings.tierlog_connection_inflight_max_bytes,
        node_bytes_max=settings.queued_max_request_bytes,
        connections_max=files.connections,
        connections_per_ip_max=settings.max_connections_per_ip,
        handshake_s=settings.tierlog_handshake_timeout_ms / 1000,
        idle_s=settings.connections_max_idle_ms / 1000,
    )


async def serve(
    settings: NodeSettings, *, on_ready: Callable[[Ready], None], env: Env | None = None
) -> None:
    """Serve until told to stop. `on_ready` hears the bound addresses."""
    with prompt_threads():
        await _serve(settings, on_ready, env)


@contextmanager
def prompt_threads() -> Iterator[None]:
    """Meanwhile threads get the interpreter soon, all over the process."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


async def _serve(
    settings: NodeSettings, on_ready: Callable[[Ready], None], env: Env | None
) -> None:
    stopping = stop_signal()
    files_max = raise_files_max(files_wanted(connections_max=settings.max_connections))
    server = Server(env or local_env(), settings, files_max=files_max)
    starting = asyncio.ensure_future(server.start())
    either: tuple[asyncio.Future[Any], ...] = (starting, stopping)
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        logger.info("stopping before the start was done")
        starting.cancel()
        await asyncio.wait({starting})  # It lets go of what it has opened.
        if starting.cancelled():
            return
    ready = starting.result()
    # What stands now stays: the collector need not walk over it while requests wait.
    gc.collect()
    gc.freeze()
    on_ready(ready)
    broken = server.node.broken
    broken.add_done_callback(lambda _: _tell(stopping))
    await stopping
    logger.info("stopping: requests in flight are answered, the logs synced")
    await server.stop()
    if broken.done():
        raise NodeFailed(str(broken.result())) from broken.result()


def stop_signal() -> asyncio.Future[None]:
    """Done at SIGTERM or SIGINT.

    Supervisors may repeat SIGTERM, and have SIGKILL when they lose patience: more of it changes
    nothing. A person at a terminal has Ctrl-C: a later SIGINT ends the process at once, as usual.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not told.done():
            loop.call_later(REPEATS_S, loop.remove_signal_handler, signal.SIGINT)
        _tell(told)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, tell)
    return told


def _tell(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)


@cache
def _own_version() -> str:
    """As it was installed: read from files, once for all nodes of a process."""
    return version("tierlog")


def address(pair: tuple[str, int]) -> str:
    host, port = pair
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
