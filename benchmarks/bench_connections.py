"""The connection layer against the C reference: small requests, and large mapped replies.

The service behind it answers the same every time, so this is the ceiling of the whole broker: what
frames, order, budgets and sending cost, and nothing else.
"""

import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from benchmarks import requests, tools
from benchmarks.harness import Comparison, Sample, Size, Variant

REPLY_BYTES = 1 << 20
LOOPS = ("uvloop", "asyncio")


class ConnectionServer:
    """A running `connection_server`. Leaving the block ends it."""

    def __init__(self, loop: str, batch: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.connection_server", loop, str(batch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise tools.RunFailed(f"the connection server said {words} and ended")
        self.port = int(words[1])

    def cpu_s(self) -> float:
        return tools.cpu_seconds(self._process.pid)

    def __enter__(self) -> "ConnectionServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate("", timeout=10)


Server: TypeAlias = tools.ReferenceServer | ConnectionServer


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    frame: bytes
    connections: int = 1
    depth: int = 1
    unit: str = "answers"


def comparisons(size: Size) -> list[Comparison]:
    tools.build()
    stack = ExitStack()
    batch = requests.batch(value_bytes=1024, records=REPLY_BYTES // 1040)
    path = size.scratch / "batch"
    path.write_bytes(batch)
    reference = stack.enter_context(tools.ReferenceServer(size.scratch, segment_mib=64))
    tools.load([requests.produce(batch)], ports=[reference.port], requests_max=1)
    servers: dict[str, Server] = {"C": reference}
    for loop in LOOPS:
        servers[loop] = stack.enter_context(ConnectionServer(loop, path))

    fetch = requests.fetch(bytes_max=len(batch))
    kinds = [
        Kind("small requests x 16", requests.heartbeat(), connections=16),
        Kind("small requests x 1, 64 in flight", requests.heartbeat(), depth=64),
        *(
            Kind(f"1 MB replies x {count}", fetch, connections=count, unit="bytes")
            for count in (1, 4, 16)
        ),
    ]
    made = [_comparison(kind, servers, 0.5 if size.is_full else 0.05) for kind in kinds]
    # All of them share the servers, which end with the last.
    return [*made[:-1], replace(made[-1], close=stack.close)]


def _comparison(kind: Kind, servers: Mapping[str, Server], seconds: float) -> Comparison:
    def variant(server: Server) -> Variant:
        return lambda: _drive(server, kind, seconds)

    return Comparison(
        name=f"connections, {kind.name}",
        variants={name: variant(server) for name, server in servers.items()},
        baseline="C",
        unit=kind.unit,
        note="CPU is the server's own; the generator shares the cores",
        self_timed=True,
    )


def _drive(server: Server, kind: Kind, seconds: float) -> Sample:
    before = server.cpu_s()
    result = tools.load(
        [kind.frame],
        ports=[server.port],
        seconds=seconds,
        connections=kind.connections,
        depth=kind.depth,
    )
    took = result["seconds"]
    received = result["received_mb_per_s"] * took * 1e6
    return Sample(
        units=result["answers"] if kind.unit == "answers" else received,
        wall_s=took,
        cpu_s=server.cpu_s() - before,
    )
