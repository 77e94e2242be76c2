"""The Java client, in one JVM for all tests of a process: java/Clients.java, a line for a line."""

import atexit
import functools
import hashlib
import itertools
import json
import os
import select
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.compat.drivers.base import (
    CLIENT_ID,
    FETCH_BYTES,
    PATIENCE_S,
    Record,
    Refused,
    Sending,
    dotted,
)

SOURCE = Path(__file__).parent.parent / "java"
_LIGHT = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
_ids = map(str, itertools.count())


def prepared() -> Path:
    """Where java/prepare.sh puts jars and classes of this very source."""
    cache = os.environ.get("TIERLOG_CACHE") or Path.home() / ".cache/tierlog"
    source = (SOURCE / "pom.xml").read_bytes() + (SOURCE / "Clients.java").read_bytes()
    return Path(cache) / "compat-java" / hashlib.sha256(source).hexdigest()[:16]


class Jvm:
    def __init__(self) -> None:
        ready = prepared()
        self._process = subprocess.Popen(
            ["java", *_LIGHT, "-cp", f"{ready}/classes:{ready}/jars/*", "Clients"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, do: str, id: str, **rest: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "id": id, **rest}) + "\n")
        self._process.stdin.flush()
        # One line out for one line in, so nothing can be left over in the reader's buffer.
        readable, _, _ = select.select([self._process.stdout], [], [], 3 * PATIENCE_S)
        assert readable, f"no answer to {do}"
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"], answer["message"])
        return answer

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.terminate()
        self._process.wait(PATIENCE_S)


@functools.cache
def jvm() -> Jvm:
    made = Jvm()
    atexit.register(made.close)
    return made


class _Object:
    """Something that lives in the JVM from its making to its close."""

    kind: str

    def __init__(self, **rest: Any) -> None:
        self._id = next(_ids)
        self._ask("open", **rest)

    def _ask(self, do: str, **rest: Any) -> Any:
        return jvm().ask(f"{self.kind}.{do}", self._id, **rest)

    def close(self) -> None:
        self._ask("close")


def _config(server: str, **more: Any) -> dict[str, str]:
    settings = {"bootstrap_servers": server, "client_id": CLIENT_ID, **more}
    return dotted({name: str(value) for name, value in settings.items()})


class JavaProducer(_Object):
    kind = "producer"

    def __init__(self, server: str, sending: Sending) -> None:
        config = _config(
            server,
            compression_type=sending.codec,
            acks=sending.acks,
            enable_idempotence=str(sending.idempotent).lower(),
            max_request_size=sending.bytes_max,
            linger_ms=20,
            max_block_ms=int(sending.patience_s * 1000),
        )
        super().__init__(config=config)

    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        asked = [
            {
                "partition": record.partition,
                "timestamp_ms": record.timestamp_ms,
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": [[name, _text(value)] for name, value in record.headers],
            }
            for record in records
        ]
        offsets: list[int] = self._ask("send", topic=topic, records=asked)["offsets"]
        return offsets


class JavaConsumer(_Object):
    kind = "consumer"

    def __init__(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        offset: int | None,
        fetch_bytes: int,
    ) -> None:
        config = _config(
            server,
            auto_offset_reset="earliest",
            enable_auto_commit="false",
            max_partition_fetch_bytes=fetch_bytes,
            metadata_max_age_ms=500,
        )
        super().__init__(config=config, topic=topic, partitions=list(partitions), offset=offset)

    def read(self, count: int) -> list[Record]:
        return [
            Record(
                key=_bytes(one["key"]),
                value=_bytes(one["value"]),
                headers=tuple((name, _bytes(value)) for name, value in one["headers"]),
                partition=one["partition"],
                timestamp_ms=one["timestamp_ms"],
                offset=one["offset"],
            )
            for one in self._ask("read", count=count)["records"]
        ]

    def seek(self, offset: int) -> None:
        self._ask("seek", offset=offset)

    def offset_at(self, timestamp_ms: int) -> int | None:
        offset: int | None = self._ask("times", timestamp_ms=timestamp_ms)["offset"]
        return offset


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


class JavaAdmin(_Object):
    kind = "admin"

    def __init__(self, server: str) -> None:
        super().__init__(config=_config(server))

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        self._ask("create", topic=topic, partitions=partitions, config=dotted(configs))

    def delete(self, topic: str) -> None:
        self._ask("delete", topic=topic)

    def topics(self) -> set[str]:
        return set(self._ask("list")["topics"])

    def partition_count(self, topic: str) -> int:
        return int(self._ask("partitions", topic=topic)["partitions"])

    def grow(self, topic: str, total: int) -> None:
        self._ask("grow", topic=topic, total=total)

    def configs(self, topic: str) -> Mapping[str, str | None]:
        found: dict[str, str | None] = self._ask("describe", topic=topic)["configs"]
        return found

    def alter(self, topic: str, **configs: str) -> None:
        self._ask("alter", topic=topic, config=dotted(configs))

    def trim(self, topic: str, before: int) -> int:
        return int(self._ask("trim", topic=topic, partition=0, before=before)["low"])

    def offset_of(self, topic: str, question: int) -> int | None:
        return int(self._ask("offset", topic=topic, question=question)["offset"])

    def cluster(self) -> tuple[str | None, set[str]]:
        found = self._ask("cluster")
        return found["cluster_id"], set(found["nodes"])

    def stored_bytes(self, topic: str) -> int:
        return int(self._ask("logDirs", topic=topic)["bytes"])


class Java:
    name = "java"

    def missing(self) -> str | None:
        is_there = shutil.which("java") and prepared().is_dir()
        return None if is_there else "the Java client is not prepared: tests/compat/install.sh"

    def producer(self, server: str, sending: Sending) -> JavaProducer:
        return JavaProducer(server, sending)

    def consumer(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        *,
        offset: int | None = None,
        fetch_bytes: int = FETCH_BYTES,
    ) -> JavaConsumer:
        return JavaConsumer(server, topic, partitions, offset, fetch_bytes)

    def admin(self, server: str) -> JavaAdmin:
        return JavaAdmin(server)
