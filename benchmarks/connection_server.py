"""The broker's connections with a service that thinks little: what a request costs at least.

    python -m benchmarks.connection_server uvloop|asyncio FILE

Prints `ready PORT`, serves until its input ends. Fetches v11 are answered with the batch in FILE,
as a mapped view, all else as a Heartbeat v1-v3 would be.
"""

import asyncio
import mmap
import sys
from struct import Struct

import uvloop

from benchmarks.requests import TOPIC
from tierlog.broker.listener import Listener
from tierlog.broker.request import Answer, Peer
from tierlog.env import local_env
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.fetch import FetchWriter

FETCH_VERSION = 11
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}

_request_head = Struct(">hhi").unpack_from
_reply_head = Struct(">ii").pack
_heartbeat = Struct(">iiih").pack


class Fixed:
    """The same answers every time."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self._batch = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        writer = FetchWriter(FETCH_VERSION, topic_count=1)
        writer.topic(TOPIC, partition_count=1)
        writer.partition(0, high_watermark=1, records=self._batch)
        *head, batch = writer.finish()
        assert batch is self._batch
        self._fetch_head = b"".join(head)
        self._fetch_bytes = 4 + len(self._fetch_head) + len(self._batch)

    def handle(self, frame: memoryview, peer: Peer) -> Answer:
        key, _, correlation_id = _request_head(frame)
        if key == ApiKey.FETCH:
            head = _reply_head(self._fetch_bytes, correlation_id) + self._fetch_head
            return [head, self._batch]
        return [_heartbeat(10, correlation_id, 0, 0)]


async def serve(path: str) -> None:
    listener = Listener(Fixed(path), local_env())
    _, port = await listener.start("127.0.0.1", 0)
    print("ready", port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await listener.drain(1.0)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
        runner.run(serve(sys.argv[2]))
