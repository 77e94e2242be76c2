"""The C reference server against itself: what a mutex per partition is worth.

Four connections produce to four partitions, once into one log behind one mutex, once into a log
each. Whoever compares a broker of several processes with the reference takes the second row.
"""

from contextlib import ExitStack

from benchmarks import requests, tools
from benchmarks.harness import Comparison, Sample, Size, Variant

PARTITIONS = 4
SEGMENT_MIB = 128
"""Five logs of four segments: 2.5 GiB of page cache, which a small machine has to spare."""


def comparisons(size: Size) -> list[Comparison]:
    tools.build()
    seconds = 0.5 if size.is_full else 0.05
    batch = requests.batch(value_bytes=1024, records=63)
    frames = [requests.produce(batch, partition=index) for index in range(PARTITIONS)]
    stack = ExitStack()

    def variant(logs: int) -> Variant:
        server = stack.enter_context(
            tools.ReferenceServer(size.scratch, logs=logs, segment_mib=SEGMENT_MIB)
        )
        return lambda: _drive(server, frames, seconds)

    return [
        Comparison(
            name="C reference, 64 KB produce x 4",
            variants={"one log": variant(1), "four logs": variant(PARTITIONS)},
            baseline="one log",
            unit="bytes",
            note="CPU is the server's own; the generator shares the cores",
            self_timed=True,
            close=stack.close,
        )
    ]


def _drive(server: tools.ReferenceServer, frames: list[bytes], seconds: float) -> Sample:
    before = server.cpu_s()
    result = tools.load(
        frames, ports=[server.port], seconds=seconds, connections=len(frames), depth=5
    )
    return Sample(
        units=result["sent_mb_per_s"] * result["seconds"] * 1e6,
        wall_s=result["seconds"],
        cpu_s=server.cpu_s() - before,
    )
