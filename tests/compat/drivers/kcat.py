"""kcat, as a process: one for each `send`, one that keeps running for each consumer.

Records that share partition, headers and null-ness go through one process. Where partitions differ
kcat chooses them itself, by key, since `-p` holds for a whole run. Its output does not tell a null
header from the word NULL; no test sends that word.
"""

import itertools
import json
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from time import monotonic
from typing import IO, Any

from tests.compat.drivers.base import (
    CLIENT_ID,
    FETCH_BYTES,
    PATIENCE_S,
    Headers,
    Record,
    Refused,
    Sending,
)

BETWEEN_RECORDS = b"\x1e"
BETWEEN_KEY_AND_VALUE = b"\x1f"
_FORMAT = r"%p %o %T %K %S %h\n%k%s\n"
_SENTENCES = {
    "Message timed out": 7,
    "Message size too large": 10,
    "Unknown topic or partition": 3,
    "Unknown partition": 3,
}


def _words(server: str, **settings: object) -> list[str]:
    program = shutil.which("kcat")
    assert program, "kcat is not installed"
    chosen: dict[str, object] = {"client.id": CLIENT_ID, "log_level": 0}
    chosen |= {name.replace("_", "."): value for name, value in settings.items()}
    pairs = [word for name, value in chosen.items() for word in ("-X", f"{name}={value}")]
    return [program, "-b", server, *pairs]


def _run(words: Sequence[str], given: bytes = b"") -> str:
    done = subprocess.run(words, input=given, capture_output=True, timeout=PATIENCE_S, check=False)
    said = done.stderr.decode()
    for sentence, code in _SENTENCES.items():
        if sentence in said:
            raise Refused(code, said)
    assert done.returncode == 0, said
    return done.stdout.decode()


def listing(server: str) -> Any:
    """What `kcat -L` tells of the cluster."""
    return json.loads(_run([*_words(server), "-L", "-J"]))


class KcatProducer:
    def __init__(self, server: str, sending: Sending) -> None:
        self._words = _words(
            server,
            compression_codec=sending.codec,
            acks=sending.acks,
            enable_idempotence=str(sending.idempotent).lower(),
            message_max_bytes=sending.bytes_max,
            linger_ms=20,
            message_timeout_ms=int(sending.patience_s * 1000),
            topic_metadata_propagation_max_ms=int(sending.patience_s * 1000),
        )

    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        same_partition = len({record.partition for record in records}) == 1
        for (headers, is_null), run in itertools.groupby(
            records, lambda record: (record.headers, record.value is None)
        ):
            words = [*self._words, "-P", "-t", topic, "-D", r"\x1e", "-K", r"\x1f"]
            words += ["-p", str(records[0].partition)] if same_partition else []
            words += ["-Z"] if is_null else []
            words += [word for pair in headers for word in ("-H", _header(pair))]
            _run(words, b"".join(_line(record) for record in run))
        return [-1] * len(records)

    def close(self) -> None:
        """Every process has ended."""


def _header(pair: tuple[str, bytes | None]) -> str:
    name, value = pair
    return name if value is None else f"{name}={value.decode()}"


def _line(record: Record) -> bytes:
    key = b"" if record.key is None else record.key + BETWEEN_KEY_AND_VALUE
    return key + (record.value or b"") + BETWEEN_RECORDS


class KcatConsumer:
    def __init__(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        offset: int | None,
        fetch_bytes: int,
    ) -> None:
        self._server = server
        self._asked = (topic, partitions[0])
        self._words = _words(
            server,
            **{"topic.auto.offset.reset": "earliest"},
            topic_metadata_refresh_interval_ms=500,
            fetch_message_max_bytes=fetch_bytes,
        )
        self._words += ["-C", "-E", "-u", "-t", topic, "-f", _FORMAT]
        self._words += ["-p", str(partitions[0])] if len(partitions) == 1 else []
        self._start("beginning" if offset is None else str(offset))

    def _start(self, offset: str) -> None:
        self._found: queue.SimpleQueue[Record] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [*self._words, "-o", offset],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        out = self._process.stdout
        assert out is not None
        while line := out.readline():
            self._found.put(_record(line, out))

    def read(self, count: int) -> list[Record]:
        found: list[Record] = []
        deadline = monotonic() + PATIENCE_S
        while len(found) < count and (left := deadline - monotonic()) > 0:
            try:
                found.append(self._found.get(timeout=left))
            except queue.Empty:
                break
        return found

    def seek(self, offset: int) -> None:
        """By another process: it cannot turn back."""
        self.close()
        self._start(str(offset))

    def offset_at(self, timestamp_ms: int) -> int | None:
        topic, partition = self._asked
        said = _run([*_words(self._server), "-Q", "-t", f"{topic}:{partition}:{timestamp_ms}"])
        match = re.search(r"offset (-?\d+)", said)
        assert match, said
        return None if int(match.group(1)) < 0 else int(match.group(1))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _record(line: bytes, out: IO[bytes]) -> Record:
    partition, offset, timestamp, key, value, headers = line[:-1].split(b" ", 5)
    key_bytes, value_bytes = int(key), int(value)
    body = out.read(max(key_bytes, 0) + max(value_bytes, 0) + 1)[:-1]
    return Record(
        key=None if key_bytes < 0 else body[:key_bytes],
        value=None if value_bytes < 0 else body[max(key_bytes, 0) :],
        headers=_headers(headers),
        partition=int(partition),
        timestamp_ms=int(timestamp),
        offset=int(offset),
    )


def _headers(text: bytes) -> Headers:
    pairs = [one.partition(b"=") for one in text.split(b",") if one]
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)


class Kcat:
    name = "kcat"

    def missing(self) -> str | None:
        return None if shutil.which("kcat") else "kcat is not installed: tests/compat/install.sh"

    def producer(self, server: str, sending: Sending) -> KcatProducer:
        return KcatProducer(server, sending)

    def consumer(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        *,
        offset: int | None = None,
        fetch_bytes: int = FETCH_BYTES,
    ) -> KcatConsumer:
        return KcatConsumer(server, topic, partitions, offset, fetch_bytes)

    def admin(self, server: str) -> None:
        """It can look, not change."""
