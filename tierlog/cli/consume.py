"""`tierlog consume`: the records of a span, a line each."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from tierlog.cli.failure import Refused, say
from tierlog.cli.lines import LineSettings, line_of
from tierlog.cli.progress import Progress, summary_of
from tierlog.cli.session import known_topic, with_client
from tierlog.cli.span import Span, SpanSettings, first_offset, share_done
from tierlog.client import EARLIEST, LATEST, BrokerError, Client, ClientError, Fetched
from tierlog.client.values import TopicPartition
from tierlog.env import SystemClock
from tierlog.records.batch import iter_batches, validate_stored
from tierlog.records.record import Record, decode_records
from tierlog.types import Bytes
from tierlog.wire.error_codes import ErrorCode

SILENT_S_MAX = 3.0
"""Errors that pass within this need no words."""


def run_consumer(
    bootstrap: str,
    topic: str,
    *,
    span: SpanSettings,
    lines: LineSettings,
    partitions: Sequence[int] | None,
    count: int | None,
) -> None:
    since, until = span.times(SystemClock().now_ms())

    async def work(client: Client) -> None:
        spans = await _spans(client, topic, partitions, span, since)
        reading = Reading(client, topic, spans, lines, since=since, until=until, count=count)
        await reading.run()

    # Ctrl-C is the way to end -f, and what was read was printed.
    with suppress(KeyboardInterrupt):
        with_client(bootstrap, work)


async def _spans(
    client: Client,
    topic: str,
    partitions: Sequence[int] | None,
    asked: SpanSettings,
    since: int | None,
) -> dict[int, Span]:
    """What to read of each partition, from the offsets as they are now."""
    chosen = await chosen_partitions(client, topic, partitions)
    starts = await listed(client, topic, chosen, EARLIEST)
    ends = await listed(client, topic, chosen, LATEST)
    firsts = {
        each: first_offset(asked.offset, log_start=starts[each], log_end=ends[each])
        for each in chosen
    }
    if since is not None:
        firsts = await listed(client, topic, chosen, since, instead=ends)
    _say_if_outside(asked, starts, ends)
    return {
        each: Span(
            min(firsts[each], ends[each]), None if asked.follow else ends[each], firsts[each]
        )
        for each in chosen
    }


async def chosen_partitions(
    client: Client, topic: str, partitions: Sequence[int] | None
) -> list[int]:
    """Those that were asked for, or all; refused if the topic has not got one of them."""
    present = {each.partition_index for each in (await known_topic(client, topic)).partitions}
    chosen = sorted(present if partitions is None else set(partitions))
    if missing := sorted(set(chosen) - present):
        raise Refused(f"{topic} has no partition {missing[0]}; it has 0 to {len(present) - 1}")
    return chosen


async def listed(
    client: Client,
    topic: str,
    partitions: Sequence[int],
    timestamp: int,
    *,
    instead: dict[int, int] | None = None,
) -> dict[int, int]:
    """Offsets at a time; `instead` where no record is that late."""
    found = await client.list_offsets(topic, dict.fromkeys(partitions, timestamp))
    late = instead or {}
    return {
        each: place.offset if place.offset >= 0 else late.get(each, 0)
        for each, place in found.items()
    }


def _say_if_outside(asked: SpanSettings, starts: dict[int, int], ends: dict[int, int]) -> None:
    if not asked.offset.isdigit():
        return
    for partition, start in starts.items():
        if int(asked.offset) < start:
            say(f"partition {partition} begins at offset {start} by now")
        elif int(asked.offset) > ends[partition]:
            then = f"; waiting for offset {asked.offset}" if asked.follow else ""
            say(f"partition {partition} ends at offset {ends[partition]}{then}")


class Reading:
    """One run: fetches all partitions that are not done, prints, and knows when to end."""

    def __init__(
        self,
        client: Client,
        topic: str,
        spans: dict[int, Span],
        lines: LineSettings,
        *,
        since: int | None,
        until: int | None,
        count: int | None,
    ) -> None:
        self._client = client
        self._topic = topic
        self._spans = spans
        self._lines = lines
        self._since = since
        self._until = until
        self._left = count
        self._terminal = sys.stdout.isatty()
        self._waiting_since_s: float | None = None
        self._has_said = False
        follows = any(span.end is None for span in spans.values())
        self._progress = Progress(sys.stderr, client.router.clock, draws=not follows)

    async def run(self) -> None:
        try:
            await self._read()
        finally:
            self._progress.wipe()
            if sys.stderr.isatty():
                say(summary_of(self._progress.done()))

    async def _read(self) -> None:
        retry = self._client.router.retry()
        while self._left != 0 and (open_spans := self._open()):
            try:
                await self._round(open_spans)
            except ClientError as error:
                if not error.retriable:
                    raise
                self._client.router.note(error, self._topic)
                self._say_if_long(error)
                await retry.pause(error)
            else:
                retry = self._client.router.retry()
                self._waiting_since_s, self._has_said = None, False

    def _say_if_long(self, error: ClientError) -> None:
        """Once, while nothing but errors that may pass come back: what is being waited for."""
        now_s = self._client.router.clock.monotonic()
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        if now_s - self._waiting_since_s >= SILENT_S_MAX and not self._has_said:
            self._has_said = True
            self._progress.wipe()
            say(f"still trying, the last answer was {error}")

    def _open(self) -> dict[int, Span]:
        return {each: span for each, span in self._spans.items() if not span.is_done}

    async def _round(self, spans: dict[int, Span]) -> None:
        """One fetch from every leader."""
        info = await self._client.topic(self._topic)
        led: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for partition, span in spans.items():
            leader = info.leader_of(partition).leader
            led[leader][TopicPartition(self._topic, partition)] = span.at
        answers = await asyncio.gather(*(self._client.fetch_many(each) for each in led.values()))
        errors: list[BrokerError] = []
        for answer in answers:
            for place, fetched in answer.items():
                if self._left != 0 and (error := self._take(place.partition, fetched)) is not None:
                    errors.append(error)
        self._progress.draw(share_done(list(self._spans.values())))
        if errors and self._left != 0:  # After the records of the others, which have no fault.
            raise min(errors, key=lambda error: error.retriable)

    def _take(self, partition: int, fetched: Fetched) -> BrokerError | None:
        span = self._spans[partition]
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE and span.at < fetched.log_start:
            say(f"partition {partition} begins at offset {fetched.log_start} by now")
            span.at = fetched.log_start
            return None
        if fetched.error is ErrorCode.CORRUPT_MESSAGE:
            # Kafka calls it retriable; the broker has tried again, and damage does not heal.
            raise Refused(
                f"the records of {self._topic}-{partition} at offset {span.at} are damaged "
                "(CORRUPT_MESSAGE); the broker's log says where and why, --offset reads on behind "
                "them"
            )
        if fetched.error:
            return BrokerError(fetched.error, _where(self._topic, partition, span, fetched.error))
        self._print(partition, span, fetched.batches)
        return None

    def _print(self, partition: int, span: Span, batches: Bytes) -> None:
        """Every record of the span, and the span moved behind what was seen."""
        out = []
        for next_offset, record in _records(batches):
            if record is not None and self._is_wanted(span, record):
                out.append(self._line(partition, record))
                self._progress.size_bytes += len(record.key or b"") + len(record.value or b"")
                if self._left is not None:
                    self._left -= 1
            span.at = max(span.at, next_offset)
            if self._left == 0:
                break
        self._write(out)

    def _is_wanted(self, span: Span, record: Record) -> bool:
        if record.offset < max(span.at, span.wanted):
            return False
        if span.end is not None and record.offset >= span.end:
            return False
        late_enough = self._since is None or record.timestamp >= self._since
        return late_enough and (self._until is None or record.timestamp < self._until)

    def _line(self, partition: int, record: Record) -> str:
        return line_of(
            record,
            topic=self._topic,
            partition=partition,
            settings=self._lines,
            terminal=self._terminal,
        )

    def _write(self, lines: list[str]) -> None:
        if lines:
            self._progress.wipe()
            self._progress.records += len(lines)
            text = "\n".join(lines) + "\n"
            sys.stdout.buffer.write(text.encode("utf-8", errors="surrogateescape"))
            sys.stdout.flush()


def _where(topic: str, partition: int, span: Span, code: ErrorCode) -> str:
    where = f"{topic}-{partition} at offset {span.at}"
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        return f"{where}, which the broker's disk or object store does not give"
    return where


def _records(batches: Bytes) -> Iterator[tuple[int, Record | None]]:
    """Each record with the offset behind it; None for a batch's end, which gaps may precede."""
    data = memoryview(batches)
    for position, header in iter_batches(data):
        validate_stored(data, position)
        if not header.is_control:
            for record in decode_records(data[position : position + header.size_bytes]):
                yield record.offset + 1, record
        yield header.next_offset, None
