"""Segments into Parquet, against pyarrow writing the ready Arrow table to the same kind of file.

The work is what a worker process does for one segment: read it from a local file, check and unpack
every batch, make columns, write and hash the file. The baseline gets the columns ready made and
writes them with the same settings, on one core as well. MB are those of keys and values.
"""

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from benchmarks.harness import Comparison, Size
from tierlog.env import LocalDisk
from tierlog.records.attributes import Codec
from tierlog.records.record import Record, encode_batch
from tierlog.table import jobs
from tierlog.table.manifest import Source
from tierlog.table.parquet import RowsWriter, Sink, regrouped
from tierlog.table.plans import About, ConvertPlan, Range, RawPart
from tierlog.table.scan import InMemory, Tally, scan
from tierlog.types import Offset, TimestampMs

KEYS = 1000
BATCH_BYTES = 64 << 10
VALUE_BYTES = 300
KINDS = {"zstd": Codec.ZSTD, "lz4": Codec.LZ4, "no codec": Codec.NONE}
START_MS = 1_700_000_000_000
PEER = "a well-known peer's documents reckon with 5 MiB/s a core for its tables"


def comparisons(size: Size) -> Iterator[Comparison]:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for label, codec in KINDS.items():
        yield _conversion(label, codec, size)


def _conversion(label: str, codec: Codec, size: Size) -> Comparison:
    path, out = size.scratch / f"{codec.name}.log", size.scratch / f"{codec.name}.parquet"
    end = _write_segment(path, codec, size.data_bytes)
    wanted = Range(topic="events", partition=0, start=0, end=end, base=0, next_offset=end)
    scanned = scan(InMemory(path.read_bytes()), wanted, Tally())
    ready = [rows.combine_chunks() for rows in regrouped(scanned)]
    about = About(
        topic="events",
        topic_id="0" * 32,
        partition=0,
        start=0,
        end=end,
        sources=(Source("seg/0", "0" * 64),),
    )
    part = RawPart(path=str(path), size=path.stat().st_size, source="seg/0", wanted=wanted)
    plan = ConvertPlan(parts=(part,), out=str(out), dead_out=f"{out}.dead", about=about)
    made = jobs.convert(LocalDisk(), plan)
    return Comparison(
        name=f"convert a segment, {label}",
        variants={
            "pyarrow writes the ready table": _writing(ready, str(out), about),
            "convert": lambda: jobs.convert(LocalDisk(), plan),
        },
        baseline="pyarrow writes the ready table",
        hold=0.5,
        aim=0.7,
        units=made.plain_bytes,
        unit="bytes",
        note=f"{made.rows} records of {VALUE_BYTES} B JSON, batches of 64 KiB, one core; {PEER}",
        close=lambda: _removed(path, out),
    )


def _writing(ready: list[pa.Table], out: str, about: About) -> Callable[[], object]:
    def write() -> None:
        writer = RowsWriter(Sink(LocalDisk(), out), about)
        try:
            for rows in ready:
                writer.write(rows)
            writer.finish(control_records=0, dead_records=0)
        finally:
            writer.close()

    return write


def _write_segment(path: Path, codec: Codec, size: int) -> int:
    """So many plain bytes of events, as an application would write them."""
    rng, offset, written = random.Random(1), 0, 0
    with path.open("wb") as file:
        while written < size:
            records: list[Record] = []
            plain = 0
            while plain < BATCH_BYTES:
                value = _event(rng)
                key = b"user-%d" % rng.randrange(KEYS)
                time = TimestampMs(START_MS + offset + len(records))
                records.append(Record(Offset(offset + len(records)), time, key, value))
                plain += len(value) + len(key)
            file.write(encode_batch(records, base_offset=Offset(offset), codec=codec))
            offset += len(records)
            written += plain
    return offset


def _event(rng: random.Random) -> bytes:
    event = {
        "id": rng.randbytes(16).hex(),
        "type": rng.choice(("view", "click", "purchase", "search")),
        "user": f"user-{rng.randrange(KEYS)}",
        "price": rng.randrange(10_000) / 100,
        "page": f"/products/{rng.randrange(500)}/details",
        "agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    }
    return json.dumps(event).ljust(VALUE_BYTES).encode()[:VALUE_BYTES]


def _removed(*paths: Path) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)
