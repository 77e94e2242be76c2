"""`tierlog produce`: a record a line, and a count at the end.

Lines are sent as they come, so a person typing sees each one arrive, and a file fills batches.
A line that cannot be read ends the command; what stood before it is sent all the same. A broker
that cannot take records now is asked again for a while, and the person hears of it at once.
"""

import errno
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tierlog.cli.failure import Refused, say, usage
from tierlog.cli.formats import NotInFormat
from tierlog.cli.input import InputSettings, ToSend
from tierlog.cli.progress import Progress, summary_of
from tierlog.cli.reader import LineReader
from tierlog.cli.session import DEADLINE_S, known_topic, with_client
from tierlog.client import BrokerError, Client, ClientError, Placed, Producer, ProducerSettings
from tierlog.client.values import TopicPartition
from tierlog.records.attributes import Codec

if TYPE_CHECKING:
    import asyncio

ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
CODECS = {codec.name.lower(): codec for codec in Codec}
STDIN = 0


class Tally:
    """What was written, by partition, and the first thing that went wrong."""

    def __init__(self, on_error: Callable[[], None]) -> None:
        self.offsets: dict[int, tuple[int, int]] = {}
        """First and last offset; -1 where the broker told none."""
        self.written = 0
        self.error: BaseException | None = None
        self._on_error = on_error

    def take(self, future: "asyncio.Future[Placed]") -> None:
        if future.cancelled():
            return
        if (error := future.exception()) is not None:
            self.error = self.error or error
            self._on_error()
            return
        self.written += 1
        place = future.result()
        first, last = self.offsets.get(place.partition, (place.offset, place.offset))
        self.offsets[place.partition] = (min(first, place.offset), max(last, place.offset))


class Trouble:
    """Says the first thing that is tried again, since the command is silent meanwhile."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._is_said = False

    def take(self, place: TopicPartition, error: ClientError) -> None:
        if self._is_said:
            return
        self._is_said = True
        self._progress.wipe()
        say(f"{place} takes no records now ({_words(error)}); trying for {DEADLINE_S:.0f} s")


def run_producer(
    bootstrap: str,
    topic: str,
    *,
    file: Path | None,
    reading: InputSettings,
    acks: str,
    compression: str,
    as_json: bool,
) -> None:
    settings = _settings(acks, compression)
    with_client(bootstrap, lambda client: _produce(client, topic, file, reading, settings, as_json))


def _settings(acks: str, compression: str) -> ProducerSettings:
    if acks not in ACKS:
        raise usage(f"--acks {acks} is none of: all, 1, 0")
    if compression not in CODECS:
        raise usage(f"--compression {compression} is none of: {', '.join(CODECS)}")
    number = ACKS[acks]
    return ProducerSettings(
        acks=number,
        idempotent=number == -1,
        codec=CODECS[compression],
        delivery_timeout_s=DEADLINE_S,
    )


async def _produce(
    client: Client,
    topic: str,
    file: Path | None,
    reading: InputSettings,
    settings: ProducerSettings,
    as_json: bool,
) -> None:
    present = {each.partition_index for each in (await known_topic(client, topic)).partitions}
    descriptor = STDIN if file is None else _opened(file)
    size = None if file is None else os.fstat(descriptor).st_size
    progress = Progress(sys.stderr, client.router.clock, draws=size is not None)
    reader = LineReader(descriptor)
    tally = Tally(reader.stop)
    unread: Refused | None = None
    trouble = Trouble(progress)
    async with Producer(client, settings, on_trouble=trouble.take) as producer:
        try:
            async for to_send in _read(reader, reading, topic, present):
                if tally.error is not None:
                    break
                (await _sent(producer, topic, to_send)).add_done_callback(tally.take)
                progress.records += 1
                progress.size_bytes += _size_of(to_send)
                progress.draw(reader.taken_bytes / size if size else None)
        except Refused as error:
            unread = error
        await producer.flush()
    progress.wipe()
    _finish(topic, tally, progress, as_json, unread)


def _opened(file: Path) -> int:
    if file.is_dir():  # It can be opened; only reading it would fail, without its name.
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    return os.open(file, os.O_RDONLY)


async def _read(
    reader: LineReader, reading: InputSettings, topic: str, present: set[int]
) -> AsyncIterator[ToSend]:
    """The input as records; refuses the first line that is none."""
    number = 0
    async for line in reader.lines():
        number += 1
        try:
            to_send = reading.parse(line)
            _check_partition(topic, to_send, present)
        except NotInFormat as error:
            raise Refused(f"line {number}: {error}") from None
        yield to_send


async def _sent(producer: Producer, topic: str, to_send: ToSend) -> "asyncio.Future[Placed]":
    record = to_send.record
    return await producer.send(
        topic,
        record.value,
        key=record.key,
        headers=record.headers,
        timestamp=record.timestamp,
        partition=to_send.partition,
    )


def _size_of(to_send: ToSend) -> int:
    return len(to_send.record.key or b"") + len(to_send.record.value or b"")


def _check_partition(topic: str, to_send: ToSend, present: set[int]) -> None:
    if to_send.partition is not None and to_send.partition not in present:
        raise NotInFormat(f"{topic} has no partition {to_send.partition}")


def _finish(
    topic: str, tally: Tally, progress: Progress, as_json: bool, unread: Refused | None
) -> None:
    """The count of what surely was written; then what went wrong, if anything."""
    if tally.error is not None:
        raise _refusal(topic, tally, tally.error)
    if as_json:
        typer.echo(json.dumps(_summary(topic, tally, progress)))
    else:
        typer.echo(f"wrote to {topic}{_where(tally)}: {summary_of(progress.done())}")
    if unread is not None:
        raise unread


def _summary(topic: str, tally: Tally, progress: Progress) -> dict[str, object]:
    return {
        "topic": topic,
        "records": progress.records,
        "bytes": progress.size_bytes,
        "partitions": [
            {"partition": partition, "first_offset": first, "last_offset": last}
            for partition, (first, last) in sorted(tally.offsets.items())
        ],
    }


def _where(tally: Tally) -> str:
    """The offsets, where there is one partition to speak of."""
    if len(tally.offsets) != 1:
        return ""
    ((partition, (first, last)),) = tally.offsets.items()
    if first < 0:
        return f", partition {partition}"
    offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
    return f", partition {partition}, {offsets}"


def _refusal(topic: str, tally: Tally, error: BaseException) -> BaseException:
    if not isinstance(error, ClientError):
        return error
    written = "1 was" if tally.written == 1 else f"{tally.written:,} were"
    return Refused(f"{topic} did not take a record: {_words(error)}; {written} written")


def _words(error: ClientError) -> str:
    return error.sentence if isinstance(error, BrokerError) else str(error)
