"""Deliberate faults in the broker, to prove that the simulated world can find them.

The same game as in `bugs.py`, one floor up: each is what a tired engineer might write.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import md5
from typing import Any
from unittest.mock import patch

from tests.metastore.planted import acknowledged_before_fdatasync
from tests.planted.bugs import Bug
from tests.simulation.broker import broker
from tierlog.broker.catalogue import Both, Catalogue, Wanted
from tierlog.broker.handlers import fetch, produce
from tierlog.broker.node import Node
from tierlog.broker.replies import Replies, _parts_of
from tierlog.hot import Log
from tierlog.hot.producers import Producers
from tierlog.metastore.values import PartitionState
from tierlog.records.batch import parse_header
from tierlog.sim.world import simulate
from tierlog.types import Offset


def hunt_broker(seed: int) -> str | None:
    """What the clients of a simulated broker have to complain about, if anything."""
    try:
        simulate(broker, seed=seed)
    except AssertionError as failure:
        return str(failure).splitlines()[0]
    return None


def acked_before_durable() -> AbstractContextManager[object]:
    """acks=all is answered as soon as the batch is written."""
    return patch.object(produce, "must_wait", lambda log, end: False)


@contextmanager
def duplicate_answered_at_once() -> Iterator[None]:
    """A repeated batch has been written, so why wait: but its first copy may not be durable."""
    append, must_wait = Log.append, produce.must_wait
    is_duplicate = False

    def noting(self: Log, *args: Any, **options: Any) -> Any:
        nonlocal is_duplicate
        appended = append(self, *args, **options)
        is_duplicate = appended.is_duplicate
        return appended

    def hasty(log: Log, end: Offset) -> Any:
        return False if is_duplicate else must_wait(log, end)

    with patch.object(Log, "append", noting), patch.object(produce, "must_wait", hasty):
        yield


@contextmanager
def duplicate_written_again() -> Iterator[None]:
    """The sequence numbers are compared, and the answer is thrown away."""
    check = Producers.check

    def forgetful(self: Producers, header: Any) -> None:
        check(self, header)

    with patch.object(Producers, "check", forgetful):
        yield


class Ahead:
    """A log whose high watermark is its end; or the partition that has it."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        if name == "log":
            return Ahead(self._of.log)
        return getattr(self._of, "log_end" if name == "visible_end" else name)


@contextmanager
def served_above_the_high_watermark() -> Iterator[None]:
    """Consumers are shown what is written, not what is durable."""
    read = fetch.PendingFetch._read_log

    def eager(self: fetch.PendingFetch, partition: Any, key: Any, ask: Any) -> Any:
        return read(self, Ahead(partition), key, ask)  # type: ignore[arg-type]  # looks like one

    with patch.object(fetch.PendingFetch, "_read_log", eager):
        yield


@contextmanager
def first_batch_skipped() -> Iterator[None]:
    """A fetch begins at the first batch that starts at or behind its offset."""
    view = Log.view

    def skipping(self: Log, offset: Offset, **limits: Any) -> Any:
        data = memoryview(view(self, offset, **limits))
        if not len(data):
            return data
        header = parse_header(data)
        return data if header.base_offset >= offset else data[header.size_bytes :]

    with patch.object(Log, "view", skipping):
        yield


@contextmanager
def replies_as_they_come() -> Iterator[None]:
    """Whatever is ready leaves, also ahead of older requests."""

    def ready(self: Replies) -> Iterator[Any]:
        for slot in [each for each in self._slots if each.is_ready]:
            self._slots.remove(slot)
            self.held -= slot.held
            slot.forget()
            if parts := _parts_of(slot.answer):
                yield parts

    with patch.object(Replies, "ready", ready):
        yield


def producers_forgotten() -> AbstractContextManager[object]:
    """Nobody tells a new process what producers had written."""
    return patch("tierlog.hot.recovery.load_producers", lambda *args, **kwargs: Producers())


@contextmanager
def logs_by_name() -> Iterator[None]:
    """A partition's directory is called after its topic, which may be made again."""

    async def by_name(self: Catalogue, wanted: Wanted, _count: int) -> Both:
        topic = self._known(wanted[0])
        assert topic is not None
        name = f"{md5(topic.name_bytes).hexdigest()}-{wanted[1]}"
        return Both(await self._directory.open_log(name, self._log_settings(topic)), None)

    with patch.object(Catalogue, "_open", by_name):
        yield


def leader_epoch_kept() -> AbstractContextManager[object]:
    """A new process goes on under the leader epoch of the last one."""

    def same(self: Catalogue, entry: Any) -> bytes:
        return PartitionState.from_bytes(entry.value).to_bytes()

    return patch.object(Catalogue, "_claimed", same)


@contextmanager
def frame_used_too_late() -> Iterator[None]:
    """A produce request is handled a moment later, when its buffer may be in use again."""

    def later(answer: Callable[..., Any]) -> Callable[..., Any]:
        async def work(args: tuple[Any, ...]) -> Any:
            await asyncio.sleep(0.001)
            result = answer(*args)
            return await result if isinstance(result, asyncio.Future) else result

        return lambda *args: asyncio.ensure_future(work(args))

    with (
        patch.object(produce, "answer", later(produce.answer)),
        patch.object(produce, "answer_alike", later(produce.answer_alike)),
    ):
        yield


def failed_disk_ignored() -> AbstractContextManager[object]:
    """The node hears that its disk failed, and stays."""
    return patch.object(Node, "breaks", lambda self, fault: None)


@contextmanager
def trimmed_to_the_next_segment() -> Iterator[None]:
    """DeleteRecords moves the log start up to where a segment begins."""
    trim = Log.trim

    def generous(self: Log, start: Offset) -> None:
        bases = [each.base_offset for each in self.segments if each.base_offset >= start]
        trim(self, min([*bases, self.visible_end], default=start))

    with patch.object(Log, "trim", generous):
        yield


TRIES = 30
"""A change anywhere in the broker shifts every schedule: the pinned seed is where to begin."""


def bug(name: str, plant: Callable[[], Any], seed: int) -> Bug:
    return Bug(name, plant, hunt_broker, seed, tries=TRIES)


BROKER_BUGS = (
    bug("acknowledge acks=all before it is durable", acked_before_durable, 0),
    bug("answer a duplicate before it is durable", duplicate_answered_at_once, 39),
    bug("write a duplicate again", duplicate_written_again, 2),
    bug("serve above the high watermark", served_above_the_high_watermark, 2),
    bug("skip the batch that holds the offset", first_batch_skipped, 0),
    bug("reply as answers come", replies_as_they_come, 0),
    bug("forget producers at a restart", producers_forgotten, 5),
    bug("name logs after topics", logs_by_name, 37),
    bug("keep the leader epoch at a restart", leader_epoch_kept, 1),
    bug("make topics before they are durable", acknowledged_before_fdatasync, 4),
    bug("use a frame after its buffer", frame_used_too_late, 0),
    bug("stay up on a failed disk", failed_disk_ignored, 5),
    bug("trim to the next segment", trimmed_to_the_next_segment, 0),
)
