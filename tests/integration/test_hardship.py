"""What happens to a node from outside: killed, stopped, starved, robbed of its files. Whatever was
acknowledged is there afterwards, or a sentence says what is wrong."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.broker.requests import create, fetch, metadata, produce
from tests.hot.support import batch, values_of
from tests.integration.running import LIMIT_S, Raw, Running, framed, launch, running, within
from tierlog.hot.directory import RESERVE_BYTES
from tierlog.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

PRODUCERS = 3


class Load:
    """Producers with acks=all, until told to stop or hung up on; what was acknowledged to them."""

    def __init__(self, node: Running) -> None:
        self._node = node
        self._is_over = False
        self.acked: dict[int, list[tuple[int, bytes]]] = {n: [] for n in range(PRODUCERS)}
        """By partition: offset and value."""
        self.codes: set[int] = set()
        self._threads = [threading.Thread(target=self._produce, args=(n,)) for n in self.acked]
        for thread in self._threads:
            thread.start()

    @property
    def count(self) -> int:
        return sum(map(len, self.acked.values()))

    def stop(self) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join()

    def _produce(self, partition: int) -> None:
        number = 0
        try:
            with self._node.visit() as raw:
                while not self._is_over:
                    value = b"%d-%d " % (partition, number) + bytes(2000)
                    (topic,) = raw.ask(
                        produce("t", (partition, batch(value)), acks=-1), 9
                    ).responses
                    (told,) = topic.partition_responses
                    self.codes.add(told.error_code)
                    if told.error_code == 0:
                        self.acked[partition].append((told.base_offset, value))
                    number += 1
        except ConnectionError:
            return


def read_all(raw: Raw, partition: int) -> list[bytes]:
    values: list[bytes] = []
    while True:
        (topic,) = raw.ask(fetch("t", (partition, len(values))), 11).responses
        (told,) = topic.partitions
        assert told.error_code == 0
        if not told.records:
            return values
        values += values_of(told.records)


def assert_all_there(node: Running, load: Load) -> None:
    with node.visit() as raw:
        for partition, acked in load.acked.items():
            values = read_all(raw, partition)
            for offset, value in acked:
                assert values[offset] == value


def made(node: Running) -> Running:
    assert node.ask(create("t", partitions=PRODUCERS), 5).topics[0].error_code == 0
    return node


def test_what_was_acknowledged_survives_kill_9_under_load_again_and_again(tmp_path: Path) -> None:
    loads: list[Load] = []
    for number in range(4):
        with running(tmp_path) as node:
            if not number:
                made(node)
            for load in loads:
                assert_all_there(node, load)
            loads.append(Load(node))
            assert within(LIMIT_S, lambda: loads[-1].count >= 100)
            node.process.kill()
            loads[-1].stop()
    with running(tmp_path) as node:
        for load in loads:
            assert_all_there(node, load)


def test_sigterm_under_load_ends_clean_and_loses_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as node:
        load = Load(made(node))
        assert within(LIMIT_S, lambda: load.count >= 100)
        node.process.send_signal(signal.SIGTERM)
        assert node.end() == 0
        load.stop()
        assert "Traceback" not in node.log()
    with running(tmp_path) as node:
        assert_all_there(node, load)


def test_a_node_that_was_stopped_for_a_while_goes_on(tmp_path: Path) -> None:
    with running(tmp_path) as node:
        load = Load(made(node))
        for _ in range(3):
            seen = load.count
            assert within(LIMIT_S, lambda seen=seen: load.count >= seen + 20)
            node.process.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            node.process.send_signal(signal.SIGCONT)
        load.stop()
        assert load.codes == {0}
        assert_all_there(node, load)


def test_a_client_that_does_not_read_delays_the_end_by_the_drain_time_at_most(
    tmp_path: Path,
) -> None:
    with running(tmp_path, "--set", "tierlog.drain.timeout.ms=500") as node:
        made(node)
        with node.visit() as stuck:
            for _ in range(20):
                stuck.ask(produce("t", (0, batch(bytes(900_000))), acks=1), 9)
            stuck.send(framed(fetch("t", (0, 0)), 11) * 20)
            stuck.send(framed(fetch("t", (1, 0), wait_ms=2**31 - 1), 11))
            began = time.monotonic()
            node.process.send_signal(signal.SIGTERM)
            assert node.end() == 0
            assert time.monotonic() - began < 8
            assert "1 connections did not finish in time" in node.log()


def test_a_second_sigterm_does_not_cut_the_drain_short(tmp_path: Path) -> None:
    with running(tmp_path, "--set", "tierlog.drain.timeout.ms=600000") as node:
        made(node)
        with node.visit() as waiting:
            waiting.send(framed(fetch("t", (0, 0), wait_ms=2**31 - 1), 11))
            node.ask(metadata("t"), 9)
            node.process.send_signal(signal.SIGTERM)
            assert within(LIMIT_S, lambda: "stopping" in node.log())
            node.process.send_signal(signal.SIGTERM)
            assert node.end() == 0


def test_too_few_file_descriptors_refuse_clients_and_do_not_end_the_node(tmp_path: Path) -> None:
    with running(tmp_path, before="ulimit -n 64") as node:
        made(node)
        crowd = [node.visit() for _ in range(80)]
        for raw in crowd:
            raw.close()
        assert within(LIMIT_S, lambda: is_served(node))
        results = node.ask(create(*(f"more{n}" for n in range(100))), 5).topics
        assert node.ask(metadata("t"), 9).topics[0].error_code == 0
        assert len(results) == 100
        assert "Traceback" not in node.log()
        assert node.log().count("\n") < 200
        assert node.process.poll() is None


def is_served(node: Running) -> bool:
    try:
        return bool(node.ask(metadata("t"), 9).topics[0].error_code == 0)
    except ConnectionError:
        return False


@pytest.fixture
def served_once(tmp_path: Path) -> Path:
    """A data directory with a topic and records, its node killed."""
    with running(tmp_path) as node:
        load = Load(made(node))
        assert within(LIMIT_S, lambda: load.count >= 50)
        node.process.kill()
        load.stop()
    return tmp_path


def start_and_fail(folder: Path, *options: str) -> str:
    """The sentence of a start that must fail."""
    (folder / "node.log").unlink()
    process = launch(folder, *options)
    out, _ = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (1, "")
    said = (folder / "node.log").read_text()
    assert "Traceback" not in said
    return said


def test_a_deleted_metastore_leaves_the_logs_alone_and_names_them(served_once: Path) -> None:
    logs = sorted((served_once / "data" / "log").rglob("*.log"))
    sizes = [path.stat().st_size for path in logs]
    shutil.rmtree(served_once / "data" / "meta")
    (served_once / "node.log").unlink()
    with running(served_once) as node:
        assert node.log().count("belongs to no topic that this node knows") == PRODUCERS
    assert [path.stat().st_size for path in logs] == sizes


def test_a_damaged_metastore_is_told_and_nothing_is_served(served_once: Path) -> None:
    for path in (served_once / "data" / "meta").rglob("*"):
        if path.is_file() and path.stat().st_size > 100:
            data = bytearray(path.read_bytes())
            data[20] ^= 0x55
            path.write_bytes(data)
    assert "damaged" in start_and_fail(served_once)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MB, where this process may make one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(folder)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


MARKS = (
    *("--set", "tierlog.disk.free.min.ratio=0"),
    *("--set", "tierlog.disk.free.throttle.factor=1"),
    *("--set", "log.segment.bytes=1048576"),
    *("--set", "log.retention.ms=-1"),  # The records of these tests are years old.
)


@pytest.mark.parametrize("refuse_bytes", [0, 80 << 20])
def test_a_full_disk_refuses_writes_and_keeps_what_was_acknowledged(
    tmp_path: Path, small_disk: Path, refuse_bytes: int
) -> None:
    """By the log's own reserve, and by the watermark, which is larger."""
    marks = (
        *MARKS,
        "--data",
        f"{small_disk}/data",
        "--set",
        f"tierlog.disk.free.min.bytes={refuse_bytes}",
    )
    with running(tmp_path, *marks) as node:
        load = Load(made(node))
        assert within(60, lambda: bool(load.codes - {0}))
        load.stop()
        assert load.codes == {0, ErrorCode.KAFKA_STORAGE_ERROR}
        words = "producing is refused" if refuse_bytes else "nothing is appended"
        assert node.log().count(words) == 1
        mark = float(max(refuse_bytes, RESERVE_BYTES))
        assert f"\ntierlog_disk_refuse_below_bytes {mark}\n" in node.metrics()
        assert_all_there(node, load)
    with running(tmp_path, *marks) as node:
        assert_all_there(node, load)


