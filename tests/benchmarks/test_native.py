"""The C tools against each other, and against bytes that neither of them made."""

import json
import socket
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import requests, tools
from benchmarks.harness import Unavailable

CORRUPT_MESSAGE = 2
OFFSET_OUT_OF_RANGE = 1
PATIENCE_S = 10.0


@pytest.fixture(scope="module", autouse=True)
def built() -> Path:
    try:
        return tools.build()
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tools.ReferenceServer]:
    with tools.ReferenceServer(tmp_path, segment_mib=64) as running:
        yield running


def small_batch(records: int = 3) -> bytes:
    return requests.batch(value_bytes=100, records=records)


def raw_frame(*, key: int, version: int, flexible: bool, body: bytes) -> bytes:
    """A frame whose body no codec would write."""
    head = struct.pack(">hhih", key, version, 1, 1) + b"x" + (b"\0" if flexible else b"")
    return struct.pack(">i", len(head + body)) + head + body


def exchange(port: int, frame: bytes) -> bytes:
    """One request, one answer (size prefix taken off); b"" when the server hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as peer:
        peer.sendall(frame)
        with peer.makefile("rb") as answers:
            prefix = answers.read(4)
            return answers.read(int.from_bytes(prefix, "big")) if prefix else b""


def produce_error(answer: bytes, topic: str) -> int:
    """Error code of a Produce v3-v8 answer with one partition."""
    after_topic = 4 + 4 + 2 + len(topic)  # correlation id, array, string length
    return int(struct.unpack_from(">h", answer, after_topic + 4 + 4)[0])


def run_tool(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(tools.BUILD / tool), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("shape", requests.SHAPES, ids=lambda shape: shape.name)
def test_every_shape_is_answered_without_error_and_the_log_grows_by_it(
    server: tools.ReferenceServer, shape: requests.Shape
) -> None:
    batch = requests.batch(value_bytes=shape.value_bytes, records=shape.records)
    result = tools.load(
        [requests.produce(batch)],
        ports=[server.port],
        seconds=0.3,
        connections=shape.connections,
        depth=shape.depth,
    )
    assert result["errors"] == 0
    assert result["checked"] == result["answers"] > 0
    assert result["records"] == result["log_end"] == result["answers"] * shape.records
    totals = server.stop()
    assert totals["records"] == result["records"]
    assert totals["bytes"] == result["answers"] * len(batch)


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("topic", ["t", "a topic whose name is rather long"])
def test_produce_answers_are_checked_in_every_version_and_for_any_topic_name(
    server: tools.ReferenceServer, version: int, topic: str
) -> None:
    good = requests.produce(small_batch(), version=version, topic=topic)
    result = tools.load([good], ports=[server.port], requests_max=7, depth=3)
    assert result["checked"] == result["answers"] == 7
    broken = bytearray(small_batch())
    broken[-1] ^= 1
    bad = requests.produce(bytes(broken), version=version, topic=topic)
    with pytest.raises(tools.RunFailed, match=f'"first_error": {CORRUPT_MESSAGE},'):
        tools.load([bad], ports=[server.port], requests_max=1)
    assert server.stop()["records"] == result["records"]


@pytest.mark.parametrize("version", range(4, 19))
def test_a_walk_reads_every_record_in_every_version(
    server: tools.ReferenceServer, version: int
) -> None:
    for records in (1, 7, 400):
        assert exchange(server.port, requests.produce(small_batch(records)))
    fetch = requests.fetch(bytes_max=4096, version=version)
    result = tools.load(
        [fetch], ports=[server.port], requests_max=6, options={"walk": None, "crc": None}
    )
    # 1 and 7 come together, then 400 alone (above the limit, so whole), then the empty end; twice.
    assert result["answers"] == result["checked"] == 6
    assert result["records"] == 2 * 408


def test_a_fetch_stays_within_its_byte_limit_at_a_batch_end(server: tools.ReferenceServer) -> None:
    batch = small_batch(1)
    for _ in range(200):
        exchange(server.port, requests.produce(batch))
    answer = exchange(server.port, requests.fetch(bytes_max=len(batch) * 100 + 5, version=4))
    head = 4 + 4 + 4 + 2 + len("bench") + 4 + 4 + 2 + 8 + 8 + 4
    (length,) = struct.unpack_from(">i", answer, head)
    assert length == len(batch) * 100 == len(answer) - head - 4
    offsets = [struct.unpack_from(">q", answer, head + 4 + i * len(batch))[0] for i in range(100)]
    assert offsets == list(range(100))


def test_fetched_batches_are_those_produced_but_for_their_offset(
    server: tools.ReferenceServer,
) -> None:
    batches = [small_batch(count) for count in (2, 5)]
    for batch in batches:
        exchange(server.port, requests.produce(batch))
    answer = exchange(server.port, requests.fetch(bytes_max=1 << 20, offset=4))
    assert answer.endswith(struct.pack(">q", 2) + batches[1][8:])  # offset 4 lies inside it


def test_a_walk_crosses_segments(tmp_path: Path) -> None:
    big = requests.produce(requests.batch(value_bytes=1024, records=600))
    with tools.ReferenceServer(tmp_path, segment_mib=1) as server:
        for _ in range(4):
            exchange(server.port, big)
        result = tools.load(
            [requests.fetch(bytes_max=1 << 20)],
            ports=[server.port],
            requests_max=5,
            options={"walk": None, "crc": None},
        )
    assert result["records"] == 2400


def test_an_offset_that_is_not_there_is_an_error(server: tools.ReferenceServer) -> None:
    with pytest.raises(tools.RunFailed, match=f'"first_error": {OFFSET_OUT_OF_RANGE},'):
        tools.load([requests.fetch(bytes_max=100, offset=9)], ports=[server.port], requests_max=1)


def test_partitions_have_logs_of_their_own_when_asked(tmp_path: Path) -> None:
    with tools.ReferenceServer(tmp_path, logs=2, segment_mib=1) as server:
        for partition in (0, 1, 3):
            exchange(server.port, requests.produce(small_batch(2), partition=partition))
        ends = [
            tools.load(
                [requests.produce(small_batch(1), partition=partition)],
                ports=[server.port],
                requests_max=1,
            )
            for partition in (0, 1)
        ]
    assert [end["log_end"] - end["records"] for end in ends] == [2, 4]


def test_other_requests_are_answered_in_order(server: tools.ReferenceServer) -> None:
    result = tools.load(
        [requests.heartbeat()], ports=[server.port], requests_max=500, connections=2, depth=64
    )
    assert result["answers"] == 1000
    assert result["checked"] == 0


def test_connections_take_turns_over_ports_and_requests(tmp_path: Path) -> None:
    with (
        tools.ReferenceServer(tmp_path, segment_mib=1) as one,
        tools.ReferenceServer(tmp_path, segment_mib=1) as two,
    ):
        frames = [requests.produce(small_batch(1)), requests.produce(small_batch(2))]
        result = tools.load(frames, ports=[one.port, two.port], requests_max=9, connections=4)
        assert {line["port"] for line in result["connections"]} == {one.port, two.port}
        assert [line["answers"] for line in result["connections"]] == [9, 9, 9, 9]
        assert one.stop()["records"] == 2 * 9
        assert two.stop()["records"] == 2 * 9 * 2


def test_open_loop_keeps_its_rate_and_counts_what_it_could_not_send(
    server: tools.ReferenceServer,
) -> None:
    result = tools.load(
        [requests.produce(small_batch())],
        ports=[server.port],
        seconds=0.2,
        connections=2,
        options={"rate": "500"},
    )
    assert result["answers"] + result["behind"] == 100
    assert result["records"] == result["answers"] * 3


def test_open_loop_ends_after_the_requests_asked_for(server: tools.ReferenceServer) -> None:
    result = tools.load(
        [requests.heartbeat()],
        ports=[server.port],
        requests_max=20,
        connections=2,
        options={"rate": "2000"},
    )
    assert result["answers"] == 40
    assert result["behind"] == 0


def test_percentiles_rise(server: tools.ReferenceServer) -> None:
    result = tools.load([requests.heartbeat()], ports=[server.port], requests_max=300)
    for line in [result, *result["connections"]]:
        assert 0 < line["p50_ms"] <= line["p99_ms"] <= line["p999_ms"] <= line["max_ms"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 64,
        b"\0\0\0\x04\0\0\0\x07",
        struct.pack(">i", 1 << 30),
        raw_frame(key=0, version=7, flexible=False, body=b"\xff" * 40),
        raw_frame(key=0, version=99, flexible=True, body=b""),
        raw_frame(key=1, version=11, flexible=False, body=b"\0" * 9),
        requests.produce(small_batch())[:-10] + b"\xff" * 10 + b"\x7f\xff\xff\xff\0\0\0\0",
    ],
    ids=["ones", "cut header", "huge", "bad body", "unknown version", "cut fetch", "after a frame"],
)
def test_garbage_closes_the_connection_and_the_server_lives_on(
    server: tools.ReferenceServer, garbage: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as peer:
        peer.sendall(garbage)
        with peer.makefile("rb") as answers:
            answers.read()  # ends only when the server hangs up
    assert produce_error(exchange(server.port, requests.produce(small_batch())), "bench") == 0


@pytest.mark.parametrize("place", [0, 8, 16, 17, 23, 57, 61, -1])
def test_a_batch_with_any_bad_byte_is_refused_and_not_logged(
    server: tools.ReferenceServer, place: int
) -> None:
    batch = bytearray(small_batch())
    batch[place] ^= 0xFF
    answer = exchange(server.port, requests.produce(bytes(batch)))
    # The base offset lies outside the CRC and is overwritten: no reason to refuse.
    expected = 0 if place == 0 else CORRUPT_MESSAGE
    assert produce_error(answer, "bench") == expected
    assert server.stop()["records"] == (3 if place == 0 else 0)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (struct.pack(">ii", 10, 7) + b"\0" * 6, "wrong correlation id"),
        (struct.pack(">ii", 10, 0) + b"\0" * 6, "does not parse"),
        (struct.pack(">i", 1 << 29), "larger than"),
        (b"", "closed the connection"),
    ],
    ids=["id", "body", "size", "hang up"],
)
def test_load_gives_up_on_a_server_that_answers_nonsense(
    tmp_path: Path, answer: bytes, complaint: str
) -> None:
    request = tmp_path / "request"
    request.write_bytes(requests.produce(small_batch()))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [str(tools.BUILD / "load"), "--port", str(port), "--request", str(request)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        listener.settimeout(PATIENCE_S)
        peer, _ = listener.accept()
        with peer:
            peer.recv(1 << 16)
            peer.sendall(answer)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert complaint in err
    assert json.loads(out)["broken"] == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("load", [], "--port is missing"),
        ("load", ["--port", "9"], "--request is missing"),
        ("load", ["--port", "70000"], "--port must be"),
        ("load", ["--seconds", "601"], "--seconds must be"),
        ("load", ["--depth", "x"], "--depth must be"),
        ("load", ["--request", "/nowhere/at/all"], "No such file"),
        ("load", ["--nonsense"], "usage:"),
        ("load", ["stray"], "stray"),
        ("reference_server", [], "usage:"),
        ("reference_server", ["--dir", "/tmp", "--logs", "0"], "--logs must be"),
        ("reference_server", ["--dir", "/tmp", "--seconds", "9999"], "--seconds must be"),
        ("limits", [], "usage:"),
        ("limits", ["--file", "x", "--mib", "1"], "usage:"),
    ],
)
def test_bad_arguments_exit_2_with_a_sentence(
    tool: str, arguments: list[str], complaint: str
) -> None:
    done = run_tool(tool, *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr


@pytest.mark.parametrize("tool", ["load", "reference_server", "limits"])
def test_help_explains_every_option(tool: str) -> None:
    done = run_tool(tool, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: {tool}")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "size prefix"),
        (b"\0\0\0\x02\0\0", "no request header"),
        (requests.produce(small_batch(), acks=0), "acks=0"),
        (requests.produce(b"not batches at all" * 9), "whole batches"),
        (raw_frame(key=0, version=2, flexible=False, body=b""), "version"),
        (raw_frame(key=1, version=11, flexible=False, body=b""), "not parse"),
    ],
)
def test_a_request_that_cannot_be_checked_is_refused(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "request"
    path.write_bytes(content)
    done = run_tool("load", "--port", "9", "--request", str(path))
    assert done.returncode == 2
    assert complaint in done.stderr


def test_a_walk_with_requests_in_flight_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "request"
    path.write_bytes(requests.fetch(bytes_max=1))
    done = run_tool("load", "--port", "9", "--request", str(path), "--walk", "--depth", "2")
    assert done.returncode == 2
    assert "--depth 1" in done.stderr


def test_a_port_where_nobody_listens_breaks_the_run(tmp_path: Path) -> None:
    path = tmp_path / "request"
    path.write_bytes(requests.heartbeat())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    done = run_tool("load", "--port", str(port), "--request", str(path))
    assert done.returncode == 1
    assert f"port {port}: could not connect" in done.stderr


def test_limits_prints_one_json_line_per_limit_and_removes_its_file(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    done = run_tool("limits", "--file", str(scratch), "--mib", "64")
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 12
    assert all(line["limit"] and (line.get("mb_per_s") or line["p50_ms"]) > 0 for line in lines)
    assert not scratch.exists()


def cut_fetch_answer(records: bytes) -> bytes:
    """A Fetch v4 answer of topic "t", correlation id 0, whatever the records are."""
    partition = struct.pack(">ihqqi", 0, 0, 9, 9, 0) + struct.pack(">i", len(records)) + records
    body = struct.pack(">iiih", 0, 0, 1, 1) + b"t" + struct.pack(">i", 1) + partition
    return struct.pack(">i", len(body)) + body


def answer_once(listener: socket.socket, answer: bytes) -> None:
    peer, _ = listener.accept()
    with peer:
        peer.recv(1 << 16)
        peer.sendall(answer)
        peer.recv(1 << 16)  # The generator hangs up first.


@pytest.mark.parametrize("is_allowed", [True, False])
def test_an_answer_that_ends_within_a_batch_is_right_only_where_allowed(is_allowed: bool) -> None:
    answer = cut_fetch_answer(small_batch(3) + small_batch(3)[:-1])
    fetch = requests.fetch(bytes_max=4096, topic="t", version=4)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(answer_once, listener, answer)
        port = listener.getsockname()[1]
        if is_allowed:
            result = tools.load([fetch], ports=[port], requests_max=1, options={"cut": None})
            assert result["records"] == 3
        else:
            with pytest.raises(tools.RunFailed, match="ends within a batch"):
                tools.load([fetch], ports=[port], requests_max=1)
        served.result()
