"""One Kafka node: its topics, its disk, its upkeep. Everything a handler may ask for.

`start` makes what the metastore says true and returns when the node can serve; `stop` writes the
clean marker. When the disk fails under it the node is `broken` and must be stopped: after a failed
fsync nothing that the page cache says can be believed.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tierlog.broker.catalogue import Catalogue
from tierlog.broker.compaction import cleaner_settings, compacted
from tierlog.broker.controller import Controller
from tierlog.broker.errors import RestoreUnfinished
from tierlog.broker.longpolls import LongPolls
from tierlog.broker.looplag import LoopLag
from tierlog.broker.producer_ids import ProducerIds
from tierlog.broker.registration import register
from tierlog.broker.searching import Searches
from tierlog.broker.space import Marks, Space
from tierlog.broker.stats import NodeStats
from tierlog.broker.tiering import Tiering, check_at_first_start
from tierlog.broker.upkeep import Upkeep
from tierlog.cold.restoreplan import has_content, is_unfinished
from tierlog.config import parse_address
from tierlog.config.directories import LOGS, META
from tierlog.hot import LogDirectory
from tierlog.hot.cleaner import Cleaner
from tierlog.hot.directory import FILES_MAX
from tierlog.metastore import Compare, LocalMetaStore, Put, values

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tierlog.broker.filling import Filling
    from tierlog.broker.request import Peer
    from tierlog.broker.topics import Topics
    from tierlog.config import NodeSettings
    from tierlog.env import Env
    from tierlog.fetchproxy.proxy import FetchProxy
    from tierlog.hot.errors import LogBroken
    from tierlog.metastore import MetaStore
    from tierlog.objectstore.port import ObjectStore
    from tierlog.wire.messages.api_versions import ApiVersion

logger = logging.getLogger(__name__)


class Node:
    def __init__(
        self,
        env: Env,
        settings: NodeSettings,
        metastore: MetaStore,
        directory: LogDirectory,
        *,
        data: str = "",
        store: ObjectStore | None = None,
    ) -> None:
        """`store` is where tiered topics go; without one they stay on the disk. `data` is the
        directory above the logs."""
        self.env = env
        self._data = data
        self._store = store
        self.tiering: Tiering | None = None
        self.proxy: FetchProxy | None = None
        """What reads from the bucket."""
        self.settings = settings
        self.now_ms = env.clock.now_ms
        self.metastore = metastore
        self.directory = directory
        self.node_id = settings.node_id
        self.cluster_id = ""
        self.services: dict[type, object] = {}
        """What rooms above this one look after, by their classes: their handlers find them here."""
        self.group_of: Callable[[str, str], str] = lambda _client_id, _host: ""
        """The consumer group that a client of this id, on this host, reads for; empty: none that is
        known."""
        self.stats = NodeStats()
        self.long_polls = LongPolls()
        self.searches = Searches(env)
        self.api_versions: list[ApiVersion] = []
        self.catalogue = Catalogue(metastore, directory, settings)
        self.producer_ids = ProducerIds(metastore)
        self.space = Space(
            env.disk,
            directory.path,
            marks(env, settings, directory.path),
            reserve_bytes=directory.reserve_bytes,
        )
        self.controller = Controller(
            metastore, self.catalogue, settings, rng=env.rng, space=self.space
        )
        self._upkeep = Upkeep(env, self.catalogue, self.space, settings)
        self.cleaner = Cleaner(
            env, directory, lambda: compacted(self.topics), cleaner_settings(settings)
        )
        self._loop_lag = LoopLag(env.clock, self.stats.loop_lag)
        directory.syncs.on_synced = self.stats.syncs.note
        self._advertised = (
            parse_address(settings.advertise, name="advertise", port_min=1)
            if settings.advertise
            else None
        )
        self._tasks: list[asyncio.Task[None]] = []
        self.broken: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(
        cls,
        env: Env,
        settings: NodeSettings,
        data: str,
        *,
        files_max: int = FILES_MAX,
        store: ObjectStore | None = None,
    ) -> Node:
        """A node on its data directory, whose logs keep so many files open. Raises
        `DirectoryInUse` if another process has it, `RestoreUnfinished` if it is half made,
        `ClusterInStore` if it is empty and the store is not."""
        node: list[Node] = []

        def on_broken(fault: LogBroken) -> None:
            for one in node:
                one.breaks(fault)

        if is_unfinished(env.disk, data):
            raise RestoreUnfinished(data)
        is_new = not (env.disk.exists(data) and has_content(env.disk, data))
        if is_new and store is not None and not settings.tierlog_new_cluster:
            # Before anything is made there: a restore takes the directory only while it is empty.
            await check_at_first_start(store)
        directory = LogDirectory(env, f"{data}/{LOGS}", files_max=files_max, on_broken=on_broken)
        try:
            metastore = await LocalMetaStore.open(env, f"{data}/{META}")
        except BaseException:
            directory.close()
            raise
        node.append(cls(env, settings, metastore, directory, data=data, store=store))
        return node[0]

    @property
    def topics(self) -> Topics:
        return self.catalogue.topics

    @property
    def filling(self) -> Filling:
        return self._upkeep.filling

    @property
    def hours_left(self) -> float:
        """Until producers are refused for want of room, at the present rate; infinity where the
        disk does not fill up."""
        room = self.space.free_bytes - self.space.refused_below
        return self.filling.hours_left(room, is_draining=self.is_draining)

    @property
    def is_draining(self) -> bool:
        """Whether what is sealed leaves for the store, as far as the store is concerned."""
        return self.tiering is not None and self.tiering.tier.is_draining

    def address_for(self, peer: Peer) -> tuple[str, int]:
        """Where clients are told to find this node: as advertised, else where this one did."""
        if self._advertised is not None:
            return self._advertised.host, self._advertised.port
        return peer.local_host, peer.local_port

    async def start(self) -> None:
        """Raises `InvalidConfig` if the settings do not go with what is there, `StoreLies` and
        `ClusterInStore` if the store does not."""
        await register(self.metastore, self.settings)
        cluster = await self._cluster()
        self.cluster_id = cluster.id
        if self._store is not None:
            await self._start_tiering(self._store, cluster)
        await self.catalogue.load()
        self._spawn(self.catalogue.follow(), "catalogue")
        self._spawn(self._upkeep.run(), "upkeep")
        self._spawn(self.cleaner.run(), "cleaner")
        self._loop_lag.start()

    async def _start_tiering(self, store: ObjectStore, cluster: values.ClusterState) -> None:
        tiering = Tiering(
            self.env,
            store,
            self.settings,
            self._data,
            cluster=cluster,
            on_founded=self._note_founded,
            on_foreign=self.space.fence,
            config_of=self.controller.config_of,
        )
        self.tiering, self.proxy = tiering, tiering.proxy
        self.catalogue.use(tiering)
        await tiering.start()

    async def _note_founded(self) -> None:
        """From now on a store without this cluster is a wrong one."""
        known = await self.metastore.get(values.CLUSTER)
        assert known is not None, "made before the store was asked"
        cluster = values.ClusterState.from_bytes(known.value)
        if not cluster.in_store:
            value = replace(cluster, in_store=True).to_bytes()
            await self.metastore.txn(
                [Compare(values.CLUSTER, known.revision)], [Put(values.CLUSTER, value)]
            )

    async def _cluster(self) -> values.ClusterState:
        """Made once, at the first start."""
        while (known := await self.metastore.get(values.CLUSTER)) is None:
            made = values.cluster_id_text(self.env.rng.uuid().bytes)
            first = values.ClusterState.first(made)
            await self.metastore.txn(
                [Compare(values.CLUSTER, 0)], [Put(values.CLUSTER, first.to_bytes())]
            )
        return values.ClusterState.from_bytes(known.value)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self.env.tasks.spawn(work, name=name)
        task.add_done_callback(self._task_ended)
        self._tasks.append(task)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.breaks(fault)

    def breaks(self, fault: BaseException) -> None:
        """Nothing more can be promised: whoever runs the node stops it."""
        if not self.broken.done():
            logger.critical("the node stops: %s", fault)
            self.broken.set_result(fault)

    async def stop(self) -> None:
        """Sync, mark the logs clean, let go of everything. What can be closed is closed."""
        self._loop_lag.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            if self.tiering is not None:
                await self.tiering.stop()
            await self.catalogue.close()
        finally:
            await self.metastore.close()
            self.directory.close()


def marks(env: Env, settings: NodeSettings, path: str) -> Marks:
    """The disk watermarks, for the size that the disk has now."""
    total = env.disk.total_bytes(path)
    return Marks(
        throttle_bytes=settings.disk_throttle_below(total),
        refuse_bytes=settings.disk_refuse_below(total),
    )