def test_a_disk_without_a_byte_left_stops_neither_readers_nor_the_next_start_after(
    tmp_path: Path, small_disk: Path
) -> None:
    marks = (*MARKS, "--data", f"{small_disk}/data", "--set", "tierlog.disk.free.min.bytes=0")
    with running(tmp_path, *marks) as node:
        load = Load(made(node))
        assert within(LIMIT_S, lambda: load.count >= 100)
        ballast = fill(small_disk)
        assert within(LIMIT_S, lambda: bool(load.codes - {0}))
        load.stop()
        assert_all_there(node, load)
        (result,) = node.ask(create("more", timeout_ms=100), 5).topics
        # It is decided, and done when there is room; or there was no room to decide it.
        assert result.error_code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)
        assert node.process.poll() is None
        node.process.kill()
    assert "no space left for" in start_and_fail(tmp_path, *marks)
    ballast.unlink()
    with running(tmp_path, *marks) as node:
        assert_all_there(node, load)


def fill(folder: Path) -> Path:
    """A file that takes what is left of the disk."""
    ballast = folder / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast


def test_a_log_that_is_renamed_while_it_serves_loses_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as node:
        load = Load(made(node))
        assert within(LIMIT_S, lambda: load.count >= 50)
        os.rename(tmp_path / "data" / "log", tmp_path / "data" / "elsewhere")
        seen = load.count
        within(3, lambda: load.count >= seen + 50 or node.process.poll() is not None)
        node.process.kill()
        load.stop()
    shutil.rmtree(tmp_path / "data" / "log", ignore_errors=True)
    os.rename(tmp_path / "data" / "elsewhere", tmp_path / "data" / "log")
    with running(tmp_path) as node:
        assert_all_there(node, load)
